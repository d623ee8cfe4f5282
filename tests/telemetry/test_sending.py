"""A send is a span that its messages carry, whichever way they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.context import attach, detach
from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import pgqueue
import pgqueue.aio
from pgqueue import Message
from pgqueue.errors import MessageNotSerializableError, MessageSizeExceededError, QueueNotFoundError
from tests.telemetry.conftest import Told
from tests.worker.scene import Scene


async def send(scene: Scene, message: Message, queue: str = "q") -> int:
    if scene.face == "threads":
        return scene.client.queue(queue).send(message)
    async with pgqueue.aio.QueueClient(scene.database.dsn) as client:
        return await client.queue(queue).send(message)


async def send_batch(scene: Scene, messages: list[Message]) -> Sequence[int]:
    if scene.face == "threads":
        return scene.queue.send_batch(messages)
    async with pgqueue.aio.QueueClient(scene.database.dsn) as client:
        return await client.queue("q").send_batch(messages)


async def send_overlapped(scene: Scene, messages: list[Message]) -> Sequence[int]:
    if scene.face == "threads":
        with scene.queue.sender() as sender:
            pending = [sender.send(message) for message in messages]
            return [each.result() for each in pending]
    async with pgqueue.aio.QueueClient(scene.database.dsn) as client, client.queue("q").sender() as asender:
        apending = [await asender.send(message) for message in messages]
        return [await each.result() for each in apending]


def carried(scene: Scene) -> list[Any]:
    return [message.application_properties for message in scene.queue.peek(max_messages=100)]


def traceparent(span: ReadableSpan) -> str:
    context = span.context
    assert context is not None
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"


def test_a_send_is_a_span_of_a_producer(scene: Scene, told: Told) -> None:
    number = asyncio.run(send(scene, Message("a")))
    span = told.only("send q")
    assert span.kind is SpanKind.PRODUCER
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {
        "messaging.system": "pgqueue",
        "messaging.destination.name": "q",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": str(number),
    }
    assert carried(scene) == [{"traceparent": traceparent(span)}]


def test_a_send_belongs_to_what_the_program_does(scene: Scene, told: Told) -> None:
    with told.tracers.get_tracer("shop").start_as_current_span("order") as order:
        asyncio.run(send(scene, Message("a")))
    parent = told.only("send q").parent
    assert parent is not None
    assert parent.span_id == order.get_span_context().span_id


def test_a_batch_is_one_span_that_all_its_messages_carry(scene: Scene, told: Told) -> None:
    asyncio.run(send_batch(scene, [Message(body, application_properties={"n": body}) for body in (1, 2, 3)]))
    span = told.only("send q")
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 3
    assert carried(scene) == [{"n": body, "traceparent": traceparent(span)} for body in (1, 2, 3)]
    (count,) = told.points("messaging.client.sent.messages")
    assert isinstance(count, NumberDataPoint)
    assert count.value == 3


def test_no_span_for_nothing(scene: Scene, told: Told) -> None:
    assert asyncio.run(send_batch(scene, [])) == []
    assert told.spans("send q") == []


def test_sends_that_overlap_have_a_span_each(scene: Scene, told: Told) -> None:
    numbers = asyncio.run(send_overlapped(scene, [Message(body) for body in range(20)]))
    spans = told.spans("send q", 20)
    assert {span.attributes["messaging.message.id"] for span in spans if span.attributes} == set(map(str, numbers))
    assert {each["traceparent"] for each in carried(scene)} == {traceparent(span) for span in spans}


def test_trace_properties_of_the_caller_stay(scene: Scene, told: Told) -> None:
    own = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    state_only = {"tracestate": "shop=1"}
    first, second = Message("a", application_properties=own), Message("b", application_properties=state_only)
    asyncio.run(send_batch(scene, [first, second]))
    assert carried(scene) == [own, {**state_only, "traceparent": traceparent(told.only("send q"))}]
    assert (first.application_properties, second.application_properties) == (own, {"tracestate": "shop=1"})


def test_a_trace_is_never_mixed_with_another(scene: Scene, told: Told) -> None:
    own = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    theirs = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1"}
    token = attach(TraceContextTextMapPropagator().extract(theirs))
    try:
        asyncio.run(send_batch(scene, [Message("a", application_properties=own), Message("b")]))
    finally:
        detach(token)
    with_own, with_ours = carried(scene)
    assert with_own == own
    assert with_ours == {"traceparent": traceparent(told.only("send q")), "tracestate": "vendor=1"}


@pytest.mark.parametrize(
    ("message", "queue", "error"),
    [
        (Message("a"), "nowhere", QueueNotFoundError),
        (Message("a" * 2_000), "small", MessageSizeExceededError),
        (Message(object()), "q", MessageNotSerializableError),
    ],
    ids=["unknown", "large", "no-json"],
)
def test_a_failed_send_is_recorded_as_an_error(
    scene: Scene, told: Told, message: Message, queue: str, error: type[Exception]
) -> None:
    scene.client.create_queue("small", max_message_size=1_000)
    with pytest.raises(error):
        asyncio.run(send(scene, message, queue))
    span = told.only(f"send {queue}")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == f"pgqueue.errors.{error.__name__}"
    assert [event.name for event in span.events] == ["exception"]


@pytest.mark.parametrize("body", [object(), "a" * 2_000], ids=["no-json", "large"])
def test_a_failed_overlapped_send_is_recorded_as_an_error(scene: Scene, told: Told, body: object) -> None:
    scene.client.update_queue("q", max_message_size=1_000)
    with pytest.raises((MessageNotSerializableError, MessageSizeExceededError)):
        asyncio.run(send_overlapped(scene, [Message(body)]))
    assert told.only("send q").status.status_code is StatusCode.ERROR


def test_a_send_that_is_cancelled_before_there_is_room_ends_its_span(
    scene: Scene, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(room: object, seconds: float) -> bool:
        raise asyncio.CancelledError

    for face in ("", "aio."):
        monkeypatch.setattr(f"pgqueue.{face}sender._has_room", cancelled)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(send_overlapped(scene, [Message("a")]))
    assert told.only("send q").status.status_code is StatusCode.ERROR


def test_sends_are_measured(scene: Scene, told: Told) -> None:
    asyncio.run(send(scene, Message("a")))
    (duration,) = told.points("messaging.client.operation.duration")
    assert isinstance(duration, HistogramDataPoint)
    assert duration.count == 1
    assert duration.attributes is not None
    assert duration.attributes["messaging.destination.name"] == "q"
    assert 0 < duration.sum < 60
