"""A client that was used, a fork, and both processes that go on using it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

import pgqueue.aio
from pgqueue import AutoLockRenewer, Message, QueueClient, ReceiveState, Worker
from pgqueue.errors import InvalidStateError, LockLostError
from pgqueue.testing import Database
from pgqueue.transports.notify_listener import NotifyListenerOwner
from tests.forking.children import Child, in_child
from tests.patience import eventually

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

LONG = timedelta(seconds=60)
MANY = 150
LISTENERS = (
    "select from pg_stat_activity where datname = current_database() and application_name = 'pgqueue notify listener'"
)

SESSIONS = (
    "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by pid"
)
LAST_STATEMENT = (
    "select query_start from pg_stat_activity where state = 'idle in transaction' and datname = current_database()"
)


def answers(database: Database, question: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(question.encode()).fetchall()


def use(client: QueueClient) -> None:
    """Leaves several connections in the pool, and one that listens."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: client.queue("q").peek(), range(40)))
    assert client.queue("q").receive(wait=timedelta(milliseconds=50)) == []


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        use(client)
        yield client


def test_parents_and_children_work_side_by_side(client: QueueClient) -> None:
    def work() -> tuple[list[int], list[int]]:
        queue = client.queue("q")
        sent: list[int] = []
        received: list[int] = []
        for number in range(MANY):
            sent.append(queue.send(Message(number)))
            for message in queue.receive(max_messages=1):
                message.complete()
                received.append(message.sequence_number)
        return sent, received

    children = [Child(work) for _ in range(3)]
    told = [work(), *(child.answer() for child in children)]
    sent = [number for numbers, _ in told for number in numbers]
    received = [number for _, numbers in told for number in numbers]
    left = client.queue("q").receive(max_messages=4 * MANY)
    assert len(set(sent)) == 4 * MANY
    assert sorted([*received, *(message.sequence_number for message in left)]) == sorted(sent)


def test_a_client_closed_in_a_child_stays_open_in_the_parent(client: QueueClient, database: Database) -> None:
    def work() -> None:
        client.close()
        client.__dict__.clear()
        gc.collect()

    before = answers(database, SESSIONS)
    in_child(work)
    assert len(before) > 1
    assert answers(database, SESSIONS) == before
    assert client.queue("q").peek() == []


def test_a_child_listens_for_itself(client: QueueClient, database: Database) -> None:
    def work() -> list[Any]:
        queue = client.queue("q")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(queue.receive, wait=LONG)
            eventually(lambda: len(answers(database, LISTENERS)) == 2)
            queue.send(Message("the child's"))
            return [message.body for message in waiting.result()]

    wake_signal: Any = client.queue("q")._source.wake_signal("q")
    with wake_signal.calling(lambda: None, wake_signal.count):
        eventually(lambda: wake_signal.is_live)
        count = wake_signal.count
        assert in_child(work) == ["the child's"]
        eventually(lambda: wake_signal.count > count)
        eventually(lambda: len(answers(database, LISTENERS)) == 1)


@pytest.mark.parametrize("where", ["listener", "signal", "owner"])
def test_a_lock_that_another_thread_held_is_free(client: QueueClient, where: str) -> None:
    own: Any = client._source
    lock = {
        "listener": own._listener._lock,
        "signal": own.wake_signal("q")._lock,
        "owner": NotifyListenerOwner._one_at_a_time,
    }[where]
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        held.wait()
        child = Child(lambda: client.queue("q").receive(wait=timedelta(milliseconds=100)))
        try:
            assert child.answer() == []
        finally:
            done.set()


def test_a_received_message_is_settled_by_the_first_of_parent_and_child(client: QueueClient) -> None:
    queue = client.queue("q")
    queue.send(Message("a"))
    (received,) = queue.receive()
    in_child(received.complete)
    with pytest.raises(LockLostError):
        received.complete()


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_a_transaction_of_the_parent_is_not_asked_by_a_child(
    client: QueueClient, database: Database, engine: sqlalchemy.Engine, kind: str
) -> None:
    queue = client.queue("q")
    queue.send(Message("a"))
    (received,) = queue.receive()
    with database.connect() if kind == "psycopg" else engine.connect() as transaction:
        received.complete(transaction=transaction)
        last_asked = answers(database, LAST_STATEMENT)
        assert len(last_asked) == 1
        assert in_child(received.resolve) is ReceiveState.COMPLETING
        assert answers(database, LAST_STATEMENT) == last_asked
        transaction.commit()
    assert received.state is ReceiveState.COMPLETED


def test_messages_that_a_receiver_has_locked_ahead_are_not_the_childs(client: QueueClient) -> None:
    queue = client.queue("q")

    def work() -> Any:
        body = next(receiver).body
        receiver.close()
        return body

    queue.send_batch([Message(number) for number in range(4)])
    with queue.receiver(prefetch=2) as receiver:
        assert next(receiver).body == 0
        assert in_child(work) == 3
        assert [next(receiver).body for _ in range(2)] == [1, 2]
        assert [message.locked_until is None for message in queue.peek(max_messages=4)] == [False] * 4


