"""Runs the demo: it sends, lets workers work, kills some of them, reads the tables, and computes the verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random

import psycopg

from pgqueue import QueueClient
from pgqueue.demo import NotOurs, RunFailed, business, flights
from pgqueue.demo.handling import work
from pgqueue.demo.plan import LOCK_DURATION, MAX_DELIVERY_COUNT, QUEUE, Plan
from pgqueue.demo.progress import Counts, Display, read
from pgqueue.demo.sender import send_departures
from pgqueue.demo.verdict import Verdict, judge
from pgqueue.demo.workers import Workers

MARK = {"made_by": "pgqueue demo"}
ONLY_ONE = 0x666C_6967_6874  # "flight"

#: In seconds: a run without progress for this long ends, and its verdict shows what is missing.
PATIENCE = 60.0
PAUSE = 0.2


def run(plan: Plan, display: Display) -> Verdict:
    """Run the whole demo. Its tables and its queue stay for inspection; the next run replaces them."""
    total = flights.count(plan.source, plan.flights)
    kills = plan.kills_among(total)
    with psycopg.connect(plan.dsn, autocommit=True) as connection:
        with QueueClient(plan.dsn) as client:
            client.migrate()
            prepare(client, connection)
        with Workers.working(plan.workers, partial(work, plan), plan.dsn) as workers, _sending(plan) as sending:
            _watch(connection, workers, sending, display, Counts(total=total, kills_planned=kills), Random(plan.seed))
        return judge(connection, flights=total, kills=kills)


def prepare(client: QueueClient, connection: business.Connection) -> None:
    """Create the tables and the queue; refuse to replace any that are not the demo's own."""
    if connection.execute("select pg_catalog.pg_try_advisory_lock(%s)", [ONLY_ONE]).fetchone() != (True,):
        raise NotOurs("another pgqueue demo is running in this database: wait for it, or name another with --dsn")
    replace_queue(client, QUEUE, MARK)
    business.open_books(connection)
    client.create_queue(QUEUE, lock_duration=LOCK_DURATION, max_delivery_count=MAX_DELIVERY_COUNT, user_metadata=MARK)


def replace_queue(client: QueueClient, name: str, mark: dict[str, str]) -> None:
    """Delete a queue of an earlier run; refuse to delete one without the demo's mark."""
    for queue in client.list_queues():
        if queue.name == name and queue.user_metadata != mark:
            raise NotOurs(f"the queue {name} is not the demo's own: delete it, or name another database with --dsn")
        if queue.name == name:
            client.delete_queue(name)


@contextmanager
def _sending(plan: Plan) -> Iterator[Future[None]]:
    stopping = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(send_departures, plan, stopping)
        finally:
            stopping.set()


def _watch(
    connection: business.Connection,
    workers: Workers,
    sending: Future[None],
    display: Display,
    counts: Counts,
    chance: Random,
) -> None:
    """Show the progress and kill workers, until everything was sent and the queue is empty, or nothing moves."""
    moved_at = time.monotonic()
    while time.monotonic() - moved_at < PATIENCE:
        all_was_sent = sending.done()  # read before the tables
        before, counts = counts, read(connection, counts)
        display.show(counts)
        if counts != before:
            moved_at = time.monotonic()
        if all_was_sent:
            _refuse_failure(sending)
            if counts.left == 0:
                return
        workers.check()
        if counts.kills < counts.kills_due:
            _kill_one(connection, workers, chance)
        time.sleep(PAUSE)


def _refuse_failure(sending: Future[None]) -> None:
    if (error := sending.exception()) is not None:
        raise RunFailed(" ".join(f"the sender: {type(error).__name__}: {error}".split()))


def _kill_one(connection: business.Connection, workers: Workers, chance: Random) -> None:
    """Kill a process in the middle of a transaction; several attempts may be needed to find one."""
    latest = time.monotonic() + PAUSE
    while not workers.kill_in_transaction(connection, chance) and time.monotonic() < latest:
        continue
