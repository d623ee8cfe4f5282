"""Runs the demo: it sends, lets workers work, kills some of them, reads the tables, and computes the verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import Any

from rich.console import Console

from pgqueue import QueueClient
from pgqueue.demo.flights import flights
from pgqueue.demo.handling import work
from pgqueue.demo.plan import Connection, Plan, prepare
from pgqueue.demo.progress import Counts, displayed
from pgqueue.demo.sender import send_departures
from pgqueue.demo.verdict import Verdict, judge
from pgqueue.demo.workers import in_background, kill_in_transaction, raise_error_of, working
from pgqueue.transports.readable import connect

#: In seconds: a run without progress for this long ends, and its verdict shows what is missing.
PATIENCE = 60.0
PAUSE = 0.2


def run(plan: Plan, console: Console) -> Verdict:
    """Run the whole demo. Its tables and its queue stay for inspection; the next run replaces them."""
    total = sum(1 for _ in flights(plan.source, plan.flights))
    # few, so that no flight is hit again and again
    kills = min(8, total // 1000) if plan.kills is None else plan.kills
    chance = Random(plan.seed)
    stopping = threading.Event()
    with connect(plan.dsn, autocommit=True) as connection:
        with QueueClient(plan.dsn) as client:
            client.migrate()
            prepare(client, connection)
        with (
            displayed(console, total, kills) as show,
            working(plan.workers, partial(work, plan), plan.dsn) as (processes, parent),
            in_background(partial(send_departures, plan, stopping), stopping.set) as sending,
        ):
            for counts in _progress(connection, sending):
                show(counts)
                raise_error_of(sending, "the sender: ")
                raise_error_of(parent)
                # spread over the run, the last early enough for its messages to be redelivered
                if counts.kills < min(kills, int(counts.posted / total * (kills + 1) * 1.2)):
                    kill_in_transaction(connection, processes, chance)
        return judge(connection, flights=total, kills=kills)


def _progress(connection: Connection, sending: Future[Any]) -> Iterator[Counts]:
    """The counts, until everything was sent and the queue is empty, or nothing moves."""
    before, moved_at = None, time.monotonic()
    while time.monotonic() - moved_at < PATIENCE:
        all_was_sent = sending.done()  # read before the tables
        counts = Counts.read(connection)
        if counts != before:
            before, moved_at = counts, time.monotonic()
        yield counts
        if all_was_sent and counts.left == 0:
            return
        time.sleep(PAUSE)
