"""``pgqueue stats``: how much is in the queues, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from pgqueue import QueueRuntimeProperties
from pgqueue.cli import documents, output
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import top
from pgqueue.cli.options import duration, flag
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.watching import Look, Looks

#: The lines above the rows of the table that a terminal shows: the rates, and its heading.
HEADING = 4

TRAFFIC = """
select pgqueue.clock(), n_tup_ins, n_tup_del
  from pg_catalog.pg_stat_all_tables
 where relid = 'pgqueue.message'::regclass
"""


@on_database(top, "stats", short_help="Count what is in the queues.")
def stats(
    database: Database,
    name: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only this queue; by default all.", autocompletion=queue_names)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    interval: Annotated[timedelta, duration("The interval of --watch.")] = "1s",  # type: ignore[assignment]  # typer parses it
    exact: Annotated[bool, flag("exact", "Count all messages, however many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count what is in the queues: ready to be received, locked, deferred, expired, scheduled, dead letters.

    In a large database the numbers of some queues are estimates, unless you name the queue or use --exact. With
    --watch, a terminal also shows how many messages come into all queues and go, a second, and how those ready change;
    where not all queues fit, those with the most ready. With --json, each look is a document of its own.
    """
    counts = _counts(database, name, interval if watch else None, exact=exact)
    try:
        if watch and not as_json and output.console().is_terminal:
            _animate(database, counts)
        else:
            _print(database, counts, as_json=as_json)
    except KeyboardInterrupt:
        if not watch:  # the way a watch ends
            raise


@on_database(top, "sessions", short_help="List sessions: who holds which, what waits.")
def sessions(
    database: Database,
    name: Annotated[
        str, typer.Argument(metavar="QUEUE", help="A queue that requires sessions.", autocompletion=queue_names)
    ],
) -> Result:
    """List the sessions of a queue: who holds which until when, how many messages each has, and how old they are.

    pgqueue sessions steps
    """
    nothing = f"no session of {name} is locked, has messages or state"
    return Result(database.client.queue(name).list_sessions(), picture=documents.sessions_table, hint=nothing)


def _print(database: Database, looks: Iterator[list[QueueRuntimeProperties]], *, as_json: bool) -> None:
    for counts in looks:
        if as_json:
            output.document(counts)
        else:
            output.show(documents.counts_table(counts, database.now()))
        output.flush()


def _animate(database: Database, looks: Iterator[list[QueueRuntimeProperties]]) -> None:
    """Show the looks on a screen of their own, and leave the last one behind."""
    seen = Looks()
    picture: RenderableType = ""
    try:
        with Live(console=output.console(), screen=True, auto_refresh=False) as live:
            for counts in looks:
                at, came, went = database.row(TRAFFIC)
                seen.add(Look(at, counts, came, went))
                picture = _picture(seen, counts)
                live.update(picture, refresh=True)
    finally:
        output.show(picture)


def _picture(seen: Looks, counts: list[QueueRuntimeProperties]) -> RenderableType:
    came, went = seen.rates()
    rates = Text(f"{seen.newest.at.astimezone():%H:%M:%S}  all queues: in {came:,.0f}/s, out {went:,.0f}/s")
    return Group(rates, "", documents.counts_table(that_fit(counts), seen.newest.at, seen.trends()))


def that_fit(counts: list[QueueRuntimeProperties]) -> list[QueueRuntimeProperties]:
    """All queues, or those with the most messages ready, as many as the terminal has lines for."""
    lines = max(1, output.console().height - HEADING)
    return counts if len(counts) <= lines else sorted(counts, key=lambda queue: queue.ready, reverse=True)[:lines]


def _counts(
    database: Database, name: str | None, interval: timedelta | None, *, exact: bool
) -> Iterator[list[QueueRuntimeProperties]]:
    while True:
        if name is not None:
            yield [database.client.get_queue_runtime_properties(name)]
        else:
            yield database.client.list_queues_runtime_properties(exact=exact)
        if interval is None:
            return
        time.sleep(interval.total_seconds())
