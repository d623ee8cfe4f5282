"""``pgqueue queue``: create, list, show, update, limit-group, pause, resume, delete, purge."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pgqueue import GroupLimits, QueueRuntimeProperties
from pgqueue.cli import documents, output
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import Given, flag
from pgqueue.cli.output import AsJson, Result, plain
from pgqueue.cli.progress import working
from pgqueue.cli.quantities import parse_count, parse_rate
from pgqueue.cli.settings import Settings, or_none

app = Group(no_args_is_help=True, help="Create, look at, change and delete queues.")
top.add_typer(app, name="queue")

Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.", autocompletion=queue_names)]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required where no terminal can be asked.")
]


@on_database(app, "create")
def create(
    database: Database,
    name: Name,
    settings: Settings,
    exist_ok: Annotated[bool, flag("exist-ok", "Do nothing if the queue exists.")] = False,
) -> Result:
    """Create a queue. Defaults: 60s lock, 10 deliveries, ACTIVE, no limits, no expiry.

    pgqueue queue create orders --lock-duration 30s --max-delivery-count 5
    """
    queue = database.client.create_queue(name, exist_ok=exist_ok, **settings)
    return Result(queue, f"queue {name} {presence(exist_ok)}", documents.settings_record)


@on_database(app, "list")
def list_(database: Database) -> Result:
    """List the queues and their settings, as far as they fit; `pgqueue queue show` has all.

    For the number of messages in them see `pgqueue stats`.
    """
    nothing = "there is no queue yet: `pgqueue queue create NAME` makes one"
    return Result(database.client.list_queues(), picture=documents.queues_table, hint=nothing)


@on_database(app, "show")
def show(database: Database, name: Name) -> Result:
    """Show one queue: its settings, and what is in it."""
    queue = database.client.get_queue(name)
    counts = database.client.get_queue_runtime_properties(name)
    both = {**plain(queue), **plain(counts)}
    return Result(both, picture=lambda _: documents.queue_record(queue, counts, database.now()))


@on_database(app, "update")
def update(database: Database, name: Name, settings: Settings) -> Result:
    """Change settings; options left out keep their value. Locks in force stay, and messages keep their times.

    pgqueue queue update orders --status SEND_DISABLED
    """
    if not settings:
        raise WrongUse("name at least one setting; see `pgqueue queue update --help`")
    queue = database.client.update_queue(name, **settings)
    return Result(queue, f"queue {name} changed", documents.settings_record)


@on_database(app, "limit-group")
def limit_group(
    database: Database,
    name: Name,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The id of the group.")],
    max_concurrent: Annotated[
        Given | None,
        typer.Option(
            parser=or_none(parse_count), metavar="NUMBER", help="How many of its messages are handed out at a time."
        ),
    ] = None,
    max_receive_rate: Annotated[
        Given | None,
        typer.Option(
            parser=or_none(parse_rate), metavar="NUMBER", help="How many of its messages are handed out a second."
        ),
    ] = None,
) -> Result:
    """Set the limits of one group; options left out are those of the queue, none is no limit.

    pgqueue queue limit-group orders tenant-7 --max-concurrent 10 --max-receive-rate none
    """
    limits = GroupLimits()
    if max_concurrent is not None:
        limits["max_concurrent"] = max_concurrent.value
    if max_receive_rate is not None:
        limits["max_receive_rate"] = max_receive_rate.value
    database.client.set_group_limits(name, group, **limits)
    return Result({"queue": name, "group_id": group, **limits}, f"limits of group {group} of {name} set")


@on_database(app, "pause")
def pause(database: Database, name: Name) -> Result:
    """Pause a queue: it hands out nothing until it is resumed. Sending and settling go on."""
    return Result(database.client.pause_queue(name), f"queue {name} paused", documents.settings_record)


@on_database(app, "resume")
def resume(database: Database, name: Name) -> Result:
    """Resume a queue that was paused."""
    return Result(database.client.resume_queue(name), f"queue {name} resumed", documents.settings_record)


@on_database(app, "delete")
def delete(database: Database, name: Name, yes: Yes = False) -> Result:
    """Delete a queue with all its messages and its dead letters. There is no way back."""
    counts = database.client.get_queue_runtime_properties(name)
    dead = output.counted(counts.dead_letters, "dead letter")
    ask(f"Delete queue {name} with {_messages(counts)} and {dead}?", yes)
    database.client.delete_queue(name)
    return Result({"queue": name, "deleted": True}, f"queue {name} deleted")


@on_database(app, "purge")
def purge(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> Result:
    """Delete all messages of a queue, locked, deferred and scheduled ones too. The queue and its dead letters stay."""
    counts = database.client.get_queue_runtime_properties(name)
    ask(f"Delete {_messages(counts)} of {name}?", yes)
    with working(f"deleting {_messages(counts)} of {name}", as_json=as_json):
        purged = database.client.purge_queue(name)
    return Result({"queue": name, "purged": purged}, f"{output.counted(purged, 'message')} of {name} deleted")


def _messages(counts: QueueRuntimeProperties) -> str:
    there = counts.ready + counts.locked + counts.deferred + counts.expired + counts.exhausted + counts.scheduled
    return output.counted(there, "message")


def presence(exist_ok: bool) -> str:
    """The verb of the line that ``create`` prints."""
    return "exists" if exist_ok else "created"


def ask(question: str, yes: bool) -> None:
    """Ask before deleting; without a terminal to ask, refuse."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongUse("nothing was deleted: without a terminal to ask for confirmation, this needs --yes")
    if not typer.confirm(question, err=True):
        raise Failed("nothing was deleted")
