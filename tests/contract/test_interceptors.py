"""Interceptors: around each send and each handling, once, and without another outcome than that of what they call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter, Message, Queue, QueueClient
from pgqueue.errors import InterceptorError, InvalidArgumentError, QueueNotFoundError
from tests.contract.intercepting import interceptor
from tests.contract.transactions import execute
from tests.contract.world import World

SENDS = ("send", "send_batch", "sender", "schedule", "publish", "publish_batch")


@contextmanager
def intercepted(world: World, *given: dict[str, Callable[[Any, Any], Any]]) -> Iterator[QueueClient]:
    """A client with these interceptors."""
    interceptors = [interceptor(world.mode.face, **each) for each in given]
    with world.sources.made_of(world.database.dsn, interceptors=interceptors) as client:
        yield client


@contextmanager
def queue(world: World, **methods: Callable[[Any, Any], Any]) -> Iterator[Queue]:
    with intercepted(world, methods) as client:
        yield client.queue(world.name)


def tagged(tag: str) -> dict[str, Callable[[Any, Any], Any]]:
    def send(message: Message, call: Any) -> Any:
        return call(replace(message, subject=f"{message.subject or ''}{tag}"))

    return {"send": send}


def subscribe(world: World) -> str:
    topic = f"topic-{world.name}"
    world.client.create_topic(topic)
    world.client.create_subscription(topic, "all", forward_to=world.name)
    return topic


def send_by(how: str, client: QueueClient, world: World, *, transaction: Any = None) -> Any:
    """Sends a message to the world's queue in this way."""
    queue, message, options = client.queue(world.name), Message(how), {"transaction": transaction}
    match how:
        case "send":
            return queue.send(message, **options)
        case "send_batch":
            return queue.send_batch([message], **options)
        case "sender":
            with queue.sender() as sender:
                return sender.send(message).result()
        case "schedule":
            client.create_schedule(world.name, queue=world.name, message=message, every=timedelta(days=1))
            return client.run_schedule(world.name)
        case "publish":
            return client.topic(subscribe(world)).send(message, **options)
        case "publish_batch":
            return client.topic(subscribe(world)).send_batch([message], **options)


@pytest.mark.parametrize("how", SENDS)
def test_every_send_is_intercepted_from_the_first_to_the_last(either: World, how: str) -> None:
    with intercepted(either, tagged("a"), tagged("b")) as client:
        assert send_by(how, client, either)
    assert [(each.body, each.subject) for each in either.found()] == [(how, "ab")]


@pytest.mark.parametrize("how", SENDS)
@pytest.mark.parametrize(
    ("send", "refusal"),
    [
        (lambda message, call: 1 / 0, ZeroDivisionError),
        (lambda message, call: None, InterceptorError),
        (lambda message, call: call("no message"), InvalidArgumentError),
    ],
    ids=["raises", "does not call", "passes on something else"],
)
def test_nothing_is_stored_of_a_send_that_is_not_passed_on(
    either: World, how: str, send: Any, refusal: type[Exception]
) -> None:
    with intercepted(either, tagged("a"), {"send": send}) as client, pytest.raises(refusal):
        send_by(how, client, either)
    assert either.found() == []
    assert not any(each.name == either.name for each in either.client.list_schedules())


def test_the_error_names_the_class_and_the_method(either: World) -> None:
    with queue(either, send=lambda message, call: None) as silent:
        with pytest.raises(InterceptorError, match=r"Given\.send\(\) must pass on exactly once"):
            silent.send(Message(1))
        with pytest.raises(InterceptorError, match=r"Given\.send\(\) must pass on exactly once"):
            silent.send_batch([Message(1)])


@pytest.mark.parametrize("how", SENDS)
def test_a_second_call_is_refused(either: World, how: str) -> None:
    refused = []

    def twice(message: Message, call: Any) -> None:
        call(message)
        try:
            call(message)
        except InterceptorError as error:
            refused.append(error)

    with intercepted(either, {"send": twice}) as client, pytest.raises(InterceptorError, match="exactly once"):
        send_by(how, client, either)
    assert len(refused) == 1
    assert len(either.found()) == (how in ("send", "publish"))  # a call that is over is not undone


def test_a_call_after_the_end_is_refused(either: World) -> None:
    kept: list[Any] = []
    with queue(either, send=lambda message, call: kept.append(call)) as late, pytest.raises(InterceptorError):
        late.send(Message(1))
    with pytest.raises(Exception, match=r"too late|closed"):
        kept[0](Message(1))
    assert either.found() == []


