"""Metrics of several processes, added up."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.metrics_core import Metric

from pgqueue.worker.exposition import counts, named, summed


class Page:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def page(families: list[Metric]) -> list[str]:
    registry = CollectorRegistry()
    registry.register(Page(families))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("# HELP")]


def process(number: int) -> list[Metric]:
    registry = CollectorRegistry()
    calls = Counter("calls", "Calls.", ["path"], registry=registry)
    calls.labels("/a").inc(number)
    calls.labels(f"/{number}").inc()
    Gauge("heat", "Heat.", registry=registry).set(20 + number)
    histogram = Histogram("took", "Took.", buckets=[1], registry=registry)
    histogram.observe(number)
    Summary("size", "Size.", registry=registry).observe(number)
    return list(registry.collect())


def test_counts_are_added_and_gauges_name_their_process() -> None:
    said = page(summed([*named(process(1), 1), *named(process(2), 2)]))
    assert [line for line in said if "_created" not in line] == [
        "# TYPE calls_total counter",
        'calls_total{path="/a"} 3.0',
        'calls_total{path="/1"} 1.0',
        'calls_total{path="/2"} 1.0',
        "# TYPE heat gauge",
        'heat{process="1"} 21.0',
        'heat{process="2"} 22.0',
        "# TYPE took histogram",
        'took_bucket{le="1.0"} 1.0',
        'took_bucket{le="+Inf"} 2.0',
        "took_count 2.0",
        "took_sum 3.0",
        "# TYPE size summary",
        "size_count 2.0",
        "size_sum 3.0",
    ]


def test_a_summed_counter_has_the_start_of_the_first_process() -> None:
    first, second = process(1), process(2)
    began = [sample.value for family in first for sample in family.samples if sample.name == "calls_created"]
    total = [
        sample.value
        for family in summed([*first, *second])
        for sample in family.samples
        if sample.name == "calls_created" and sample.labels == {"path": "/a"}
    ]
    assert total == [began[0]]


def test_the_counts_of_a_dead_process_remain() -> None:
    assert {family.name for family in counts(process(1))} == {"calls", "took", "size"}
