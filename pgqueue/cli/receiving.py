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
from pgqueue.cli.queues import Name
from pgqueue.cli.settings import LockDuration
from pgqueue.model.names import is_dead_letter_queue

SOURCE = "Which messages"
PANEL = "How to settle the messages once they are printed"


class Afterwards(Enum):
    """The outcome of a received message."""

    KEEP_LOCKED = "locked"
    COMPLETE = "completed"
    ABANDON = "abandoned"
    DEFER = "deferred"


@on_database
def peek(
    database: Database,
    name: Name,
    max_messages: Annotated[
        int, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages.")
    ] = 10,
    start: Annotated[
        int, typer.Option("--from", metavar="NUMBER", help="Begin with this sequence number.", show_default=False)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Look at messages without touching them, by sequence number. Nothing is locked or counted.

    Those that are locked, deferred or scheduled are shown, too; dead letters are by `pgqueue dead-letters list`.
    """
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
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages; by default 1.")
    ] = None,
    wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="How long to wait for the first message, such as 30s; by default not at all.",
            show_default=False,
        ),
    ] = None,
    lock_duration: LockDuration = None,
    deferred: Annotated[
        list[int] | None,
        typer.Option(
            "--deferred",
            metavar="NUMBER",
            help="The deferred message with this sequence number. May be repeated.",
            show_default=False,
            rich_help_panel=SOURCE,
        ),
    ] = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Receive the dead letters of the queue.", rich_help_panel=SOURCE)
    ] = False,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Complete them, which deletes them from the queue.", rich_help_panel=PANEL),
    ] = False,
    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            help="Abandon them: they can be received again at once; this delivery counts.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    defer: Annotated[
        bool,
        typer.Option(
            "--defer",
            help="Defer them: from then on only --deferred receives them.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    keep_locked: Annotated[
        bool,
        typer.Option(
            "--keep-locked",
            help="Leave them locked until their locks expire; then they are delivered again. This is the default, so"
            " that no message is lost by looking.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Receive messages: lock them, print them, and then settle them as an option demands.

    pgqueue receive orders --wait 30s --complete

    pgqueue receive orders --deferred 17 --deferred 18

    Each delivery counts toward the queue's max delivery count. To look without any effect, use `pgqueue peek`.
    With the lock token that --json prints, SQL can settle a message that is still locked:
    select pgqueue.complete('orders', 7, 'a4e5…').
    """
    afterwards = _afterwards(
        {
            Afterwards.COMPLETE: complete,
            Afterwards.ABANDON: abandon,
            Afterwards.DEFER: defer,
            Afterwards.KEEP_LOCKED: keep_locked,
        }
    )
    queue = database.client.queue(name)
    queue = queue.dead_letters if dead_letters else queue
    _refuse_contradictions(queue, afterwards, deferred, max_messages, wait)
    if deferred:
        received = queue.receive_deferred(deferred, lock_duration=lock_duration)
    else:
        received = queue.receive(max_messages=max_messages or 1, wait=wait, lock_duration=lock_duration)
    try:
        _print(database, received, as_json)
        output.flush()
    except BaseException:
        queue.abandon_batch(received)  # none of them was printed
        raise
    if received:
        _settle(queue, received, afterwards)
    elif not deferred:
        output.hint(f"nothing to receive in {queue.name} now")
    _refuse_missing(queue, deferred, received)


def _afterwards(choices: dict[Afterwards, bool]) -> Afterwards:
    chosen = [afterwards for afterwards, is_chosen in choices.items() if is_chosen]
    if len(chosen) > 1:
        raise WrongUse("use one of --complete, --abandon, --defer and --keep-locked")
    return chosen[0] if chosen else Afterwards.KEEP_LOCKED


def _refuse_contradictions(
    queue: Queue,
    afterwards: Afterwards,
    deferred: list[int] | None,
    max_messages: int | None,
    wait: timedelta | None,
) -> None:
    """Before anything is locked."""
    dead_letters = is_dead_letter_queue(queue.name)
    if dead_letters and afterwards is Afterwards.DEFER:
        raise WrongUse("dead letters cannot be deferred: use --abandon to give them back")
    if dead_letters and deferred:
        raise WrongUse("dead letters are never deferred: use --dead-letters or --deferred, not both")
    if deferred and (max_messages is not None or wait is not None):
        raise WrongUse(
            "--deferred names the messages, and nothing comes to wait for: leave out --max-messages and --wait"
        )


def _print(database: Database, received: Sequence[ReceivedMessage], as_json: bool) -> None:
    if as_json:
        output.document([documents.message_document(message) for message in received])
    elif len(received) == 1:
        output.show(documents.message_record(received[0]))
    elif received:
        output.show(documents.messages_table(received, database.now()))


def _settle(queue: Queue, received: Sequence[ReceivedMessage], afterwards: Afterwards) -> None:
    count = output.counted(len(received), "message")
    match afterwards:
        case Afterwards.COMPLETE:
            _refuse_losses(queue.complete_batch(received))
        case Afterwards.ABANDON:
            _refuse_losses(queue.abandon_batch(received))
        case Afterwards.DEFER:
            _refuse_losses(queue.defer_batch(received))
            output.hint(f"{count} deferred; receive with `pgqueue receive {queue.name}{_by_number(received)}`")
            return
        case Afterwards.KEEP_LOCKED:
            until = received[0].locked_until
            then = "deferred again" if received[0].is_deferred else f"back in {queue.name}"
            output.hint(f"{count} locked until {until}, then {then} (--complete or --abandon settles)")
            return
    output.hint(f"{count} {afterwards.value}")


def _by_number(received: Sequence[ReceivedMessage]) -> str:
    return "".join(f" --deferred {message.sequence_number}" for message in received)


def _refuse_losses(results: Sequence[SettlementResult]) -> None:
    lost = [str(result.sequence_number) for result in results if not result.is_settled]
    if lost:
        raise Failed(f"the lock ran out before message {', '.join(lost)} was settled: take a longer --lock-duration")


def _refuse_missing(queue: Queue, deferred: list[int] | None, received: Sequence[ReceivedMessage]) -> None:
    missing = sorted(set(deferred or ()) - {message.sequence_number for message in received})
    if missing:
        raise Failed(
            f"not received, because it is locked, has expired or was delivered too often: "
            f"{', '.join(map(str, missing))}; see `pgqueue peek {queue.name} --from {missing[0]}`"
        )
