"""``pgqueue dead-letters``: list, show, resubmit."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Annotated

import typer

from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import parse_duration
from pgqueue.cli.queues import Name

app = typer.Typer(no_args_is_help=True, help="Look at what could not be delivered or worked on, and send it back.")

AT_ONCE = 1000


@app.command("list")
@on_database
def list_(
    database: Database,
    name: Name,
    max_messages: Annotated[int, typer.Option("--max-messages", "-n", min=1, help="How many at the most.")] = 20,
    start: Annotated[
        int, typer.Option("--from", metavar="NUMBER", help="Begin with this sequence number.", show_default=False)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """List the dead letters of a queue, with the reasons, by sequence number."""
    messages = database.client.queue(name).dead_letters.peek(max_messages=max_messages, from_sequence_number=start)
    if as_json:
        output.document([documents.message_document(message) for message in messages])
    elif messages:
        output.show(documents.dead_letters_table(messages, database.now()))
    else:
        output.hint(f"{name} has no dead letters" + (f" from {start} on" if start else ""))


@app.command("show")
@on_database
def show(
    database: Database,
    name: Name,
    sequence_number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")],
    as_json: AsJson = False,
) -> None:
    """Show everything about one dead letter."""
    found = database.client.queue(name).dead_letters.peek(from_sequence_number=sequence_number)
    if not found or found[0].sequence_number != sequence_number:
        raise Failed(f"{name} has no dead letter {sequence_number}: `pgqueue dead-letters list {name}` shows them")
    if as_json:
        output.document(documents.message_document(found[0]))
    else:
        output.show(documents.message_record(found[0]))


@app.command("resubmit")
@on_database
def resubmit(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="[NUMBER]...", help="These; without any, all that fit.", show_default=False),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Those with this reason, such as MaxDeliveryCountExceeded.", show_default=False)
    ] = None,
    older_than: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="Those dead for longer, such as 1h.", show_default=False
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at the most.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to their queue, to be delivered as if for the first time.

    pgqueue dead-letters resubmit orders --reason MaxDeliveryCountExceeded --older-than 1h

    All that is said must fit; nothing said means all.
    """
    resubmitted = _resubmit(database, name, sequence_numbers or None, reason, older_than, limit)
    if as_json:
        output.document({"queue": name, "sequence_numbers": resubmitted})
    else:
        output.say(f"{output.counted(len(resubmitted), 'dead letter')} sent back to {name}")
    missing = sorted(set(sequence_numbers or ()) - set(resubmitted))
    if missing:
        raise Failed(f"not resubmitted, because not there or not fitting: {', '.join(map(str, missing))}")


def _resubmit(
    database: Database,
    name: str,
    sequence_numbers: list[int] | None,
    reason: str | None,
    older_than: timedelta | None,
    limit: int | None,
) -> list[int]:
    """In portions. What is dead-lettered anew meanwhile is left alone, or there might be no end."""
    started = time.monotonic()
    resubmitted: list[int] = []
    while limit is None or len(resubmitted) < limit:
        portion = database.client.queue(name).dead_letters.resubmit(
            sequence_numbers=sequence_numbers,
            reason=reason,
            older_than=max(older_than or timedelta(0), timedelta(seconds=time.monotonic() - started)),
            limit=AT_ONCE if limit is None else min(AT_ONCE, limit - len(resubmitted)),
        )
        resubmitted += portion
        if len(portion) < AT_ONCE:
            break
    return resubmitted
