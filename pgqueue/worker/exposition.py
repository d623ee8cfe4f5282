"""What a scrape of Prometheus is answered: what the worker has done, how it is, and how deep its queue is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from pgqueue.errors import logger
from pgqueue.model.settings import Depth
from pgqueue.statements import queues
from pgqueue.transports import ask_once
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.health import Health

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: The database is asked for the depth of the queue at most so often, and waited for at most so long.
ASKED_EVERY = 5.0
PATIENCE = timedelta(seconds=2)

COUNTED = {
    "received": "Messages that were claimed.",
    "completed": "Messages that were handled and completed.",
    "failed": "Messages whose handler failed, or gave them back.",
    "lost": "Messages that were handled when their lock was lost.",
    "timed_out": "Handlers that ran out of their time.",
}
AT_THE_MOMENT = {
    "running": "Messages in handlers.",
    "waiting": "Messages that were claimed and wait for a handler.",
    "overdue": "Handlers that ran out of their time and ignore it.",
}
DEPTH = {
    "ready": "Messages that can be received.",
    "locked": "Messages under lock.",
    "scheduled": "Messages that rest until their time has come.",
    "dead_letters": "Dead letters.",
    "oldest_age": "How long ago the oldest message that can be received was sent; 0 when there is none.",
}


class Monitored(Protocol):
    """The driver of a worker."""

    dispatcher: Dispatcher

    def health(self) -> Health: ...


class DatabaseMetrics:
    """How deep a queue is, asked of the database on a connection that is closed again.

    Nothing while the database cannot be asked; what it said last, for a scrape that comes while another asks.
    """

    def __init__(self, queue: str, dsn: str) -> None:
        self._queue = queue
        self._ask: Callable[[], Depth] = lambda: ask_once(dsn, queues.depth(queue), PATIENCE)
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._depth: Depth | None = None

    def __call__(self) -> Depth | None:
        if self._asking.acquire(blocking=False):
            try:
                if time.monotonic() >= self._asked_at + ASKED_EVERY:
                    self._depth = self._sound()
                    self._asked_at = time.monotonic()
            finally:
                self._asking.release()
        return self._depth

    def _sound(self) -> Depth | None:
        try:
            return self._ask()
        except Exception as error:  # noqa: BLE001 - a scrape is answered in any case
            extra = {"queue": self._queue, "tracking_id": getattr(error, "tracking_id", None)}
            logger.debug("the depth of %s is left out: %s", self._queue, error, extra=extra)
            return None


class Exposition:
    """The metrics of a worker in the text format, after those of the process: what handlers count is there, too."""

    def __init__(self, worker: Monitored, queue: str, dsn: str) -> None:
        self._worker = worker
        self._queue = queue
        self._soundings = DatabaseMetrics(queue, dsn)

    def text(self) -> bytes:
        """Raises ImportError without the extra ``pgqueue-tx[otel]``."""
        from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

        own = CollectorRegistry()
        own.register(self)
        return generate_latest(REGISTRY) + generate_latest(own)

    def collect(self) -> Iterator[Metric]:
        yield from of_worker(self._worker, self._queue)
        yield from of_queue(self._queue, self._soundings())


def of_worker(worker: Monitored, queue: str) -> Iterator[Metric]:
    """What a worker has done, and how it is."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for name, meaning in COUNTED.items():
        counter = CounterMetricFamily(f"pgqueue_messages_{name}", meaning, labels=["queue"])
        counter.add_metric([queue], getattr(worker.dispatcher.tally, name))
        yield counter
    health = worker.health()
    for name, meaning in AT_THE_MOMENT.items():
        gauge = GaugeMetricFamily(f"pgqueue_worker_{name}", meaning, labels=["queue"])
        gauge.add_metric([queue], getattr(health, name))
        yield gauge
    histogram = HistogramMetricFamily("pgqueue_handling_seconds", "How long handlers take.", labels=["queue"])
    buckets, total = worker.dispatcher.durations.read()
    histogram.add_metric([queue], buckets, total)
    yield histogram


def of_queue(queue: str, depth: Depth | None) -> Iterator[Metric]:
    """How deep a queue is, where that is known."""
    from prometheus_client.core import GaugeMetricFamily

    if depth is None:
        return
    for name, meaning in DEPTH.items():
        unit = "_seconds" if name == "oldest_age" else ""
        gauge = GaugeMetricFamily(f"pgqueue_queue_{name}{unit}", meaning, labels=["queue"])
        gauge.add_metric([queue], getattr(depth, name))
        yield gauge