def test_the_outcome_is_that_of_the_call(either: World) -> None:
    """Neither what a method returns, nor an error that it hides, is the outcome."""

    def hide(message: Message, call: Any) -> str:
        try:
            call(message)
        except QueueNotFoundError:
            return "sent"
        return "something"

    with intercepted(either, {"send": hide}) as client:
        assert client.queue(either.name).send(Message(1)) == either.found()[0].sequence_number
        with pytest.raises(QueueNotFoundError):
            client.queue("nowhere").send(Message(1))


def test_an_interceptor_knows_the_number_and_may_raise_another_error(either: World) -> None:
    numbers = []

    def send(message: Message, call: Any) -> None:
        try:
            numbers.append(call(message))
        except QueueNotFoundError as error:
            raise LookupError("no such queue") from error

    with intercepted(either, {"send": send}) as client:
        assert [client.queue(either.name).send(Message(1))] == numbers
        with pytest.raises(LookupError):
            client.queue("nowhere").send(Message(1))


def test_a_batch_is_changed_by_its_messages_and_stored_at_once(either: World) -> None:
    seen = []

    def send_batch(messages: list[Message], call: Any) -> None:
        seen.append((len(messages), call(messages)))

    with intercepted(either, tagged("a"), {"send_batch": send_batch}, tagged("b")) as client:
        numbers = client.queue(either.name).send_batch([Message(1), Message(2)])
    assert seen == [(2, numbers)]
    assert [(each.body, each.subject) for each in either.found()] == [(1, "ab"), (2, "ab")]


@pytest.mark.parametrize("passed", [lambda messages: messages[1:], lambda messages: None])
def test_a_batch_may_not_lose_messages(either: World, passed: Callable[[Any], Any]) -> None:
    complaint = r"Given\.send_batch\(\) was given 2 messages, and passes on (1|NoneType)"
    with (
        queue(either, send_batch=lambda messages, call: call(passed(messages))) as losing,
        pytest.raises(InterceptorError, match=complaint),
    ):
        losing.send_batch([Message(1), Message(2)])
    assert either.found() == []


def test_an_intercepted_send_is_part_of_the_callers_transaction(caller: World) -> None:
    with intercepted(caller, tagged("a")) as client, caller.transaction() as tx:
        send_by("send", client, caller, transaction=tx.handle)
        assert caller.found() == []
        tx.commit()
    assert [each.subject for each in caller.found()] == ["a"]


def handled(world: World, work: Callable[..., Any], *interceptors: Callable[[Any, Any], Any]) -> Any:
    """Processes a message."""
    with intercepted(world, *({"handle": handle} for handle in interceptors)) as client:
        queue = client.queue(world.name)
        queue.send(Message("work"))
        (received,) = queue.receive()
        return world.sources.process(received, work)


def around(name: str, steps: list[Any]) -> Callable[[Any, Any], Any]:
    def handle(received: Any, call: Any) -> None:
        steps.append((name, received.body))
        steps.append((name, call(received)))

    return handle


@pytest.mark.parametrize("other", [lambda received: None, replace, "another"])
def test_work_is_not_done_on_another_message(either: World, other: Any) -> None:
    done: list[Any] = []
    with queue(
        either, handle=lambda received, call: call(another if other == "another" else other(received))
    ) as orders:
        orders.send_batch([Message(1), Message(2)])
        received, another = orders.receive(max_messages=2)
        with pytest.raises(InterceptorError, match="another message than it was given"):
            either.sources.process(received, done.append)
    assert done == []


def test_work_is_done_within_all_interceptors(either: World) -> None:
    steps: list[Any] = []
    assert handled(either, lambda message: "done", around("a", steps), around("b", steps)) == "done"
    assert steps == [("a", "work"), ("b", "work"), ("b", "done"), ("a", "done")]
    assert either.found() == []


def test_work_with_a_transaction_is_intercepted_within_it(either: World) -> None:
    def refuse(received: Any, call: Any) -> None:
        call(received)
        raise LookupError("after the work")

    with pytest.raises(LookupError):
        handled(either, lambda message, tx: execute(tx, either.note("done")), refuse)
    assert either.effects() == []
    assert [each.delivery_count for each in either.found()] == [1]


