"""``pgqueue stats``: how much is in the queues, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Annotated

import typer
from rich.live import Live

from pgqueue import QueueRuntimeProperties
from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import parse_duration

#: The lines of the table above its rows, and the one below that a terminal needs.
HEADING = 4


@on_database
def stats(
    database: Database,
    name: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Only this queue; by default all.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    interval: Annotated[
        timedelta, typer.Option(parser=parse_duration, metavar="DURATION", help="The interval of --watch.")
    ] = "1s",  # type: ignore[assignment]  # typer parses it
    exact: Annotated[bool, typer.Option("--exact", help="Count all messages, however many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count what is in the queues: ready to be received, locked, deferred, expired, scheduled, dead letters.

    In a large database the numbers of some queues are estimates, unless you name the queue or say --exact. With
    --watch, a terminal shows those with the most messages ready where not all fit; with --json, each look is a document
    of its own.
    """
    looks = _looks(database, name, interval if watch else None, exact=exact)
    if watch:
        with suppress(KeyboardInterrupt):  # the way a watch ends
            _show(database, looks, as_json=as_json, animated=output.console().is_terminal)
    else:
        _show(database, looks, as_json=as_json, animated=False)


@on_database
def sessions(
    database: Database,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="A queue that requires sessions.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """List the sessions of a queue: who holds which until when, how many messages each has, and how old they are.

    pgqueue sessions steps
    """
    found = database.client.queue(name).list_sessions()
    if as_json:
        output.document([documents.session_document(session) for session in found])
    elif found:
        output.show(documents.sessions_table(found))
    else:
        output.hint(f"no session of {name} is locked, has messages or state")


def _show(database: Database, looks: Iterator[list[QueueRuntimeProperties]], *, as_json: bool, animated: bool) -> None:
    if as_json:
        for counts in looks:
            output.document([documents.counts_document(one) for one in counts])
            output.flush()
    elif animated:
        _animate(database, looks)
    else:
        for counts in looks:
            output.show(documents.counts_table(counts, database.now()))
            output.flush()


def _looks(
    database: Database, name: str | None, interval: timedelta | None, *, exact: bool
) -> Iterator[list[QueueRuntimeProperties]]:
    yield _counts(database, name, exact=exact)
    while interval is not None:
        time.sleep(interval.total_seconds())
        yield _counts(database, name, exact=exact)


def _animate(database: Database, looks: Iterator[list[QueueRuntimeProperties]]) -> None:
    with Live(console=output.console(), auto_refresh=False) as live:
        for counts in looks:
            live.update(documents.counts_table(that_fit(counts), database.now()), refresh=True)


def that_fit(counts: list[QueueRuntimeProperties]) -> list[QueueRuntimeProperties]:
    """All queues, or those with the most messages ready, as many as the terminal has lines for."""
    lines = max(1, output.console().height - HEADING)
    return counts if len(counts) <= lines else sorted(counts, key=lambda queue: queue.ready, reverse=True)[:lines]


def _counts(database: Database, name: str | None, *, exact: bool) -> list[QueueRuntimeProperties]:
    if name is not None:
        return [database.client.get_queue_runtime_properties(name)]
    return database.client.list_queues_runtime_properties(exact=exact)
