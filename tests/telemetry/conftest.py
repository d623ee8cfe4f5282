"""A program that has set providers of OpenTelemetry, for one test, and what these have recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pgqueue.testing import Database
from tests.patience import eventually
from tests.worker.scene import FACES, Scene


class Told:
    """The spans and metrics that the providers recorded."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def spans(self, name: str, count: int | None = None) -> Sequence[ReadableSpan]:
        """Those of that name that have ended; waits until there are so many."""
        if count is not None:
            eventually(lambda: len(self.spans(name)) >= count)
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name, 1)
        return span

    def points(self, name: str) -> Sequence[NumberDataPoint | HistogramDataPoint]:
        told = self._reader.get_metrics_data()
        found = [
            metric
            for resource in (told.resource_metrics if told else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [point for metric in found for point in metric.data.data_points]  # type: ignore[misc]  # no others here


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    told = Told()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: told.tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: told.meters)
    yield told
    told.tracers.shutdown()
    told.meters.shutdown()


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Scene]:
    with Scene(database, request.param) as scene:
        yield scene
