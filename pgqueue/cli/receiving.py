"""``pgqueue receive`` and ``pgqueue peek``: looking into a queue, with a lock and without."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import Enum
from typing import Annotated

import typer

from pgqueue import Queue, ReceivedMessage, SettlementResult
from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import parse_duration
from pgqueue.cli.queues import LockDuration, Name

PANEL = "What becomes of the messages once they are printed"


class Afterwards(Enum):
    """What becomes of a received message."""

    KEEP_LOCKED = "locked"
    COMPLETE = "completed"
    ABANDON = "abandoned"


@on_database
def peek(
    database: Database,
    name: Name,
    max_messages: Annotated[int, typer.Option("--max-messages", "-n", min=1, help="How many at the most.")] = 10,
    start: Annotated[
        int, typer.Option("--from", metavar="NUMBER", help="Begin with this sequence number.", show_default=False)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Look at messages without touching them, the locked ones too, by sequence number. Nothing is locked or counted."""
    messages = database.client.queue(name).peek(max_messages=max_messages, from_sequence_number=start)
    if as_json:
        output.document([documents.message_document(message) for message in messages])
    elif messages:
        output.show(documents.messages_table(messages, database.now()))
    else:
        output.hint(f"there is nothing in {name}" + (f" from {start} on" if start else ""))


@on_database
def receive(
    database: Database,
    name: Name,
    max_messages: Annotated[int, typer.Option("--max-messages", "-n", min=1, help="How many at the most.")] = 1,
    wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="Wait so long for the first, such as 30s; without it, not at all.",
            show_default=False,
        ),
    ] = None,
    lock_duration: LockDuration = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Complete them: they are gone from the queue.", rich_help_panel=PANEL)
    ] = False,
    abandon: Annotated[
        bool,
        typer.Option("--abandon", help="Give them back at once; this delivery has counted.", rich_help_panel=PANEL),
    ] = False,
    keep_locked: Annotated[
        bool,
        typer.Option(
            "--keep-locked",
            help="Leave them locked until the lock runs out; then they come back. This is what happens unless you say"
            " otherwise, so that nothing is ever lost by looking.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Receive messages: lock them, print them, and then do with them what you say.

    pgqueue receive orders --wait 30s --complete

    Each delivery counts toward the queue's max delivery count. To look without any effect, use `pgqueue peek`.
    With the lock token that --json prints, SQL can settle a message that is still locked:
    select pgqueue.complete('orders', 7, 'a4e5…').
    """
    afterwards = _afterwards(complete, abandon, keep_locked)
    queue = database.client.queue(name)
    received = queue.receive(max_messages=max_messages, wait=wait, lock_duration=lock_duration)
    try:
        _print(database, name, received, as_json)
        output.flush()
    except BaseException:
        queue.abandon_batch(received)  # nobody has seen them
        raise
    if received:
        _settle(queue, received, afterwards)


def _afterwards(complete: bool, abandon: bool, keep_locked: bool) -> Afterwards:
    if complete + abandon + keep_locked > 1:
        raise WrongUse("say one of --complete, --abandon and --keep-locked")
    return Afterwards.COMPLETE if complete else Afterwards.ABANDON if abandon else Afterwards.KEEP_LOCKED


def _print(database: Database, name: str, received: Sequence[ReceivedMessage], as_json: bool) -> None:
    if as_json:
        output.document([documents.message_document(message) for message in received])
    elif len(received) == 1:
        output.show(documents.message_record(received[0]))
    elif received:
        output.show(documents.messages_table(received, database.now()))
    else:
        output.hint(f"nothing to receive in {name} now")


def _settle(queue: Queue, received: Sequence[ReceivedMessage], afterwards: Afterwards) -> None:
    count = output.counted(len(received), "message")
    match afterwards:
        case Afterwards.COMPLETE:
            _refuse_losses(queue.complete_batch(received))
        case Afterwards.ABANDON:
            _refuse_losses(queue.abandon_batch(received))
        case Afterwards.KEEP_LOCKED:
            until = received[0].locked_until
            output.hint(f"{count} locked until {until}, then back in {queue.name} (--complete or --abandon settles)")
            return
    output.hint(f"{count} {afterwards.value}")


def _refuse_losses(results: Sequence[SettlementResult]) -> None:
    lost = [str(result.sequence_number) for result in results if not result.is_settled]
    if lost:
        raise Failed(f"the lock ran out before message {', '.join(lost)} was settled: take a longer --lock-duration")
