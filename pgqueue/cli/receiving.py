"""``pgqueue receive``, ``peek``, ``explain`` and ``unlock``: the messages of a queue, locked or only looked at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, LiteralString

import typer
from rich.table import Table

from pgqueue import Queue, ReceivedMessage
from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import top
from pgqueue.cli.options import MaxMessages, Options, Start, duration, flag
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.queues import Name
from pgqueue.cli.settings import LockDuration
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.schemas import in_schema

SOURCE = "Which messages"
PANEL = "How to settle the messages once they are printed"


#: The name of a queue's dead letters ends with this, which a shell would take for a variable.
DEAD_LETTERS = "/$deadletterqueue"

#: SQL that the database advises, and its command.
COMMANDS: dict[LiteralString, str] = {
    "pgqueue.cancel_scheduled": "cancel {queue} {number}",
    "pgqueue.receive_deferred": "receive {queue} --deferred {number}",
    "pgqueue.cancel": "cancel {queue} {number}",
    "pgqueue.resubmit": "dead-letters resubmit {queue} {number}",
    "pgqueue.resume_queue": "queue resume {queue}",
    "pgqueue.unlock": "unlock {queue} {number}",
}

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")]

SETTLEMENTS = {
    "complete": "Complete them, which deletes them from the queue.",
    "abandon": "Abandon them: they can be received again at once; this delivery counts.",
    "defer": "Defer them: from then on only --deferred receives them.",
    "keep_locked": "Leave them locked until their locks expire; then they are delivered again. This is the default, so"
    " that no message is lost by looking.",
}
Settlements = Annotated[
    dict[str, bool],
    Options(
        {
            name: Annotated[bool, flag(name.replace("_", "-"), meaning, rich_help_panel=PANEL)]
            for name, meaning in SETTLEMENTS.items()
        },
        dict.fromkeys(SETTLEMENTS, False),
    ),
]


@on_database(top, "receive", short_help="Receive messages, print them, and settle them.")
def receive(
    database: Database,
    name: Name,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages; by default 1.")
    ] = None,
    wait: Annotated[
        timedelta | None, duration("How long to wait for the first message, such as 30s; by default not at all.")
    ] = None,
    lock_duration: LockDuration = None,
    deferred: Annotated[
        list[int] | None,
        typer.Option(
            "--deferred",
            metavar="NUMBER",
            help="The deferred message with this sequence number. May be repeated.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    dead_letters: Annotated[
        bool, flag("dead-letters", "Receive the dead letters of the queue.", rich_help_panel=SOURCE)
    ] = False,
    *,
    settlements: Settlements,
    as_json: AsJson = False,
) -> None:
    """Receive messages: lock them, print them, and then settle them as an option demands.

    pgqueue receive orders --wait 30s --complete

    pgqueue receive orders --deferred 17 --deferred 18

    Each delivery counts toward the queue's max delivery count. To look without any effect, use `pgqueue peek`.
    With the lock token that --json prints, SQL can settle a message that is still locked:
    select pgqueue.complete('orders', 7, 'a4e5…').
    """
    queue = database.client.queue(name)
    queue = queue.dead_letters if dead_letters else queue
    settlement = _settlement(queue, settlements, deferred, max_messages, wait)
    if deferred:
        received = queue.receive_deferred(deferred, lock_duration=lock_duration)
    else:
        received = queue.receive(max_messages=max_messages or 1, wait=wait, lock_duration=lock_duration)
    try:
        Result(received, picture=lambda messages: _picture(messages, database)).show(as_json=as_json)
        output.flush()
    except BaseException:
        queue.abandon_batch(received)  # none of them was printed
        raise
    if received:
        _settle(queue, received, settlement)
    elif not deferred:
        output.hint(f"nothing to receive in {queue.name} now")
    _refuse_missing(queue, deferred, received)


@on_database(top, "peek", short_help="Look at messages without touching them.")
def peek(database: Database, name: Name, max_messages: MaxMessages = 10, start: Start = 0) -> Result:
    """Look at messages without touching them, by sequence number. Nothing is locked or counted.

    Those that are locked, deferred or scheduled are shown, too; dead letters are by `pgqueue dead-letters list`.
    """
    messages = database.client.queue(name).peek(max_messages=max_messages, from_sequence_number=start)
    return Result(
        messages,
        picture=lambda found: documents.messages_table(found, database.now()),
        hint=f"there is nothing in {name}" + (f" from {start} on" if start else ""),
    )


@on_database(top, "explain")
def explain(database: Database, name: Name, sequence_number: Number) -> Result:
    """Explain why a message is delivered now, or not. Nothing is locked or changed."""
    explanation = database.client.queue(name).explain_message(sequence_number)
    document = {"queue": name, "sequence_number": sequence_number, "explanation": explanation}
    queue = name.removesuffix(DEAD_LETTERS)
    for function, command in COMMANDS.items():
        called = command.format(queue=queue, number=sequence_number)
        explanation = explanation.replace(in_schema(function, database.schema), f"`pgqueue {called}`")
    return Result(document, explanation)


@on_database(top, "unlock", short_help="Take the lock of a message away from its holder.")
def unlock(database: Database, name: Name, sequence_number: Number) -> Result:
    """Take the lock of a message away from its holder, who can settle it no more. Anyone can receive it.

    The delivery has counted: a message that was delivered as often as its queue allows goes to the dead letters.
    """
    database.client.queue(name).unlock(sequence_number)
    done = f"message {sequence_number} of {name} unlocked"
    return Result({"queue": name, "sequence_number": sequence_number, "unlocked": True}, done)


def _settlement(
    queue: Queue,
    settlements: dict[str, bool],
    deferred: list[int] | None,
    max_messages: int | None,
    wait: timedelta | None,
) -> str:
    """How to settle the messages. Contradictions are refused before anything is locked."""
    chosen = [name for name, is_chosen in settlements.items() if is_chosen]
    if len(chosen) > 1:
        raise WrongUse("use one of --complete, --abandon, --defer and --keep-locked")
    dead_letters = is_dead_letter_queue(queue.name)
    if dead_letters and "defer" in chosen:
        raise WrongUse("dead letters cannot be deferred: use --abandon to give them back")
    if dead_letters and deferred:
        raise WrongUse("dead letters are never deferred: use --dead-letters or --deferred, not both")
    if deferred and (max_messages is not None or wait is not None):
        raise WrongUse(
            "--deferred names the messages, and nothing comes to wait for: leave out --max-messages and --wait"
        )
    return chosen[0] if chosen else "keep_locked"


def _picture(received: Sequence[ReceivedMessage], database: Database) -> Table:
    if len(received) == 1:
        return documents.message_record(received[0])
    return documents.messages_table(received, database.now())


def _settle(queue: Queue, received: Sequence[ReceivedMessage], settlement: str) -> None:
    count = output.counted(len(received), "message")
    if settlement == "keep_locked":
        until = received[0].locked_until
        then = "deferred again" if received[0].is_deferred else f"back in {queue.name}"
        output.hint(f"{count} locked until {until}, then {then} (--complete or --abandon settles)")
        return
    results = getattr(queue, f"{settlement}_batch")(received)
    if lost := [str(result.sequence_number) for result in results if not result.is_settled]:
        raise Failed(f"the lock ran out before message {', '.join(lost)} was settled: take a longer --lock-duration")
    if settlement == "defer":
        numbers = "".join(f" --deferred {message.sequence_number}" for message in received)
        output.hint(f"{count} deferred; receive with `pgqueue receive {queue.name}{numbers}`")
    else:
        output.hint(f"{count} {settlement.removesuffix('e')}ed")


def _refuse_missing(queue: Queue, deferred: list[int] | None, received: Sequence[ReceivedMessage]) -> None:
    missing = sorted(set(deferred or ()) - {message.sequence_number for message in received})
    if missing:
        raise Failed(
            f"not received, because it is locked, has expired or was delivered too often: "
            f"{', '.join(map(str, missing))}; see `pgqueue peek {queue.name} --from {missing[0]}`"
        )
