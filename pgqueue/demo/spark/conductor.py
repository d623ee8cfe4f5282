"""The process that runs the pipeline demo: file to queue, workers, queue to lake, history to lake, report, replay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import psycopg

from pgqueue import QueueClient
from pgqueue.demo.business import NotOurs
from pgqueue.demo.flights import lines_of
from pgqueue.demo.processes import Child, start, stop
from pgqueue.demo.spark.plan import CANCELLED, DELAYS, FLIGHTS, MARK, SETTINGS, Plan, Stalled
from pgqueue.demo.spark.working import work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgqueue.spark.pipelines import Ingested, Replayed, Reported

Say = Callable[[str], None]

MESSAGE_ID = "concat_ws('/', carrier, flight, origin, month, day, sched_dep_time)"
IS_OVER = "select pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"

LOOKS_EVERY_SECONDS = 1.0
EXPORTS_EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0


class Conductor:
    """One run, step by step; ``say`` is called with a line for each event."""

    def __init__(self, plan: Plan, spark: SparkSession, client: QueueClient, say: Say) -> None:
        self._plan = plan
        self._spark = spark
        self._client = client
        self._say = say
        self._workers: list[Child] = []
        self.kills = 0

    def set_the_stage(self) -> None:
        """Create the queues; refuse to replace any that are not the demo's own."""
        with_names = {queue.name: queue for queue in self._client.list_queues()}
        for name in (FLIGHTS, DELAYS):
            if name in with_names and with_names[name].user_metadata != MARK:
                raise NotOurs(f"the queue {name} is not the demo's own: delete it, or name another database with --dsn")
            if name in with_names:
                self._client.delete_queue(name)
            self._client.create_queue(name, **SETTINGS)
        limit = self._plan.flights
        with lines_of(self._plan.origin) as lines, self._plan.source.open("wb") as source:
            source.writelines(islice(lines, None if limit is None else limit + 1))

    def ingest(self) -> Ingested:
        """Send the file to the queue; only the first call sends anything."""
        from pgqueue.spark import pipelines

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
        return done

    def work_off(self, *, accepts_cancelled: bool, kills: int = 0) -> None:
        """Run workers on the flights; meanwhile drain the delays and export the history."""
        ending = threading.Event()
        drain = Drain(self._plan, self._spark, ending)
        drain.start()
        try:
            self._fill_up(accepts_cancelled)
            self._watch(accepts_cancelled, self.kills + kills)
        finally:
            stop(self._workers)
            self._workers.clear()
            ending.set()
            drain.join()
        drain.outcome()
        self.drain()
        self._wait_for_older_transactions()
        self._export()

    def drain(self) -> None:
        """Drain what the stopped drain has left."""
        from pgqueue.spark import pipelines

        pipelines.drain(DELAYS, self._plan.lake, dsn=self._plan.dsn, spark=self._spark)

    def replay(self) -> Replayed:
        """Resubmit the dead letters to their queue."""
        from pgqueue.spark import pipelines

        self._say(f"replay: dead letters, {CANCELLED}, go back to their queue")
        replayed = pipelines.replay(
            FLIGHTS, dsn=self._plan.dsn, where=f"dead_letter_reason = '{CANCELLED}'", spark=self._spark
        )
        self._say(f"replay: {replayed.sent:,} dead letters, {CANCELLED}, are back in their queue")
        return replayed

    def report(self) -> Reported:
        from pgqueue.spark import pipelines

        reported = pipelines.report(
            self._plan.report, dsn=self._plan.dsn, title="Flights of 2013, from the file to the lake", spark=self._spark
        )
        self._say(f"report: {reported.messages:,} settled messages, {reported.page}")
        return reported

    def _watch(self, accepts_cancelled: bool, kills: int) -> None:
        total = self._waiting(FLIGHTS)
        moved_at = exported_at = time.monotonic()
        left = (total, 0)
        while left != (0, 0):
            time.sleep(LOOKS_EVERY_SECONDS)
            before, left = left, (self._waiting(FLIGHTS), self._waiting(DELAYS))
            now = time.monotonic()
            moved_at = now if left != before else moved_at
            if now - moved_at > PATIENCE_SECONDS:
                raise Stalled(f"{left[0]:,} flights and {left[1]:,} delays wait, and nothing moves")
            self._say(f"work: {left[0]:,} flights wait, {left[1]:,} delays are not in the lake yet")
            if self.kills < kills and left[0] < total * 3 / 4:
                self._kill_one()
            self._fill_up(accepts_cancelled)
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
        from pgqueue.spark import pipelines

        done = pipelines.export(self._plan.exported, dsn=self._plan.dsn, spark=self._spark)
        self._say(f"export: {done.history:,} more settled messages, {done.dead_letters:,} dead letters")

    def _waiting(self, queue: str) -> int:
        counts = self._client.get_queue_runtime_properties(queue)
        return counts.ready + counts.locked + counts.scheduled

    def _fill_up(self, accepts_cancelled: bool) -> None:
        self._workers = [worker for worker in self._workers if worker.process.is_alive()]
        while len(self._workers) < self._plan.workers:
            self._workers.append(start("a worker", work, self._plan.dsn, accepts_cancelled))

    def _kill_one(self) -> None:
        self._workers[0].kill()
        self.kills += 1
        self._say("kill: a worker, wherever it was")


class Drain(threading.Thread):
    """Drains the delays into the lake until it is stopped."""

    def __init__(self, plan: Plan, spark: SparkSession, ending: threading.Event) -> None:
        super().__init__(name="drain")
        self._plan = plan
        self._spark = spark
        self._ending = ending
        self._failure: BaseException | None = None

    def run(self) -> None:
        from pgqueue.spark import pipelines

        try:
            pipelines.drain(
                DELAYS, self._plan.lake, dsn=self._plan.dsn, follow=True, stop=self._ending, spark=self._spark
            )
        except BaseException as error:  # noqa: BLE001 (whoever joins this thread raises it)
            self._failure = error

    def outcome(self) -> None:
        """Raise the error that ended it too early, if any."""
        if self._failure is not None:
            raise self._failure
