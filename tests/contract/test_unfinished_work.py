"""Work that is not done when its function returns is never taken for done: the message would be lost."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

import pgqueue
import pgqueue.aio
from pgqueue import ReceiveState
from pgqueue.errors import InvalidArgumentError
from pgqueue.testing import Database, drain
from tests.contract.sources import Sources
from tests.contract.world import Mode, World


async def coroutine(message: Any, tx: Any) -> None:
    raise AssertionError("this is never awaited")


def generator(message: Any, tx: Any) -> Iterator[None]:
    yield


async def asynchronous_generator(message: Any, tx: Any) -> AsyncIterator[None]:
    yield


class Called:
    async def __call__(self, message: Any, tx: Any) -> None:
        raise AssertionError("this is never awaited")


REFUSED = [coroutine, functools.partial(coroutine), Called(), generator, asynchronous_generator]


@functools.wraps(coroutine)
def decorated(message: Any, tx: Any) -> Any:
    tx.execute("insert into effect (place, label) values ('unfinished', 'decorated')")
    return coroutine(message, tx)


def returns_a_generator(message: Any, tx: Any) -> Any:
    return generator(message, tx)


@pytest.fixture
def sync(faces: dict[str, Sources]) -> World:
    return World(Mode("sync", "dsn"), faces["sync"])


@pytest.mark.parametrize("work", REFUSED)
def test_process_refuses_it_before_the_transaction_begins(sync: World, work: Callable[..., Any]) -> None:
    received, nowhere = sync.locked(), cast(Any, object())
    with pytest.raises(InvalidArgumentError, match=r"the work .* function"):
        pgqueue.process(received, work, nowhere)  # no transaction can be begun on it
    assert received.state is ReceiveState.RECEIVED
    assert sync.is_ours(received)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("work", [decorated, returns_a_generator])
def test_a_result_that_turns_out_unfinished_rolls_back_and_leaves_it_received(
    sync: World, work: Callable[..., Any]
) -> None:
    received = sync.locked()
    with pytest.raises(InvalidArgumentError, match=r"return when the work is done, or use pgqueue\.aio"):
        pgqueue.process(received, work)
    assert received.state is ReceiveState.RECEIVED
    assert sync.is_ours(received)
    assert sync.look("select from effect where place = 'unfinished'") == []
    received.complete()


@pytest.mark.parametrize("handler", REFUSED)
def test_drain_refuses_it_before_it_receives(sync: World, handler: Callable[..., Any]) -> None:
    sync.send("work")
    with pytest.raises(InvalidArgumentError, match=r"the handler .* function"):
        drain(sync.queue, handler)
    assert sync.receive().delivery_count == 1


@pytest.mark.parametrize("face", [pgqueue, pgqueue.aio])
@pytest.mark.parametrize("handler", [generator, asynchronous_generator])
async def test_a_worker_refuses_a_generator_function(
    shared_database: Database, face: Any, handler: Callable[..., Any]
) -> None:
    queue = face.QueueClient(shared_database.dsn).queue("any")
    with pytest.raises(InvalidArgumentError, match=r"the handler .* is a generator function"):
        face.Worker(queue, handler, transaction="psycopg")
    with pytest.raises(InvalidArgumentError, match=r"on_lock_renew_failure .* is a coroutine function"):
        face.Worker(queue, print, on_lock_renew_failure=coroutine)


async def test_asynchronous_process_takes_plain_work_and_awaits_what_it_returns(sync: World) -> None:
    sync.send(1, 2, 3)
    async with pgqueue.aio.QueueClient(sync.database.dsn) as client:
        plain, returning, generating = await client.queue(sync.name).receive(max_messages=3)
        assert await pgqueue.aio.process(plain, lambda message, tx: message.body) == 1

        async def work(message: Any, tx: Any) -> Any:
            await tx.execute("select 1")
            return message.body

        assert await pgqueue.aio.process(returning, lambda message, tx: work(message, tx)) == 2  # noqa: PLW0108 - hides that it is one
        with pytest.raises(InvalidArgumentError, match="is a generator function"):
            await pgqueue.aio.process(generating, generator)
        with pytest.raises(InvalidArgumentError, match="was returned"):
            await pgqueue.aio.process(generating, returns_a_generator)
        assert generating.state is ReceiveState.RECEIVED
    assert sync.bodies() == [3]


SETTLEMENTS = ["complete", "abandon", "complete_batch", "abandon_batch", "transaction", "process"]


@pytest.mark.parametrize("settled", SETTLEMENTS)
async def test_callbacks_are_awaited_where_the_call_is(sync: World, settled: str) -> None:
    sync.send("work")
    seen = []
    async with pgqueue.aio.QueueClient(sync.database.dsn) as client:
        queue = client.queue(sync.name)
        (received,) = await queue.receive()

        async def note() -> None:
            await asyncio.sleep(0)
            seen.append(received.context.state)

        received.context.on_complete(note)
        received.context.on_abandon(note)
        match settled:
            case "complete" | "abandon":
                await getattr(received, settled)()
            case "complete_batch" | "abandon_batch":
                assert (await getattr(queue, settled)([received]))[0].is_settled
            case "transaction":
                async with received.transaction():
                    pass
            case "process":
                await pgqueue.aio.process(received, lambda message, tx: None)
    assert seen == [ReceiveState.ABANDONING if "abandon" in settled else ReceiveState.COMPLETING]


def test_callbacks_are_refused_where_they_would_not_be_awaited(sync: World) -> None:
    received = sync.locked()

    async def note() -> None:
        raise AssertionError("this is never awaited")

    for register in (received.context.on_complete, received.context.on_abandon, received.context.on_fault):
        with pytest.raises(InvalidArgumentError, match=r"the callback .* is a coroutine function"):
            register(note)
    received.complete()


class Awaited:
    """No coroutine, and awaited like one."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return self._coroutine.__await__()


