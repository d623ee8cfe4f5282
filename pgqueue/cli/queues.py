"""``pgqueue queue``: create, list, show, update, pause, resume, delete, purge."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pgqueue import QueueProperties, QueueRuntimeProperties, QueueSettings
from pgqueue.cli import documents, output
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import Group
from pgqueue.cli.output import AsJson
from pgqueue.cli.progress import working
from pgqueue.cli.settings import with_settings

app = Group(no_args_is_help=True, help="Create, look at, change and delete queues.")

Name = Annotated[
    str,
    typer.Argument(metavar="QUEUE", help="The name of the queue.", show_default=False, autocompletion=queue_names),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required where no terminal can be asked.")
]


@app.command("create")
@on_database
@with_settings
def create(
    database: Database,
    name: Name,
    settings: QueueSettings,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Do nothing if the queue exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a queue. Defaults: 60s lock, 10 deliveries, ACTIVE, no limits, no expiry.

    pgqueue queue create orders --lock-duration 30s --max-delivery-count 5
    """
    queue = database.client.create_queue(name, exist_ok=exist_ok, **settings)
    _print_queue(queue, f"queue {name} created", as_json)


@app.command("list")
@on_database
def list_(database: Database, as_json: AsJson = False) -> None:
    """List the queues and their settings, as far as they fit; `pgqueue queue show` has all.

    For the number of messages in them see `pgqueue stats`.
    """
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
@with_settings
def update(database: Database, name: Name, settings: QueueSettings, as_json: AsJson = False) -> None:
    """Change settings; options left out keep their value. Locks in force stay, and messages keep their times.

    pgqueue queue update orders --status SEND_DISABLED
    """
    if not settings:
        raise WrongUse("name at least one setting; see `pgqueue queue update --help`")
    _print_queue(database.client.update_queue(name, **settings), f"queue {name} changed", as_json)


@app.command("pause")
@on_database
def pause(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Pause a queue: it hands out nothing until it is resumed. Sending and settling go on."""
    _print_queue(database.client.pause_queue(name), f"queue {name} paused", as_json)


@app.command("resume")
@on_database
def resume(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Resume a queue that was paused."""
    _print_queue(database.client.resume_queue(name), f"queue {name} resumed", as_json)


@app.command("delete")
@on_database
def delete(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a queue with all its messages and its dead letters. There is no way back."""
    counts = database.client.get_queue_runtime_properties(name)
    dead = output.counted(counts.dead_letters, "dead letter")
    ask(f"Delete queue {name} with {_messages(counts)} and {dead}?", yes)
    database.client.delete_queue(name)
    if as_json:
        output.document({"queue": name, "deleted": True})
    else:
        output.say(f"queue {name} deleted")


@app.command("purge")
@on_database
def purge(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete all messages of a queue, locked, deferred and scheduled ones too. The queue and its dead letters stay."""
    counts = database.client.get_queue_runtime_properties(name)
    ask(f"Delete {_messages(counts)} of {name}?", yes)
    with working(f"deleting {_messages(counts)} of {name}", as_json=as_json):
        purged = database.client.purge_queue(name)
    if as_json:
        output.document({"queue": name, "purged": purged})
    else:
        output.say(f"{output.counted(purged, 'message')} of {name} deleted")


def _print_queue(queue: QueueProperties, done: str, as_json: bool) -> None:
    if as_json:
        output.document(documents.queue_document(queue))
    else:
        output.say(done)
        output.show(documents.settings_record(queue))


def _messages(counts: QueueRuntimeProperties) -> str:
    there = counts.ready + counts.locked + counts.deferred + counts.expired + counts.exhausted + counts.scheduled
    return output.counted(there, "message")


def ask(question: str, yes: bool) -> None:
    """Ask before deleting; without a terminal to ask, refuse."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongUse("nothing was deleted: without a terminal to ask for confirmation, this needs --yes")
    if not typer.confirm(question, err=True):
        raise Failed("nothing was deleted")