@pytest.mark.parametrize("takes_transaction", [False, True])
def test_a_handling_that_is_not_passed_on_is_a_failure(either: World, takes_transaction: bool) -> None:
    work = (lambda message, tx: None) if takes_transaction else (lambda message: None)
    with pytest.raises(InterceptorError, match=r"Given\.handle\(\) must pass on"):
        handled(either, work, lambda received, call: None)
    ((failed,),) = [either.found()]
    assert failed.last_error is not None
    assert failed.last_error.type == "pgqueue.errors.InterceptorError"


def test_an_interceptor_cannot_hide_the_failure_of_the_work(either: World) -> None:
    def hide(received: Any, call: Any) -> None:
        with suppress(ZeroDivisionError):
            call(received)

    with pytest.raises(ZeroDivisionError):
        handled(either, lambda message: 1 / 0, hide)
    assert len(either.found()) == 1


def test_an_interceptor_may_dead_letter(either: World) -> None:
    def refuse(received: Any, call: Any) -> None:
        raise DeadLetter("Unwanted", "by the interceptor")

    handled(either, lambda message: None, refuse)
    assert [each.dead_letter_reason for each in either.dead()] == ["Unwanted"]


def test_messages_that_a_call_returns_are_not_intercepted(either: World) -> None:
    steps: list[Any] = []
    with queue(either, handle=around("a", steps)) as plain:
        plain.send(Message(1))
        (received,) = plain.receive()
        with received.transaction():
            pass
    assert steps == []


@pytest.mark.parametrize("face", ["sync", "async"])
def test_an_object_that_is_no_interceptor_of_the_face_is_refused(face: str) -> None:
    client: Any = pgqueue.QueueClient if face == "sync" else pgqueue.aio.QueueClient

    class Generating(pgqueue.Interceptor if face == "sync" else pgqueue.aio.Interceptor):  # type: ignore[misc]
        def send(self, message: Any, call: Any) -> Any:
            yield call(message)

    for wrong in (object(), interceptor("async" if face == "sync" else "sync"), Generating):
        with pytest.raises(InvalidArgumentError, match="an interceptor must be a pgqueue"):
            client("host=nowhere", interceptors=[wrong])
    with pytest.raises(InvalidArgumentError, match="must be a list of them, not <"):
        client("host=nowhere", interceptors=Generating())
    with pytest.raises(InvalidArgumentError, match="generator function"):
        client("host=nowhere", interceptors=[Generating()])


def test_a_coroutine_function_is_refused_where_it_is_not_awaited() -> None:
    class Awaited(pgqueue.Interceptor):
        async def send(self, message: Any, call: Any) -> Any:
            return call(message)

    with pytest.raises(InvalidArgumentError, match="coroutine function"):
        pgqueue.QueueClient("host=nowhere", interceptors=[Awaited()])


async def test_an_interceptor_that_is_cancelled_has_not_sent(either: World) -> None:
    begun = asyncio.Event()

    class Hanging(pgqueue.aio.Interceptor):
        async def send(self, message: Any, call: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

    async with pgqueue.aio.QueueClient(either.database.dsn, interceptors=[Hanging()]) as client:
        sending = asyncio.create_task(client.queue(either.name).send(Message(1)))
        await begun.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert either.found() == []


async def test_an_interceptor_cannot_hide_that_it_was_cancelled(either: World) -> None:
    class Deaf(pgqueue.aio.Interceptor):
        async def handle(self, received: Any, call: Any) -> Any:
            try:
                await call(received)
            except asyncio.CancelledError:
                return "never mind"

    begun = asyncio.Event()

    async def work(message: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with pgqueue.aio.QueueClient(either.database.dsn, interceptors=[Deaf()]) as client:
        await client.queue(either.name).send(Message(1))
        (received,) = await client.queue(either.name).receive()
        working = asyncio.create_task(pgqueue.aio.process(received, work))
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert len(either.found()) == 1


async def test_a_plain_method_may_return_what_it_called(either: World) -> None:
    class Plain(pgqueue.aio.Interceptor):
        def send(self, message: Any, call: Any) -> Any:
            return call(replace(message, subject="plain"))

    async with pgqueue.aio.QueueClient(either.database.dsn, interceptors=[Plain()]) as client:
        await client.queue(either.name).send(Message(1))
    assert [each.subject for each in either.found()] == ["plain"]