class Hiding:
    """A handler that does not look like what it is: what can be awaited is, and a generator is a failure."""

    def __init__(self) -> None:
        self.handled: list[Any] = []
        self.worker: Any = None

    def alone(self, message: Any) -> Any:
        if message.body == "generating":
            self.worker.stop()
            return generator(message, None)
        return Awaited(self._asynchronous(message))

    def with_transaction(self, message: Any, tx: Any) -> Any:
        return self.alone(message)

    async def in_loop(self, message: Any, tx: Any) -> Any:
        result = self.alone(message)
        return await result if isinstance(result, Awaited) else result

    async def _asynchronous(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.handled.append(message.body)


@pytest.fixture
def hiding(sync: World) -> Iterator[Hiding]:
    sync.send("awaited", "generating", "plain")
    handler = Hiding()
    yield handler
    left = sync.bodies()
    assert sorted([*set(handler.handled), *left]) == [
        "awaited",
        "plain",
    ]  # one that shared a transaction may come twice
    (dead,) = sync.dead()
    assert dead.body == "generating"
    assert "was returned" in str(dead.dead_letter_error_description)


ONE_BY_ONE: dict[str, Any] = {"retry": pgqueue.RetryPolicy(max_attempts=1), "concurrency": 1}
WAYS: list[dict[str, Any]] = [{}, {"transaction": "psycopg"}, {"transaction": "psycopg", "transaction_batch": 5}]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_a_worker_completes_nothing_that_was_not_done(sync: World, hiding: Hiding, options: dict[str, Any]) -> None:
    handler = hiding.with_transaction if options else hiding.alone
    hiding.worker = pgqueue.Worker(sync.queue, handler, **ONE_BY_ONE, **options)
    hiding.worker.run()


@pytest.mark.parametrize("options", WAYS, ids=str)
async def test_an_asynchronous_worker_completes_nothing_that_was_not_done(
    sync: World, hiding: Hiding, options: dict[str, Any]
) -> None:
    handler = hiding.in_loop if options else hiding.alone
    async with pgqueue.aio.QueueClient(sync.database.dsn) as client:
        hiding.worker = pgqueue.aio.Worker(client.queue(sync.name), handler, **ONE_BY_ONE, **options)
        await hiding.worker.run()
