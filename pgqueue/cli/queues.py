"""``pgqueue queue``: create, list, show, update, delete, purge."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import typer

from pgqueue import QueueProperties, QueueRuntimeProperties, QueueStatus
from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import parse_duration, parse_size
from pgqueue.model.settings import UNSET, Unset

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Create, look at, change and delete queues.")

NO_BOUND = "none"


@dataclass(frozen=True)
class Given:
    """What was said for an option, where None can be said and is not the same as nothing."""

    value: Any


def _parse_bound(text: str) -> Given:
    return Given(None if text == NO_BOUND else parse_size(text))


def _parse_metadata(text: str) -> Given:
    try:
        return Given(json.loads(text))
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}") from None


Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.", show_default=False)]
LockDuration = Annotated[
    timedelta | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="How long a message is locked by who receives it, such as 30s or 5m.",
        show_default=False,
    ),
]
MaxDeliveryCount = Annotated[
    int | None,
    typer.Option(min=1, help="A message that was delivered so often is dead-lettered.", show_default=False),
]
MaxMessageSize = Annotated[
    Given | None,
    typer.Option(
        parser=_parse_bound,
        metavar="SIZE",
        help=f"The most a body and its properties may have: bytes, 64kB, 1MB; {NO_BOUND} is no bound.",
        show_default=False,
    ),
]
Status = Annotated[
    QueueStatus | None,
    typer.Option(case_sensitive=False, help="Whether it may be sent to and received from.", show_default=False),
]
UserMetadata = Annotated[
    Given | None,
    typer.Option(
        parser=_parse_metadata,
        metavar="JSON",
        help="Anything you want to keep with the queue; null is nothing.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is asked anyway.")]


@app.command("create")
@on_database
def create(
    database: Database,
    name: Name,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    max_message_size: MaxMessageSize = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="It is fine if it exists; it stays as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a queue. What is not said is 60s, 10 deliveries, no bound on the size, ACTIVE.

    pgqueue queue create orders --lock-duration 30s --max-delivery-count 5
    """
    queue = database.client.create_queue(
        name,
        lock_duration=lock_duration,
        max_delivery_count=max_delivery_count,
        max_message_size=max_message_size.value if max_message_size else None,
        status=status,
        user_metadata=user_metadata.value if user_metadata else None,
        exist_ok=exist_ok,
    )
    _tell(queue, f"queue {name} created", as_json)


@app.command("list")
@on_database
def list_(database: Database, as_json: AsJson = False) -> None:
    """List the queues and their settings. What is in them, `pgqueue stats` tells."""
    queues = database.client.list_queues()
    if as_json:
        output.document([documents.queue_document(queue) for queue in queues])
    elif queues:
        output.show(documents.queues_table(queues))
    else:
        output.hint("there is no queue yet: `pgqueue queue create NAME` makes one")


@app.command("show")
@on_database
def show(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Show one queue: its settings, and what is in it."""
    queue = database.client.get_queue(name)
    counts = database.client.get_queue_runtime_properties(name)
    if as_json:
        output.document({**documents.queue_document(queue), **documents.counts_document(counts)})
    else:
        output.show(documents.queue_record(queue, counts, database.now()))


@app.command("update")
@on_database
def update(
    database: Database,
    name: Name,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    max_message_size: MaxMessageSize = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    as_json: AsJson = False,
) -> None:
    """Change the settings that are said; the others stay. Locks in force stay as they are.

    pgqueue queue update orders --status SEND_DISABLED
    """
    if (lock_duration, max_delivery_count, max_message_size, status, user_metadata) == (None,) * 5:
        raise WrongUse("what is to be changed? See `pgqueue queue update --help`")
    queue = database.client.update_queue(
        name,
        lock_duration=_or_unset(lock_duration),
        max_delivery_count=_or_unset(max_delivery_count),
        max_message_size=max_message_size.value if max_message_size else UNSET,
        status=_or_unset(status),
        user_metadata=user_metadata.value if user_metadata else UNSET,
    )
    _tell(queue, f"queue {name} changed", as_json)


@app.command("delete")
@on_database
def delete(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a queue with all its messages and its dead letters. There is no way back."""
    counts = database.client.get_queue_runtime_properties(name)
    dead = output.counted(counts.dead_letters, "dead letter")
    _ask(f"Delete queue {name} with {_messages(counts)} and {dead}?", yes)
    database.client.delete_queue(name)
    if as_json:
        output.document({"queue": name, "deleted": True})
    else:
        output.say(f"queue {name} deleted")


@app.command("purge")
@on_database
def purge(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete all messages of a queue, locked and scheduled ones too. The queue and its dead letters stay."""
    counts = database.client.get_queue_runtime_properties(name)
    _ask(f"Delete {_messages(counts)} of {name}?", yes)
    purged = database.client.purge_queue(name)
    if as_json:
        output.document({"queue": name, "purged": purged})
    else:
        output.say(f"{output.counted(purged, 'message')} of {name} deleted")


def _tell(queue: QueueProperties, done: str, as_json: bool) -> None:
    if as_json:
        output.document(documents.queue_document(queue))
    else:
        output.say(done)
        output.show(documents.queues_table([queue]))


def _or_unset(value: T | None) -> T | Unset:
    return UNSET if value is None else value


def _messages(counts: QueueRuntimeProperties) -> str:
    return output.counted(counts.ready + counts.locked + counts.scheduled, "message")


def _ask(question: str, yes: bool) -> None:
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise Failed("nothing was deleted")
