"""Real cancellations, of tasks and of coroutines that are closed, at every turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from pgqueue import Message, ReceiveState
from pgqueue.aio import Queue, QueueClient, ReceivedMessage, process
from pgqueue.flows.traced import PART
from pgqueue.testing import Database

#: In so many turns of a loop everything here is done; if not, the rest of the turns is as good as these.
TURNS = 80


@pytest.fixture
async def queue(database: Database) -> AsyncIterator[Queue]:
    async with QueueClient(database.dsn) as client:
        await client.create_queue("q")
        yield client.queue("q")


async def in_transaction(queue: Queue, received: ReceivedMessage) -> None:
    async with received.transaction() as transaction:
        await transaction.execute("select 1")


async def processed(queue: Queue, received: ReceivedMessage) -> None:
    async def work(message: Any, transaction: Any) -> None:
        await transaction.execute("select 1")

    await process(received, work)


async def completed(queue: Queue, received: ReceivedMessage) -> None:
    await received.complete()


async def completed_in_a_batch(queue: Queue, received: ReceivedMessage) -> None:
    await queue.complete_batch([received])


CALLS: list[Callable[[Queue, ReceivedMessage], Coroutine[Any, Any, None]]] = [
    completed,
    completed_in_a_batch,
    in_transaction,
    processed,
]

every_call = pytest.mark.parametrize("call", CALLS)


@every_call
async def test_a_task_that_is_cancelled_is_not_guessed_about(queue: Queue, call: Any) -> None:
    outcomes = set()
    for turn in range(TURNS):
        received = await locked(queue)
        task = asyncio.ensure_future(call(queue, received))
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        outcomes.add(task.cancelled())
        await assert_that_it_is_known(queue, received)
    assert True in outcomes


async def test_many_bodies_are_all_stored_or_none(queue: Queue) -> None:
    bodies = list(range(3 * PART))
    outcomes = set()
    for turn in range(TURNS):
        task = asyncio.ensure_future(queue.send_batch(map(Message, bodies)))
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        stored = [message.body for message in await queue.peek(max_messages=1000)]
        assert stored in (([], bodies) if task.cancelled() else (bodies,))
        outcomes.add(task.cancelled())
        await queue.receive_and_delete(max_messages=1000)
    assert True in outcomes


async def test_a_task_that_gets_a_connection_as_it_is_cancelled_is_cancelled(database: Database) -> None:
    async with AsyncConnectionPool(database.dsn, min_size=1, max_size=1) as pool, QueueClient(pool) as client:
        for turn in range(20):
            async with pool.connection():
                task = asyncio.ensure_future(client.list_queues())
                for _ in range(20):
                    await asyncio.sleep(0)
                assert pool.get_stats()["requests_waiting"] == 1
            for _ in range(turn):
                await asyncio.sleep(0)
            is_cancelled = task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() == is_cancelled, turn
        assert await client.list_queues() == []


@every_call
async def test_a_coroutine_that_is_closed_is_not_guessed_about(queue: Queue, call: Any) -> None:
    for turn in range(TURNS):
        received = await locked(queue)
        closing = Closing(call(queue, received), turn)
        await closing
        await assert_that_it_is_known(queue, received)
        if not closing.has_closed:
            return


class Closing:
    """Awaits a coroutine for some turns, and closes it then, as an event loop does that ends."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], turns: int) -> None:
        self._coroutine = coroutine
        self._turns = turns
        self.has_closed = False

    def __await__(self) -> Generator[Any, Any, None]:
        given: Any = None
        for _ in range(self._turns):
            try:
                given = yield self._coroutine.send(given)
            except StopIteration:
                return
        self.has_closed = True
        self._coroutine.close()


async def locked(queue: Queue) -> ReceivedMessage:
    await queue.send(Message(1))
    [received] = await queue.receive()
    return received


async def assert_that_it_is_known(queue: Queue, received: ReceivedMessage) -> None:
    async with asyncio.timeout(60):
        while (state := await received.resolve()) is ReceiveState.COMPLETING:  # noqa: ASYNC110
            await asyncio.sleep(0)  # the loop closes an asynchronous generator that is no longer awaited
    left = {message.sequence_number for message in await queue.peek(max_messages=1000)}
    assert state in (ReceiveState.RECEIVED, ReceiveState.COMPLETED)
    assert (received.sequence_number in left) is (state is ReceiveState.RECEIVED)
