"""``pgqueue history``: what became of messages that are settled."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pgqueue import QueueProperties
from pgqueue.cli import documents
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import top
from pgqueue.cli.options import moment
from pgqueue.cli.output import Result
from pgqueue.cli.quantities import Moment, format_duration
from pgqueue.cli.queues import Name


class Ending(StrEnum):
    """How a message can have ended."""

    COMPLETED = "COMPLETED"
    DEAD_LETTERED = "DEAD_LETTERED"
    EXPIRED = "EXPIRED"
    RECEIVED_AND_DELETED = "RECEIVED_AND_DELETED"
    PURGED = "PURGED"
    DELETED = "DELETED"
    CANCELLED = "CANCELLED"
    MOVED = "MOVED"


@on_database(top, "history", short_help="Show what became of messages.")
def history(
    database: Database,
    name: Name,
    since: Annotated[
        Moment | None, moment("Only those settled since then: a time with its zone, or how long ago, such as 1h.")
    ] = None,
    outcome: Annotated[Ending | None, typer.Option(case_sensitive=False, help="Only those with this outcome.")] = None,
    message_id: Annotated[str | None, typer.Option(help="Only those with this message id.")] = None,
    sequence_number: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Only the one with this sequence number.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of messages.")] = 20,
) -> Result:
    """Show what became of messages, the last first, for as long as their queue retains it.

    pgqueue history orders --since 1h --outcome DEAD_LETTERED

    A message must meet every condition given. A queue keeps a history once `pgqueue queue update --retain-history` has
    set it.
    """
    queue = database.client.get_queue(name)
    settled = database.client.queue(name).history(
        since=since.before(database.now()) if since else None,
        outcome=outcome,
        message_id=message_id,
        sequence_number=sequence_number,
        limit=limit,
    )
    note = "" if settled else _nothing(queue)
    return Result(settled, picture=lambda found: documents.history_table(found, database.now()), note=note)


def _nothing(queue: QueueProperties) -> str:
    if queue.retain_history is None:
        return f"{queue.name} keeps no history: `pgqueue queue update {queue.name} --retain-history 7d` makes it"
    return f"nothing like that in the history of {queue.name}, which goes back {format_duration(queue.retain_history)}"