def test_a_renewer_renews_in_the_child_what_the_child_registers(client: QueueClient) -> None:
    queue = client.queue("q")
    queue.send_batch([Message("parent's"), Message("child's")])
    (theirs,) = queue.receive()

    def work() -> int:
        (received,) = queue.receive()
        until: Any = received.locked_until
        renewer.register(received)
        eventually(lambda: received.locked_until != until)
        renewer.close()
        return sum(len(kept) for each in renewer._keeper._renewers.values() for kept in each._queues.values())

    with AutoLockRenewer() as renewer:
        renewer.register(theirs)
        assert in_child(work) == 1


def test_a_worker_that_the_parent_made_works_in_the_child(client: QueueClient) -> None:
    worker: Worker = Worker(client.queue("q"), lambda _: worker.stop(), concurrency=1)

    def work() -> int:
        client.queue("q").send(Message("a"))
        worker.run()
        return worker.tally.completed

    assert in_child(work) == 1


def test_asynchronous_clients_work_side_by_side(client: QueueClient, database: Database) -> None:
    theirs = pgqueue.aio.QueueClient(database.dsn)

    async def work() -> list[int]:
        return [await theirs.queue("q").send(Message(number)) for number in range(MANY)]

    async def parent() -> None:
        sent = await work()
        child = Child(lambda: asyncio.run(work()))
        sent += await work()
        sent += await asyncio.to_thread(child.answer)
        assert len(set(sent)) == 3 * MANY
        await theirs.close()

    asyncio.run(parent())


@pytest.fixture
def engine(database: Database) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(database.url)
    yield engine
    engine.dispose()


def test_a_pool_of_the_parent_is_refused(client: QueueClient, database: Database) -> None:
    with psycopg_pool.ConnectionPool(database.dsn, min_size=1, open=True) as pool:
        theirs = QueueClient(pool)
        theirs.queue("q").send(Message("a"))

        def refused() -> None:
            with pytest.raises(InvalidStateError, match="open a pool in this process"):
                theirs.queue("q").peek()

        in_child(refused)
        assert [message.body for message in theirs.queue("q").peek()] == ["a"]


def test_a_pool_that_a_child_opens_is_its_own(client: QueueClient, database: Database) -> None:
    pool = psycopg_pool.ConnectionPool(database.dsn, min_size=1, open=False)
    theirs = QueueClient(pool)

    def work() -> int:
        with pool:
            return int(theirs.queue("q").send(Message("a")))

    assert in_child(work) > 0


def test_an_asynchronous_pool_of_the_parent_is_refused(client: QueueClient, database: Database) -> None:
    async def parent() -> None:
        async with psycopg_pool.AsyncConnectionPool(database.dsn, min_size=1, open=False) as pool:
            theirs = pgqueue.aio.QueueClient(pool)
            await theirs.queue("q").send(Message("a"))

            def work() -> None:
                with pytest.raises(InvalidStateError, match="open a pool in this process"):
                    asyncio.run(theirs.queue("q").peek())

            child = Child(work)
            await asyncio.to_thread(child.answer)

    asyncio.run(parent())


def test_an_engine_with_connections_is_refused_until_it_is_disposed_of(
    client: QueueClient, engine: sqlalchemy.Engine
) -> None:
    theirs = QueueClient(engine)
    theirs.queue("q").send(Message("a"))

    def work() -> int:
        begin: Any = next(theirs._source.begin())
        for use in (theirs.queue("q").peek, begin):
            with pytest.raises(InvalidStateError, match=r"call engine.dispose\(close=False\) in this process"):
                use()
        engine.dispose(close=False)
        (received,) = theirs.queue("q").receive()
        with received.transaction():
            return int(received.sequence_number)

    assert in_child(work) > 0
    assert theirs.queue("q").receive(max_messages=9) == []


def test_an_asynchronous_engine_is_refused_until_it_is_disposed_of(client: QueueClient, database: Database) -> None:
    async def parent() -> None:
        engine = create_async_engine(database.url)
        theirs = pgqueue.aio.QueueClient(engine)
        await theirs.queue("q").send(Message("a"))

        async def work() -> int:
            with pytest.raises(InvalidStateError, match=r"call engine.dispose\(close=False\) in this process"):
                await theirs.queue("q").peek()
            await engine.dispose(close=False)
            return len(await theirs.queue("q").receive())

        child = Child(lambda: asyncio.run(work()))
        assert await asyncio.to_thread(child.answer) == 1
        await engine.dispose()

    asyncio.run(parent())


@pytest.mark.parametrize("state", ["never used", "disposed of", "without a pool"])
def test_an_engine_without_connections_works(client: QueueClient, database: Database, state: str) -> None:
    engine = sqlalchemy.create_engine(database.url, **({"poolclass": NullPool} if state == "without a pool" else {}))
    theirs = QueueClient(engine)
    if state != "never used":
        theirs.queue("q").peek()
    if state == "disposed of":
        engine.dispose()
    assert in_child(lambda: theirs.queue("q").peek()) == []
    engine.dispose()


def test_a_client_that_was_closed_stays_closed(database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
    with pytest.raises(AssertionError, match="closed"):
        in_child(lambda: client.queue("q").peek())
