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
from pgqueue.errors import QueueNotFoundError


@on_database
def stats(
    database: Database,
    name: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="One queue; all without it.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[
        timedelta, typer.Option(parser=parse_duration, metavar="DURATION", help="How often --watch looks.")
    ] = "1s",  # type: ignore[assignment]  # typer parses it
    as_json: AsJson = False,
) -> None:
    """Count what is in the queues: ready to be received, locked, deferred, expired, scheduled, dead letters.

    With --watch and --json, each look is a document of its own.
    """
    looks = _looks(database, name, interval if watch else None)
    if watch:
        with suppress(KeyboardInterrupt):  # the way a watch ends
            _show(database, looks, as_json=as_json, animated=output.console().is_terminal)
    else:
        _show(database, looks, as_json=as_json, animated=False)


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


def _looks(database: Database, name: str | None, interval: timedelta | None) -> Iterator[list[QueueRuntimeProperties]]:
    yield _counts(database, name)
    while interval is not None:
        time.sleep(interval.total_seconds())
        yield _counts(database, name)


def _animate(database: Database, looks: Iterator[list[QueueRuntimeProperties]]) -> None:
    with Live(console=output.console(), auto_refresh=False) as live:
        for counts in looks:
            live.update(documents.counts_table(counts, database.now()), refresh=True)


def _counts(database: Database, name: str | None) -> list[QueueRuntimeProperties]:
    if name is not None:
        return [database.client.get_queue_runtime_properties(name)]
    return list(_existing(database))


def _existing(database: Database) -> Iterator[QueueRuntimeProperties]:
    for queue in database.client.list_queues():
        try:
            yield database.client.get_queue_runtime_properties(queue.name)
        except QueueNotFoundError:
            continue  # deleted since it was listed
