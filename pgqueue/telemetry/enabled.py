"""The recorder for OpenTelemetry. Names and attributes follow its conventions for messaging."""

from __future__ import annotations

from functools import lru_cache

from opentelemetry import metrics, trace

from pgqueue.model.message import PeekedMessage
from pgqueue.telemetry.disabled import Recorder
from pgqueue.telemetry.spans import Instruments, ProcessSpan, SendSpan

#: The API's own providers do nothing until the program sets others.
IDLE = ("opentelemetry.trace", "opentelemetry.metrics")


class OpenTelemetryRecorder(Recorder):
    """Records the spans and counts for one pair of providers."""

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        self._tracer = tracers.get_tracer("pgqueue")
        self._instruments = Instruments(meters.get_meter("pgqueue"))

    def sending(self, queue: str, count: int = 1) -> SendSpan:
        return SendSpan(self._tracer, self._instruments, queue, count)

    def processing(self, message: PeekedMessage) -> ProcessSpan:
        return ProcessSpan(self._tracer, self._instruments, message)


def current() -> OpenTelemetryRecorder | None:
    """The recorder for the providers that the program has set; None if it has set none."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    return _recorder(tracers, meters) if _is_set(tracers) or _is_set(meters) else None


def _is_set(provider: object) -> bool:
    return not type(provider).__module__.startswith(IDLE)


@lru_cache(maxsize=1)
def _recorder(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> OpenTelemetryRecorder:
    return OpenTelemetryRecorder(tracers, meters)
