"""``pgqueue bench``: how many messages a second one's own server takes, and how long each call takes."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer
from psycopg.rows import dict_row
from rich.table import Table

from pgqueue import Message, Queue, ReceivedMessage
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed
from pgqueue.cli.group import top
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.progress import Step, working
from pgqueue.errors import QueueAlreadyExistsError
from pgqueue.transports.readable import connect

AT_ONCE = 100
ROUND_TRIPS = 50

#: A message is locked for as long as a bench may take; one that is not received in this time never comes.
LOCK_DURATION, PATIENCE = timedelta(hours=1), timedelta(seconds=30)

SERVER = """
select current_setting('server_version') as version, current_setting('fsync') as fsync,
       current_setting('synchronous_commit') as synchronous_commit
"""


@dataclass(frozen=True)
class Measured:
    """How fast calls were; their latencies are in milliseconds."""

    what: str
    messages_per_second: float
    median: float
    p95: float
    p99: float


@on_database(top, "bench", short_help="Measure what this server does.")
def bench(
    database: Database,
    messages: Annotated[int, typer.Option("--messages", "-n", min=1, help="The messages of each measurement.")] = 1000,
    size: Annotated[int, typer.Option("--size", min=0, help="The characters in the body of a message.")] = 200,
    queue: Annotated[
        str, typer.Option("--queue", metavar="NAME", help="The queue that is created, and deleted.")
    ] = "pgqueue-bench",
    as_json: AsJson = False,
) -> Result:
    """Measure your server: messages are sent, received and completed, one by one and a hundred at once.

    One connection makes one call after the other, each a transaction of its own. The queue is created, and deleted at
    the end, also after Ctrl-C; one that exists is left alone. This writes WAL, and takes from the server what others
    may need.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not as_json:
        output.hint(f"{2 * messages:,} messages go through the queue {queue}, and through the WAL like any other.")
    with _queue_of_its_own(database, queue) as own:
        calls = Calls(6 * messages)
        with working("measuring", as_json=as_json, measure=calls.step):
            server = _server(database)
            measured = [*_measure(own, size, messages, 1, calls), *_measure(own, size, messages, AT_ONCE, calls)]
    conditions = (
        f"PostgreSQL {server['version']}, fsync {server['fsync']}, synchronous_commit {server['synchronous_commit']},"
        f" round trip {server['round_trip']:.2f} ms\n"
    )
    return Result(
        {**server, "messages": messages, "measured": measured}, conditions, lambda figures: _grid(figures["measured"])
    )


@contextmanager
def _queue_of_its_own(database: Database, name: str) -> Iterator[Queue]:
    try:
        database.client.create_queue(name, lock_duration=LOCK_DURATION)
    except QueueAlreadyExistsError as error:
        raise Failed(f"the queue {name} exists and is left alone: name another with --queue, or delete it") from error
    try:
        yield database.client.queue(name)
    finally:
        database.client.delete_queue(name)


def _server(database: Database) -> dict[str, Any]:
    """The conditions of the figures; the round trip is the median, in milliseconds."""
    with connect(database.dsn, autocommit=True, row_factory=dict_row) as connection:
        settings = connection.execute(SERVER).fetchone()
        assert settings is not None
        calls = Calls(0)
        for _ in range(ROUND_TRIPS):
            calls.make(partial(connection.execute, "select 1"), 0)
        return {**settings, "round_trip": calls.measured("select 1").median}


def _measure(queue: Queue, size: int, messages: int, at_once: int, calls: Calls) -> Iterator[Measured]:
    how = "" if at_once == 1 else f" {at_once} at once"
    message = Message("x" * size)
    for left in range(messages, 0, -at_once):
        batch = [message] * min(left, at_once)
        calls.make(partial(queue.send, message) if at_once == 1 else partial(queue.send_batch, batch), len(batch))
    yield calls.measured(f"send{how}")

    received: list[list[ReceivedMessage[Any]]] = []
    left = messages
    while left:
        received.append(calls.make(partial(queue.receive, max_messages=at_once, wait=PATIENCE)))
        if not received[-1]:
            raise Failed("messages that were sent did not come: is a transaction open for long? See `pgqueue doctor`")
        left -= len(received[-1])
    yield calls.measured(f"receive{how}")

    for locked in received:
        calls.make(locked[0].complete if at_once == 1 else partial(queue.complete_batch, locked), len(locked))
    yield calls.measured(f"complete{how}")


class Calls:
    """Makes calls one after the other, and measures them."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._since = 0
        self._times: list[float] = []

    def make(self, call: Callable[[], Any], messages: int | None = None) -> Any:
        """Make a call that is about so many messages, or as many as it returns."""
        began = time.perf_counter()
        result = call()
        self._times.append(time.perf_counter() - began)
        self._done += len(result) if messages is None else messages
        return result

    def step(self) -> Step:
        """How many of the messages of all measurements are through."""
        return Step("measuring", self._done, self._total)

    def measured(self, what: str) -> Measured:
        """The figures of the calls since the last figures."""
        times, self._times = sorted(self._times), []
        messages, self._since = self._done - self._since, self._done
        return Measured(what, round(messages / sum(times), 1), *(_percentile(times, share) for share in (50, 95, 99)))


def _percentile(times: Sequence[float], share: int) -> float:
    """Of sorted seconds, in milliseconds."""
    return round(times[min(len(times) * share // 100, len(times) - 1)] * 1000, 3)


def _grid(measured: Sequence[Measured]) -> Table:
    rows = [
        (each.what, round(each.messages_per_second), *(f"{time:,.2f} ms" for time in (each.median, each.p95, each.p99)))
        for each in measured
    ]
    grid = output.table(("", "messages/s", "median", "95th", "99th"), rows)
    for column in grid.columns[2:]:
        column.justify = "right"
    return grid
