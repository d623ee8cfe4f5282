"""The handling of a message is a span, linked to that of the send, however often its transaction is begun."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter, Message, RetryPolicy
from tests.patience import eventually
from tests.telemetry.conftest import Told
from tests.worker.scene import Scene, effect


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def identity(span: ReadableSpan) -> int:
    assert span.context is not None
    number: int = span.context.span_id
    return number


@pytest.mark.parametrize("options", [{}, {"transaction": "psycopg"}], ids=["alone", "transaction"])
def test_handling_is_linked_to_the_send(scene: Scene, told: Told, options: Any) -> None:
    seen = []

    async def alone(message: Any) -> None:
        seen.append(trace.get_current_span())

    async def with_transaction(message: Any, tx: Any) -> None:
        await effect(tx, 1)
        seen.append(trace.get_current_span())

    number = scene.queue.send(Message("a", correlation_id="order 7"))
    with scene.working(with_transaction if options else alone, **options):
        span = told.only("process q")
    assert span.kind is SpanKind.CONSUMER
    assert span.status.status_code is StatusCode.UNSET
    assert linked(span) == [identity(told.only("send q"))]
    assert [each.get_span_context().span_id for each in seen] == [identity(span)]
    assert span.attributes == {
        "messaging.system": "pgqueue",
        "messaging.destination.name": "q",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": str(number),
        "messaging.message.conversation_id": "order 7",
        "messaging.pgqueue.delivery_count": 1,
    }


def test_a_send_by_a_handler_belongs_to_its_handling(scene: Scene, told: Told) -> None:
    scene.client.create_queue("next")

    async def handler(message: Any) -> None:
        scene.client.queue("next").send(Message("b"))

    scene.send("a")
    with scene.working(handler):
        span = told.only("process q")
    parent = told.only("send next").parent
    assert parent is not None
    assert parent.span_id == identity(span)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_transaction_that_is_tried_again_is_one_span_with_events(scene: Scene, told: Told, batch: int) -> None:
    calls: list[Any] = []

    async def handler(message: Any, tx: Any) -> None:
        calls.append(message.body)
        if len(calls) <= 2:
            raise psycopg.errors.SerializationFailure("conflict")
        await effect(tx, message.body)

    scene.send(*range(batch))
    with scene.working(handler, transaction="psycopg", transaction_batch=batch, concurrency=1):
        spans = told.spans("process q", batch)
        eventually(lambda: scene.left() == [])
    assert len(told.spans("process q")) == batch
    for span in spans:
        assert [event.name for event in span.events] == ["retry", "retry"]
        assert [dict(event.attributes or {})["messaging.pgqueue.attempt"] for event in span.events] == [1, 2]
        assert span.status.status_code is StatusCode.UNSET


def test_messages_that_share_a_transaction_have_a_span_each(scene: Scene, told: Told) -> None:
    seen = {}

    async def handler(message: Any, tx: Any) -> None:
        seen[message.sequence_number] = trace.get_current_span().get_span_context().span_id
        if message.body == 2:
            raise ValueError("no")
        await effect(tx, message.body)

    numbers = scene.send(1, 2, 3)
    with scene.working(handler, transaction="psycopg", transaction_batch=3, concurrency=1):
        spans = {
            span.attributes["messaging.message.id"]: span for span in told.spans("process q", 3) if span.attributes
        }
    assert {number: identity(spans[str(number)]) for number in numbers} == seen
    assert [spans[str(number)].status.is_ok for number in numbers] == [True, False, True]
    send = told.only("send q")
    assert all(linked(span) == [identity(send)] for span in spans.values())


def test_a_shared_transaction_that_is_retried_one_by_one_is_one_span_a_message(scene: Scene, told: Told) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene.run("create unique index on effect (number) where number = 7")
    scene.run("alter table effect add constraint lonely unique (transaction) deferrable initially deferred")
    scene.send(1, 2, 3)
    with scene.working(handler, transaction="psycopg", transaction_batch=3, concurrency=1):
        eventually(lambda: scene.effects() == [1, 2, 3])
        spans = told.spans("process q", 3)
    assert len(spans) == 3
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}


@pytest.mark.parametrize("failure", [ValueError("no such customer"), DeadLetter("Unknown", "customer 7")], ids=repr)
@pytest.mark.parametrize("options", [{}, {"transaction": "psycopg"}], ids=["alone", "transaction"])
def test_a_failure_is_the_status_of_the_span(scene: Scene, told: Told, failure: Exception, options: Any) -> None:
    async def alone(message: Any) -> None:
        raise failure

    async def with_transaction(message: Any, tx: Any) -> None:
        raise failure

    scene.send("a")
    with scene.working(with_transaction if options else alone, retry=RetryPolicy(max_attempts=1), **options):
        span = told.only("process q")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == str(failure)
    assert span.attributes is not None
    assert span.attributes["error.type"] == (
        "ValueError" if isinstance(failure, ValueError) else "pgqueue.errors.DeadLetter"
    )
    assert [event.name for event in span.events] == ["exception"]
    (count,) = told.points("messaging.client.consumed.messages")
    assert isinstance(count, NumberDataPoint)
    assert count.attributes is not None
    assert (count.value, count.attributes["error.type"]) == (1, span.attributes["error.type"])


@pytest.mark.parametrize("carried", ["nonsense", 7, None, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"], ids=str)
def test_an_invalid_trace_is_not_linked(scene: Scene, told: Told, carried: Any) -> None:
    async def handler(message: Any) -> None:
        """Nothing to do."""

    scene.queue.send(Message("a", application_properties={"traceparent": carried}))
    with scene.working(handler):
        assert linked(told.only("process q")) == []


def test_handling_is_counted_and_measured(scene: Scene, told: Told) -> None:
    async def handler(message: Any) -> None:
        await asyncio.sleep(0.01)

    scene.send(1, 2, 3)
    with scene.working(handler):
        told.spans("process q", 3)
    (count,) = told.points("messaging.client.consumed.messages")
    (duration,) = told.points("messaging.process.duration")
    assert isinstance(count, NumberDataPoint)
    assert isinstance(duration, HistogramDataPoint)
    assert (count.value, duration.count) == (3, 3)
    assert duration.sum >= 0.03


async def process(scene: Scene, work: Any) -> Any:
    if scene.face == "threads":
        (received,) = scene.queue.receive()
        return pgqueue.process(received, lambda message: work(), retry=pgqueue.RetryPolicy().transaction_retry())
    async with pgqueue.aio.QueueClient(scene.database.dsn) as client:
        (areceived,) = await client.queue("q").receive()

        async def awork(message: Any) -> Any:
            return work()

        return await pgqueue.aio.process(areceived, awork, retry=pgqueue.RetryPolicy().transaction_retry())


def test_processing_a_message_is_one_span(scene: Scene, told: Told) -> None:
    calls = []

    def work() -> int:
        calls.append(trace.get_current_span())
        if len(calls) == 1:
            raise psycopg.errors.SerializationFailure("conflict")
        return 7

    scene.send("a")
    assert asyncio.run(process(scene, work)) == 7
    span = told.only("process q")
    assert [event.name for event in span.events] == ["retry"]
    assert {each.get_span_context().span_id for each in calls} == {identity(span)}
    assert linked(span) == [identity(told.only("send q"))]


@pytest.mark.parametrize("failure", [ValueError("no"), DeadLetter("Unknown")], ids=repr)
def test_a_failed_processing_is_recorded_as_an_error(scene: Scene, told: Told, failure: Exception) -> None:
    def work() -> None:
        raise failure

    scene.send("a")
    if isinstance(failure, DeadLetter):
        asyncio.run(process(scene, work))
    else:
        with pytest.raises(ValueError, match="no"):
            asyncio.run(process(scene, work))
    assert told.only("process q").status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("options", [{}, {"transaction": "psycopg"}], ids=["alone", "transaction"])
def test_properties_that_python_cannot_read_are_linked_to_nothing_and_dead_lettered_alone(
    scene: Scene, told: Told, options: Any
) -> None:
    handled = []

    async def alone(message: Any) -> None:
        handled.append(message.body)

    async def with_transaction(message: Any, tx: Any) -> None:
        await alone(message)

    endless = """select pgqueue.send('q', '1e5000'::jsonb, application_properties => '{"traceparent": 1e5000}'),
                        pgqueue.send('q', '7'::jsonb, application_properties => '{"traceparent": 1e5000}')"""
    with scene.database.connect(autocommit=True) as connection:
        connection.execute(endless)
    policy = RetryPolicy(max_attempts=1)
    with scene.working(with_transaction if options else alone, retry=policy, **options):
        eventually(lambda: handled == [7] and len(scene.queue.dead_letters.peek()) == 1)
    (dead,) = scene.queue.dead_letters.peek()
    assert dead.dead_letter_reason == "pgqueue.errors.MessageNotReadableError"
