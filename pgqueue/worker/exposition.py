"""The metrics for Prometheus: a worker's counts, its health, and the depth of its queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from pgqueue.errors import logger
from pgqueue.model.schemas import DEFAULT
from pgqueue.model.settings import Depth
from pgqueue.statements import queues
from pgqueue.transports import ask_once
from pgqueue.worker.health import Monitored

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: In seconds: the shortest interval between queries for the queue's depth, and the longest wait for one.
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
    "paused": "1 while the queue is paused, and hands out nothing.",
}

#: The types whose samples can be added up.
COUNTS = ("counter", "histogram", "summary")

Key = tuple[str, tuple[tuple[str, str], ...]]


class DatabaseMetrics:
    """The depth of a queue, read on a connection that is then closed.

    There is no depth while the database cannot be reached. A scrape during another one's query gets the last depth.
    """

    def __init__(self, queue: str, dsn: str, schema: str) -> None:
        self.queue = queue
        self._ask: Callable[[], Depth] = lambda: ask_once(dsn, queues.depth(queue), PATIENCE, schema)
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._depth: Depth | None = None

    def __call__(self) -> Depth | None:
        if self._asking.acquire(blocking=False):
            try:
                if time.monotonic() >= self._asked_at + ASKED_EVERY:
                    self._depth = self._read_depth()
                    self._asked_at = time.monotonic()
            finally:
                self._asking.release()
        return self._depth

    def _read_depth(self) -> Depth | None:
        try:
            return self._ask()
        except Exception as error:  # noqa: BLE001 - a scrape is answered in any case
            extra = {"queue": self.queue, "tracking_id": getattr(error, "tracking_id", None)}
            logger.debug("the depth of %s is left out: %s", self.queue, error, extra=extra)
            return None


class Exposition:
    """The metrics of the process, which include those of the handlers, and of the worker, in the text format."""

    def __init__(self, worker: Monitored, dsn: str, schema: str = DEFAULT) -> None:
        self._worker = worker
        self._database_metrics = [DatabaseMetrics(service.queue, dsn, schema) for service in worker.services]

    def text(self) -> bytes:
        """Raises ImportError without the extra ``pgqueue-tx[otel]``."""
        from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

        own = CollectorRegistry()
        own.register(self)
        return generate_latest(REGISTRY) + generate_latest(own)

    def collect(self) -> Iterator[Metric]:
        yield from of_worker(self._worker)
        yield from of_queues(self._database_metrics)


def of_worker(worker: Monitored) -> Iterator[Metric]:
    """The metrics of a worker: its counts and its health."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for name, meaning in COUNTED.items():
        counter = CounterMetricFamily(f"pgqueue_messages_{name}", meaning, labels=["queue"])
        for service in worker.services:
            counter.add_metric([service.queue], getattr(service.dispatcher.tally, name))
        yield counter
    for name, meaning in AT_THE_MOMENT.items():
        gauge = GaugeMetricFamily(f"pgqueue_worker_{name}", meaning, labels=["queue"])
        for service in worker.services:
            gauge.add_metric([service.queue], getattr(service.handlers, name))
        yield gauge
    histogram = HistogramMetricFamily("pgqueue_handling_seconds", "How long handlers take.", labels=["queue"])
    for service in worker.services:
        buckets, total = service.dispatcher.durations.read()
        histogram.add_metric([service.queue], buckets, total)
    yield histogram


def of_queues(database_metrics: Iterable[DatabaseMetrics]) -> Iterator[Metric]:
    """The metrics of queues, where their depth is known."""
    yield from of_depths({each.queue: depth for each in database_metrics if (depth := each()) is not None})


def of_depths(depths: Mapping[str, Depth]) -> Iterator[Metric]:
    """The metrics of queues of these depths."""
    from prometheus_client.core import GaugeMetricFamily

    if not depths:
        return
    for name, meaning in DEPTH.items():
        unit = "_seconds" if name == "oldest_age" else ""
        gauge = GaugeMetricFamily(f"pgqueue_queue_{name}{unit}", meaning, labels=["queue"])
        for queue, depth in depths.items():
            gauge.add_metric([queue], getattr(depth, name))
        yield gauge


def counts(families: Iterable[Metric]) -> Iterator[Metric]:
    """The metrics that are kept of a process that has ended."""
    return (family for family in families if family.type in COUNTS)


def named(families: Iterable[Metric], process: int) -> Iterator[Metric]:
    """The handlers' own metrics, their gauges labelled with the process: a sum may be meaningless."""
    from prometheus_client.metrics_core import Metric

    for family in families:
        if family.type in COUNTS:
            yield family
            continue
        marked = Metric(family.name, family.documentation, family.type)
        marked.samples = [
            sample._replace(labels={"process": str(process), **sample.labels}) for sample in family.samples
        ]
        yield marked


def summed(families: Iterable[Metric]) -> list[Metric]:
    """One family for each name, with one sample for each name and labels."""
    from prometheus_client.metrics_core import Metric

    sums: dict[str, Metric] = {}
    samples: dict[str, dict[Key, float]] = {}
    for family in families:
        sums.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        values = samples.setdefault(family.name, {})
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            values[key] = _together(sample.name, values[key], sample.value) if key in values else sample.value
    for name, total in sums.items():
        for (sample_name, labels), value in samples[name].items():
            total.add_sample(sample_name, dict(labels), value)
    return list(sums.values())


def _together(name: str, one: float, other: float) -> float:
    """The sum of two counts, or the earlier of two times of creation."""
    return min(one, other) if name.endswith("_created") else one + other
