"""Runs the pipeline demo: file to queue, workers, queue to lake, history to lake, report, replay, and a verdict."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg

from pgqueue import QueueClient
from pgqueue.demo import DemoError
from pgqueue.demo.flights import lines_of
from pgqueue.demo.plan import delete_queue
from pgqueue.demo.spark.handling import work
from pgqueue.demo.spark.plan import CANCELLED, DELAYS, FLIGHTS, MARK, SETTINGS, Plan
from pgqueue.demo.spark.verdict import judge
from pgqueue.demo.verdict import Check
from pgqueue.demo.workers import in_background, raise_error_of, working
from pgqueue.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]

MESSAGE_ID = "concat_ws('/', carrier, flight, origin, month, day, sched_dep_time)"
IS_OVER = "select pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"

LOOKS_EVERY_SECONDS = 1.0
EXPORTS_EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0


def run(plan: Plan, spark: SparkSession, say: Say) -> list[Check]:
    """Ingest a file; process, drain and export its messages; replay the dead letters; report.

    ``say`` is called with a line for each event.

    Raises:
        pgqueue.demo.DemoError: a queue has a name that the demo uses, but was not created by it; the package with the
            flights is not installed; or there was no progress for ten minutes.
    """
    with QueueClient(plan.dsn) as client:
        client.migrate()
        for name in (FLIGHTS, DELAYS):
            delete_queue(client, name, MARK)
            client.create_queue(name, **SETTINGS)
        with lines_of(plan.origin) as lines, plan.source.open("wb") as source:
            source.writelines(islice(lines, None if plan.flights is None else plan.flights + 1))
        demo = Demo(plan, spark, client, say)
        demo.ingest()
        demo.ingest()  # which sends nothing
        demo.process(accepts_cancelled=False, kills=1)
        say(f"replay: dead letters, {CANCELLED}, go back to their queue")
        where = f"dead_letter_reason = '{CANCELLED}'"
        replayed = pipelines.replay(FLIGHTS, dsn=plan.dsn, where=where, spark=spark).sent
        say(f"replay: {replayed:,} dead letters, {CANCELLED}, are back in their queue")
        demo.process(accepts_cancelled=True)
        title = "Flights of 2013, from the file to the lake"
        report = pipelines.report(plan.directory / "report", dsn=plan.dsn, title=title, spark=spark)
        say(f"report: {report.messages:,} settled messages, {report.page}")
        say("verdict: the answers are computed again from the file")
        dead = client.get_queue_runtime_properties(FLIGHTS).dead_letters
        return judge(plan, spark, kills=demo.kills, replayed=replayed, reported=report.messages, dead=dead)


@dataclass
class Demo:
    """The steps of a run that happen twice."""

    plan: Plan
    spark: SparkSession
    client: QueueClient
    say: Say
    kills: int = 0

    def ingest(self) -> None:
        """Send the file to the queue; only the first call sends anything."""
        begun, source = time.monotonic(), str(self.plan.source)
        done = pipelines.ingest(
            source, FLIGHTS, dsn=self.plan.dsn, message_id=MESSAGE_ID, subject="carrier", spark=self.spark
        )
        said = "which had been sent before" if done.done_before else f"in {time.monotonic() - begun:.1f} s"
        self.say(f"ingest: {done.sent:,} flights, {said}")

    def process(self, *, accepts_cancelled: bool, kills: int = 0) -> None:
        """Run workers on the flights, and kill some; meanwhile drain the delays and export the history."""
        total, exported_at = self._waiting(FLIGHTS), time.monotonic()
        stopping = threading.Event()
        drain = partial(pipelines.drain, DELAYS, self.plan.lake, dsn=self.plan.dsn, spark=self.spark)
        handle = partial(work, self.plan.dsn, accepts_cancelled)
        with (
            in_background(partial(drain, follow=True, stop=stopping), stopping.set) as draining,
            working(self.plan.workers, handle, self.plan.dsn) as (processes, parent),
        ):
            for flights, delays in self._progress(total, parent):
                self.say(f"work: {flights:,} flights wait, {delays:,} delays are not in the lake yet")
                if kills and flights < total * 3 / 4 and (pids := processes.pids):
                    os.kill(pids[0], signal.SIGKILL)
                    kills, self.kills = kills - 1, self.kills + 1
                    self.say("kill: a worker, wherever it was")
                if time.monotonic() - exported_at > EXPORTS_EVERY_SECONDS:
                    self._export()
                    exported_at = time.monotonic()
        draining.result()
        drain()  # the rest of the stopped one
        self._wait_for_older_transactions()
        self._export()

    def _progress(self, total: int, parent: Future[Any]) -> Iterator[tuple[int, int]]:
        """The flights and the delays that wait, until there are none."""
        left, moved_at = (total, 0), time.monotonic()
        while left != (0, 0):
            time.sleep(LOOKS_EVERY_SECONDS)
            raise_error_of(parent)
            before, left = left, (self._waiting(FLIGHTS), self._waiting(DELAYS))
            if left != before:
                moved_at = time.monotonic()
            if time.monotonic() - moved_at > PATIENCE_SECONDS:
                raise DemoError(f"{left[0]:,} flights and {left[1]:,} delays wait, and nothing moves")
            yield left

    def _wait_for_older_transactions(self) -> None:
        """Wait for all older transactions: an export ends at the oldest open one in the server."""
        with psycopg.connect(self.plan.dsn, autocommit=True) as connection:
            mine = connection.execute("select pg_current_xact_id()").fetchone()
            while connection.execute(IS_OVER, mine).fetchone() != (True,):
                time.sleep(0.1)

    def _export(self) -> None:
        done = pipelines.export(self.plan.exported, dsn=self.plan.dsn, spark=self.spark)
        self.say(f"export: {done.history:,} more settled messages, {done.dead_letters:,} dead letters")

    def _waiting(self, queue: str) -> int:
        counts = self.client.get_queue_runtime_properties(queue)
        return counts.ready + counts.locked + counts.scheduled
