"""OpenTelemetry: a span, a count and a duration of each send and handling, by its conventions for messaging."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.trace import Link, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pgqueue.errors import MessageNotReadableError
from pgqueue.model.message import PeekedMessage
from pgqueue.telemetry.disabled import Processing, Recorder, Sending

#: The API's own providers do nothing until the program sets others.
IDLE = ("opentelemetry.trace", "opentelemetry.metrics")

W3C = TraceContextTextMapPropagator()

Attributes = dict[str, Any]


class Instruments:
    """The counters and histograms, by queue."""

    def __init__(self, meter: Meter) -> None:
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent, or tried to."
        )
        self.send_duration = meter.create_histogram(
            "messaging.client.operation.duration", "s", "How long sends take, until their outcome is known."
        )
        self.processed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Messages that handlers have returned from, or failed on.",
        )
        self.process_duration = meter.create_histogram(
            "messaging.process.duration", "s", "How long the handling of a message takes, with all tries."
        )


class SendSpan(Sending):
    """A span ``send <queue>``; all messages of the send carry it as W3C trace context."""

    def __init__(self, tracer: Tracer, instruments: Instruments, queue: str, count: int) -> None:
        self._instruments = instruments
        self._count = count
        self._described = _described("send", queue)
        size = {"messaging.batch.message_count": count} if count > 1 else {}
        self._span = tracer.start_span(f"send {queue}", kind=SpanKind.PRODUCER, attributes={**self._described, **size})
        self._marked: AbstractContextManager[Any] | None = None
        self._began = time.perf_counter()
        carrier: dict[str, str] = {}
        W3C.inject(carrier, trace.set_span_in_context(self._span))
        self.trace = carrier

    def __enter__(self) -> Self:
        self._marked = _marked(self._span)
        self._marked.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._marked is not None
        self._marked.__exit__(None, None, None)
        self._end(error)

    def stored(self, numbers: Sequence[int]) -> None:
        if len(numbers) == 1:
            self._span.set_attribute("messaging.message.id", str(numbers[0]))

    def end(self, outcome: int | BaseException) -> None:
        if isinstance(outcome, int):
            self.stored([outcome])
        self._end(outcome if isinstance(outcome, BaseException) else None)

    def _end(self, error: BaseException | None) -> None:
        described = _finish(self._span, self._described, error)
        self._instruments.sent.add(self._count, described)
        self._instruments.send_duration.record(time.perf_counter() - self._began, described)


class ProcessSpan(Processing):
    """A span ``process <queue>``, linked to the span of the send, with an event for each failed attempt."""

    def __init__(self, tracer: Tracer, instruments: Instruments, message: PeekedMessage) -> None:
        self._instruments = instruments
        self._described = _described("process", message.queue)
        attributes: Attributes = {
            **self._described,
            "messaging.message.id": str(message.sequence_number),
            "messaging.pgqueue.delivery_count": message.delivery_count,
        }
        if message.correlation_id is not None:
            attributes["messaging.message.conversation_id"] = message.correlation_id
        self._span = tracer.start_span(
            f"process {message.queue}", kind=SpanKind.CONSUMER, attributes=attributes, links=_links(message)
        )
        self._began = time.perf_counter()
        self._failure: BaseException | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        described = _finish(self._span, self._described, error or self._failure)
        self._instruments.processed.add(1, described)
        self._instruments.process_duration.record(time.perf_counter() - self._began, described)

    def at_work(self) -> AbstractContextManager[None]:
        return _marked(self._span)

    def failed(self, failure: BaseException) -> None:
        self._failure = failure

    def tries_again(self, attempt: int, failure: BaseException) -> None:
        said = {"error.type": _kind(failure), "exception.message": str(failure)}
        self._span.add_event("retry", {"messaging.pgqueue.attempt": attempt, **said})


def _marked(span: trace.Span) -> AbstractContextManager[Any]:
    return trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False)


def _described(operation: str, queue: str) -> Attributes:
    return {
        "messaging.system": "pgqueue",
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _finish(span: trace.Span, described: Attributes, error: BaseException | None) -> Attributes:
    """End a span, and return the attributes for the metrics."""
    if error is not None:
        described = {**described, "error.type": _kind(error)}
        span.set_attribute("error.type", described["error.type"])
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, str(error))
    span.end()
    return described


def _kind(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _links(message: PeekedMessage) -> list[Link]:
    try:
        carried = message.application_properties
    except MessageNotReadableError:  # the handler gets the error if it reads them
        return []
    if not isinstance(carried, Mapping):
        return []
    context = trace.get_current_span(W3C.extract(_texts(carried), trace.set_span_in_context(trace.INVALID_SPAN)))
    span_context = context.get_span_context()
    return [Link(span_context)] if span_context.is_valid else []


def _texts(carried: Mapping[str, Any]) -> dict[str, str]:
    """The entries that may be trace context; an application may store anything under these names."""
    names = ("traceparent", "tracestate")
    return {name: value for name in names if isinstance(value := carried.get(name), str)}


class OpenTelemetryRecorder(Recorder):
    """Records the spans and counts for one pair of providers."""

    is_on = True

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
