"""Several worker processes under one parent: it starts them, replaces those that die, and answers probes for all."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from pgqueue.errors import logger
from pgqueue.model.backoff import Backoff
from pgqueue.model.schemas import DEFAULT
from pgqueue.worker.child import Report, Work, live
from pgqueue.worker.exposition import DatabaseMetrics, counts, named, of_queues, summed
from pgqueue.worker.health import Health
from pgqueue.worker.signals import interrupts_held_back, stopped_by_signals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

SPAWN = multiprocessing.get_context("spawn")

#: How often the parent checks its processes, in seconds.
TURN = 0.1
#: In seconds: the pauses between a death and the next start, and the lifetime after which they start over.
PAUSES, LONG_ENOUGH = Backoff(0.5, 30.0), 60.0
#: In seconds: how long the last reports of a dead process are read.
LAST_REPORTS = 1.0


class Child:
    """A process that was started, and its last report."""

    def __init__(self, name: str, work: Work) -> None:
        hear, speak = SPAWN.Pipe(duplex=False)
        self.process: BaseProcess = SPAWN.Process(target=live, args=(speak, work), name=name)
        with speak, interrupts_held_back():  # the child inherits this
            self.process.start()
        self.began_at = time.monotonic()
        self.report: Report | None = None
        self.reported_at = self.began_at
        self.error: Exception | None = None
        self.is_asked_to_stop = False
        self._listening = threading.Thread(target=self._listen, args=(hear,), daemon=True)
        self._listening.start()

    def _listen(self, hear: Connection) -> None:
        with hear:
            while True:
                try:
                    said = hear.recv()
                except (EOFError, OSError):  # OSError: it was killed in the middle of a report
                    return
                if isinstance(said, Report):
                    self.report, self.reported_at = said, time.monotonic()
                else:
                    self.error = said

    @property
    def has_ended(self) -> bool:
        return self.process.exitcode is not None

    def stop(self) -> None:
        if not self.is_asked_to_stop:
            self.is_asked_to_stop = True
            self.process.terminate()

    def wait_for_last_reports(self) -> None:
        """Wait for its last reports, for a short time only: a fork of it may hold the pipe open."""
        self._listening.join(LAST_REPORTS)

    @property
    def end(self) -> str:
        """How it ended, as text."""
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def loops(self, now: float) -> dict[str, timedelta]:
        """How long ago each loop completed a round; a process that has not reported yet has one loop, its start."""
        if self.report is None:
            return {"start": timedelta(seconds=now - self.began_at)}
        silence = timedelta(seconds=now - self.reported_at)
        return {name: age + silence for name, age in self.report.health.loops.items()}


@dataclass
class Place:
    """One of the places for a process: it runs there, or will be restarted."""

    number: int
    child: Child | None = None
    begins_at: float = 0.0
    #: How often in a row its process died early.
    deaths: int = 0
    trouble: str = "not started yet"

    @property
    def name(self) -> str:
        return f"process {self.number}"

    def died(self, lived: float) -> float:
        """The pause before a process that lived for this many seconds is replaced."""
        self.deaths = 1 if lived >= LONG_ENOUGH else self.deaths + 1
        return PAUSES.pause(self.deaths)


@dataclass(frozen=True)
class HealthOfAll(Health):
    """The health of all processes; not alive while one has died and is not replaced yet."""

    is_complete: bool

    @property
    def is_alive(self) -> bool:
        return self.is_complete and super().is_alive


class Processes:
    """Several processes that do the same work, until :meth:`stop`, SIGTERM or SIGINT, which stop them all."""

    def __init__(self, count: int, work: Work, dsn: str, schema: str = DEFAULT) -> None:
        self._work = work
        self._dsn, self._schema = dsn, schema
        #: By queue: the first report of a process names those that it serves.
        self._database_metrics: dict[str, DatabaseMetrics] = {}
        self._places = [Place(number) for number in range(1, count + 1)]
        self._is_stopping = False
        self._error: Exception | None = None
        self._replaced = 0
        self._past: list[Metric] = []
        self._counting = threading.Lock()

    def run(self) -> None:
        """Run until all have stopped. If one raised an error, the others are stopped, and the error is raised."""
        try:
            with stopped_by_signals(self.stop, self._kill):
                while not self._is_over():
                    time.sleep(self._turn())
        finally:
            self._kill()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Safe to call from any thread, and from a signal handler."""
        self._is_stopping = True

    @property
    def pids(self) -> list[int]:
        """The process ids of those that run."""
        children = [place.child for place in self._places]
        return [child.process.pid for child in children if child is not None and child.process.pid is not None]

    def health(self) -> Health:
        now = time.monotonic()
        children = {place.name: place.child for place in self._places}
        alive = {name: child for name, child in children.items() if child is not None}
        reports = {name: child.report.health for name, child in alive.items() if child.report is not None}
        failing = {f"{name}: {loop}": said for name, one in reports.items() for loop, said in one.failing.items()}
        missing = {} if self._is_stopping else {each.name: each.trouble for each in self._places if each.child is None}
        return HealthOfAll(
            is_stopping=self._is_stopping,
            running=sum(each.running for each in reports.values()),
            waiting=sum(each.waiting for each in reports.values()),
            overdue=sum(each.overdue for each in reports.values()),
            loops={f"{name}: {loop}": age for name, child in alive.items() for loop, age in child.loops(now).items()},
            failing={**failing, **missing},
            paused=sorted({queue for each in reports.values() for queue in each.paused}),
            is_complete=not missing,
        )

    def text(self) -> bytes:
        """The metrics of all processes in the text format; ImportError without the extra ``pgqueue-tx[otel]``."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._counting:
            children = {place.number: place.child for place in self._places}
            families = list(self._past)
            for number, child in children.items():
                if child is not None and child.report is not None:
                    families += [*child.report.metrics, *named(child.report.others, number)]
                    for queue in child.report.queues:
                        self._database_metrics.setdefault(queue, DatabaseMetrics(queue, self._dsn, self._schema))
            database_metrics = list(self._database_metrics.values())
        yield from summed(families)
        alive = GaugeMetricFamily("pgqueue_worker_processes", "Worker processes that run.", labels=["queue"])
        for metrics in database_metrics:
            alive.add_metric([metrics.queue], sum(child is not None for child in children.values()))
        yield alive
        replaced = CounterMetricFamily(
            "pgqueue_worker_processes_replaced", "Worker processes that died and were replaced.", labels=["queue"]
        )
        for metrics in database_metrics:
            replaced.add_metric([metrics.queue], self._replaced)
        yield replaced
        yield from of_queues(database_metrics)

    def _is_over(self) -> bool:
        return self._is_stopping and all(place.child is None for place in self._places)

    def _turn(self) -> float:
        for place in self._places:
            if place.child is None:
                self._begin(place)
            elif place.child.has_ended:
                self._reap(place, place.child)
            elif self._is_stopping:
                place.child.stop()
        return TURN

    def _begin(self, place: Place) -> None:
        if self._is_stopping or time.monotonic() < place.begins_at:
            return
        try:
            place.child = Child(f"pgqueue-worker-{place.number}", self._work)
        except OSError as error:
            self._pause(place, 0, f"could not be started: {error}")
            return
        self._replaced += place.deaths > 0
        logger.info("%s of %s has started: pid %s", place.name, len(self._places), place.child.process.pid)

    def _reap(self, place: Place, child: Child) -> None:
        child.wait_for_last_reports()
        with self._counting:
            place.child = None
            if child.report is not None and child.report.metrics:  # there are none without the extra
                self._past = summed([*self._past, *counts([*child.report.metrics, *child.report.others])])
        if child.error is not None:
            self._error = self._error or child.error
            self.stop()
        elif not self._is_stopping:
            self._pause(place, time.monotonic() - child.began_at, f"{child.end}: pid {child.process.pid}")

    def _pause(self, place: Place, lived: float, trouble: str) -> None:
        pause = place.died(lived)
        place.begins_at = time.monotonic() + pause
        place.trouble = trouble
        logger.warning("%s %s; another one starts in %s s", place.name, trouble, pause)

    def _kill(self) -> None:
        for place in self._places:
            if place.child is not None:
                place.child.process.kill()
