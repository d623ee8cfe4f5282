"""Runs the pipeline demo: file to queue, workers, queue to lake, history to lake, report, replay, and a verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import psycopg

from pgqueue import QueueClient
from pgqueue.demo.flights import lines_of
from pgqueue.demo.running import replace_queue
from pgqueue.demo.spark.handling import work
from pgqueue.demo.spark.plan import CANCELLED, DELAYS, FLIGHTS, MARK, SETTINGS, Plan, Stalled
from pgqueue.demo.spark.verdict import judge
from pgqueue.demo.verdict import Check
from pgqueue.demo.workers import Workers
from pgqueue.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgqueue.spark.pipelines import Replayed, Reported

Say = Callable[[str], None]

MESSAGE_ID = "concat_ws('/', carrier, flight, origin, month, day, sched_dep_time)"
IS_OVER = "select pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"

LOOKS_EVERY_SECONDS = 1.0
EXPORTS_EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0


def run(plan: Plan, spark: SparkSession, say: Say) -> list[Check]:
    """Ingest a file; process, drain and export its messages; replay the dead letters; report.

    Raises:
        pgqueue.demo.NotOurs: a queue has a name that the demo uses, but was not created by the demo.
        pgqueue.demo.flights.SourceMissing: the package with the flights is not installed.
        pgqueue.demo.spark.plan.Stalled: there was no progress for ten minutes.
    """
    with QueueClient(plan.dsn) as client:
        client.migrate()
        demo = Demo(plan, spark, client, say)
        demo.prepare()
        demo.ingest()
        demo.ingest()  # which sends nothing
        demo.process(accepts_cancelled=False, kills=1)
        replayed = demo.replay()
        demo.process(accepts_cancelled=True)
        reported = demo.report()
        say("verdict: the answers are computed again from the file")
        dead = client.get_queue_runtime_properties(FLIGHTS).dead_letters
        return judge(plan, spark, kills=demo.kills, replayed=replayed.sent, reported=reported.messages, dead=dead)


class Demo:
    """One run, step by step; ``say`` is called with a line for each event."""

    def __init__(self, plan: Plan, spark: SparkSession, client: QueueClient, say: Say) -> None:
        self._plan = plan
        self._spark = spark
        self._client = client
        self._say = say
        self.kills = 0

    def prepare(self) -> None:
        """Create the queues, and the file."""
        for name in (FLIGHTS, DELAYS):
            replace_queue(self._client, name, MARK)
            self._client.create_queue(name, **SETTINGS)
        limit = self._plan.flights
        with lines_of(self._plan.origin) as lines, self._plan.source.open("wb") as source:
            source.writelines(islice(lines, None if limit is None else limit + 1))

    def ingest(self) -> None:
        """Send the file to the queue; only the first call sends anything."""
        begun = time.monotonic()
        done = pipelines.ingest(
            str(self._plan.source),
            FLIGHTS,
            dsn=self._plan.dsn,
            message_id=MESSAGE_ID,
            subject="carrier",
            spark=self._spark,
        )
        said = "which had been sent before" if done.done_before else f"in {time.monotonic() - begun:.1f} s"
        self._say(f"ingest: {done.sent:,} flights, {said}")

    def process(self, *, accepts_cancelled: bool, kills: int = 0) -> None:
        """Run workers on the flights; meanwhile drain the delays and export the history."""
        with (
            self._draining(),
            Workers.working(
                self._plan.workers, partial(work, self._plan.dsn, accepts_cancelled), self._plan.dsn
            ) as workers,
        ):
            self._watch(workers, self.kills + kills)
        pipelines.drain(DELAYS, self._plan.lake, dsn=self._plan.dsn, spark=self._spark)  # the rest of the stopped one
        self._wait_for_older_transactions()
        self._export()

    @contextmanager
    def _draining(self) -> Iterator[None]:
        """Drain the delays into the lake during the block; raise what ended that too early."""
        ending = threading.Event()
        drain = partial(pipelines.drain, DELAYS, self._plan.lake, dsn=self._plan.dsn, spark=self._spark)
        with ThreadPoolExecutor(1, "drain") as thread:
            draining = thread.submit(drain, follow=True, stop=ending)
            try:
                yield
            finally:
                ending.set()
        draining.result()

    def replay(self) -> Replayed:
        """Resubmit the dead letters to their queue."""
        self._say(f"replay: dead letters, {CANCELLED}, go back to their queue")
        replayed = pipelines.replay(
            FLIGHTS, dsn=self._plan.dsn, where=f"dead_letter_reason = '{CANCELLED}'", spark=self._spark
        )
        self._say(f"replay: {replayed.sent:,} dead letters, {CANCELLED}, are back in their queue")
        return replayed

    def report(self) -> Reported:
        reported = pipelines.report(
            self._plan.report, dsn=self._plan.dsn, title="Flights of 2013, from the file to the lake", spark=self._spark
        )
        self._say(f"report: {reported.messages:,} settled messages, {reported.page}")
        return reported

    def _watch(self, workers: Workers, kills: int) -> None:
        total = self._waiting(FLIGHTS)
        moved_at = exported_at = time.monotonic()
        left = (total, 0)
        while left != (0, 0):
            time.sleep(LOOKS_EVERY_SECONDS)
            workers.check()
            before, left = left, (self._waiting(FLIGHTS), self._waiting(DELAYS))
            now = time.monotonic()
            moved_at = now if left != before else moved_at
            if now - moved_at > PATIENCE_SECONDS:
                raise Stalled(f"{left[0]:,} flights and {left[1]:,} delays wait, and nothing moves")
            self._say(f"work: {left[0]:,} flights wait, {left[1]:,} delays are not in the lake yet")
            if self.kills < kills and left[0] < total * 3 / 4 and workers.kill():
                self.kills += 1
                self._say("kill: a worker, wherever it was")
            if now - exported_at > EXPORTS_EVERY_SECONDS:
                self._export()
                exported_at = time.monotonic()

    def _wait_for_older_transactions(self) -> None:
        """Wait for all older transactions: an export ends at the oldest open one in the server."""
        with psycopg.connect(self._plan.dsn, autocommit=True) as connection:
            mine = connection.execute("select pg_current_xact_id()").fetchone()
            while connection.execute(IS_OVER, mine).fetchone() != (True,):
                time.sleep(0.1)

    def _export(self) -> None:
        done = pipelines.export(self._plan.exported, dsn=self._plan.dsn, spark=self._spark)
        self._say(f"export: {done.history:,} more settled messages, {done.dead_letters:,} dead letters")

    def _waiting(self, queue: str) -> int:
        counts = self._client.get_queue_runtime_properties(queue)
        return counts.ready + counts.locked + counts.scheduled
