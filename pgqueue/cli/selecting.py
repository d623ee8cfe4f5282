"""``pgqueue find``, ``delete``, ``cancel``, ``move`` and ``reschedule``: one message, or those that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from pgqueue import FoundMessage, Queue
from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import top
from pgqueue.cli.options import MaxMessages, Options, duration, moment
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.progress import working
from pgqueue.cli.quantities import Moment
from pgqueue.cli.queues import Name, Yes, ask
from pgqueue.cli.receiving import Number
from pgqueue.cli.sending import parse_properties
from pgqueue.errors import AccessDeniedError, MessageNotFoundError

AT_ONCE = 1000
PANEL = "Which messages"


class State(StrEnum):
    """The states of a message."""

    READY = "READY"
    SCHEDULED = "SCHEDULED"
    DEFERRED = "DEFERRED"
    EXPIRED = "EXPIRED"
    EXHAUSTED = "EXHAUSTED"
    LOCKED = "LOCKED"
    DEAD_LETTERED = "DEAD_LETTERED"


def _filter(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, rich_help_panel=PANEL, **options)


FILTERS = {
    "state": Annotated[State | None, _filter("Only those in this state.", case_sensitive=False)],
    "subject": Annotated[str | None, _filter("Only those with this subject.")],
    "older_than": Annotated[
        timedelta | None, duration("Only those sent longer ago than this, such as 1h.", rich_help_panel=PANEL)
    ],
    "properties": Annotated[
        list[str] | None,
        _filter(
            "Only those with this application property: key=text, or key:=JSON. May be repeated.",
            "--property",
            "-p",
            metavar="KEY=VALUE",
        ),
    ],
    "session_id": Annotated[str | None, _filter("Only those of this session.")],
}
Filters = Annotated[dict[str, Any], Options(FILTERS)]
Numbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="NUMBER", help="Their sequence numbers, or none where options choose them."),
]


@on_database(top, "find", short_help="Find messages by state, subject and the like.")
def find(
    database: Database,
    name: Name,
    *,
    filters: Filters,
    message_id: Annotated[str | None, _filter("Only those with this message id.")] = None,
    correlation_id: Annotated[str | None, _filter("Only those with this correlation id.")] = None,
    reason: Annotated[str | None, _filter("Only dead letters with this reason.")] = None,
    after: Annotated[int, typer.Option(metavar="NUMBER", help="Begin after this sequence number.")] = 0,
    max_messages: MaxMessages = 50,
) -> Result:
    """Find messages, by sequence number. Nothing is locked or changed.

    pgqueue find orders --state SCHEDULED --subject paid

    A message must meet every condition given. Dead letters are found with --state DEAD_LETTERED.
    """
    found = database.client.queue(name).find_messages(
        **_selection(filters),
        message_id=message_id,
        correlation_id=correlation_id,
        reason=reason,
        after=after,
        max_messages=max_messages,
    )
    return Result(
        found, picture=lambda some: documents.found_table(some, database.now()), hint=f"{name} has none like this"
    )


@on_database(top, "delete", short_help="Delete messages, by number or those that match.")
def delete(
    database: Database,
    name: Name,
    sequence_numbers: Numbers = None,
    *,
    filters: Filters,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number of messages, of those that match.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Result:
    """Delete messages that wait, are scheduled or deferred. There is no way back.

    pgqueue delete orders 4711 4712

    pgqueue delete orders --subject mail --older-than 1h

    Messages that a receiver has locked stay: `pgqueue cancel` takes them away. All of a queue: `pgqueue queue purge`.
    """
    queue = database.client.queue(name)
    if sequence_numbers:
        _refuse_both(filters)
        numbers = sorted(set(sequence_numbers))
        ask(f"Delete {output.counted(len(numbers), 'message')} of {name}?", yes)
        deleted = queue.delete_messages(numbers)
        return _done(queue, "deleted", numbers, deleted)
    _refuse_neither(filters, f"`pgqueue queue purge {name}` deletes all")
    ask(f"Delete the messages of {name} that match{_example(queue, filters)}?", yes)
    with working(f"deleting messages of {name}", as_json=as_json):
        deleted = queue.delete_matching(**_selection(filters), max_messages=limit)
    return Result({"queue": name, "deleted": deleted}, f"{output.counted(deleted, 'message')} of {name} deleted")


@on_database(top, "cancel", short_help="Cancel messages, also those being worked on.")
def cancel(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[list[int], typer.Argument(metavar="NUMBER", help="Their sequence numbers.")],
    reason: Annotated[
        str | None, typer.Option(help="Keep each as a dead letter, described by this reason; otherwise it is deleted.")
    ] = None,
) -> Result:
    """Cancel messages, whatever their state: they are not delivered, or not again.

    pgqueue cancel orders 17 18

    The holder of a message that is being worked on loses its lock. A message that an open transaction holds is left to
    it. Scheduled messages are cancelled all or none, if all are, and without a reason; the right to send suffices then.
    """
    queue = database.client.queue(name)
    numbers = sorted(set(sequence_numbers))
    cancelled = numbers if reason is None and _are_cancelled(queue, numbers) else _cancelled(queue, numbers, reason)
    left = [queue.explain_message(number) for number in numbers if number not in cancelled]
    return Result(
        {"queue": name, "cancelled": cancelled},
        f"{output.counted(len(cancelled), 'message')} of {name} cancelled",
        end=Failed("not cancelled: " + " ".join(left)) if left else None,
    )


@on_database(top, "move", short_help="Move messages to another queue.")
def move(
    database: Database,
    name: Name,
    sequence_numbers: Numbers = None,
    *,
    to: Annotated[str, typer.Option(metavar="QUEUE", help="The other queue.")],
    filters: Filters,
    as_json: AsJson = False,
) -> Result:
    """Move messages that wait, are scheduled or deferred to another queue, with their numbers and properties.

    pgqueue move orders 4711 4712 --to mails

    pgqueue move orders --subject mail --to mails

    Messages that a receiver has locked stay, and duplicates of messages there. Those that match are moved in
    transactions of a thousand each. All that will ever come: `pgqueue queue update --forward-to`.
    """
    queue = database.client.queue(name)
    if sequence_numbers:
        _refuse_both(filters)
        numbers = sorted(set(sequence_numbers))
        return _done(queue, "moved", numbers, queue.move_messages(numbers, to=to))
    _refuse_neither(filters, f"`pgqueue queue update {name} --forward-to {to}` moves all")
    if filters.get("state") == State.DEAD_LETTERED:
        raise WrongUse(
            f"dead letters cannot be moved: resubmit them first, with `pgqueue dead-letters resubmit {name}`"
        )
    with working(f"moving messages of {name}", as_json=as_json):
        moved = sum(queue.move_messages(numbers, to=to) for numbers in _matching(queue, filters))
    return Result({"queue": name, "moved": moved}, f"{output.counted(moved, 'message')} of {name} moved to {to}")


@on_database(top, "reschedule")
def reschedule(
    database: Database,
    name: Name,
    sequence_number: Number,
    at: Annotated[Moment, moment("When it is due: a time with its zone, or a duration from now, such as 10m.")],
) -> Result:
    """Give a scheduled message another time.

    pgqueue reschedule orders 4711 --at 2026-12-24T18:00+01:00
    """
    due = at.after(database.now())
    database.client.queue(name).reschedule(sequence_number, at=due)
    done = f"message {sequence_number} of {name} is due at {due}"
    return Result({"queue": name, "sequence_number": sequence_number, "scheduled_enqueue_time": due}, done)


def _selection(filters: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in filters.items() if name != "properties"}
    return {**own, "application_properties": parse_properties(filters.get("properties"))}


def _refuse_both(filters: dict[str, Any]) -> None:
    if filters:
        raise WrongUse("give numbers, or options that choose the messages, not both")


def _refuse_neither(filters: dict[str, Any], advice: str) -> None:
    if not filters:
        raise WrongUse(f"which messages? Give their numbers, or --subject and the like; {advice}")


def _example(queue: Queue, filters: dict[str, Any]) -> str:
    """The first message that would be deleted."""
    found = queue.find_messages(**_selection(filters), max_messages=1)
    return f", such as {found[0].sequence_number}" if found else ""


def _matching(queue: Queue, filters: dict[str, Any]) -> Iterator[list[int]]:
    found: Sequence[FoundMessage] = ()
    while not found or len(found) == AT_ONCE:
        after = found[-1].sequence_number if found else 0
        found = queue.find_messages(**_selection(filters), after=after, max_messages=AT_ONCE)
        if not found:
            return
        yield [message.sequence_number for message in found]


def _are_cancelled(queue: Queue, numbers: list[int]) -> bool:
    """Whether all of them were scheduled, and are cancelled: for that the right to send suffices, and is needed."""
    try:
        queue.cancel_scheduled(numbers)
    except (MessageNotFoundError, AccessDeniedError):
        return False
    return True


def _cancelled(queue: Queue, numbers: list[int], reason: str | None) -> list[int]:
    return [number for number in numbers if queue.cancel(number, reason=reason)]


def _done(queue: Queue, done: str, numbers: list[int], count: int) -> Result:
    missing = len(numbers) - count
    return Result(
        {"queue": queue.name, done: count},
        f"{output.counted(count, 'message')} of {queue.name} {done}",
        end=Failed(
            f"{output.counted(missing, 'message')} not {done}, because not there, locked, held by a transaction, or a"
            f" duplicate: `pgqueue explain {queue.name} {numbers[0]}` explains why"
        )
        if missing
        else None,
    )
