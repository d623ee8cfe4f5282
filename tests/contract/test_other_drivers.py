"""Transactions of psycopg2 and asyncpg: the things that only one of them does to a transaction that we take part in."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg2
import psycopg2.extensions
import psycopg2.extras
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import pgqueue
import pgqueue.aio
from pgqueue import Message, QueueClient, ReceiveState, Worker, transports
from pgqueue.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
    OperationTimeoutError,
    TransactionConflictError,
    TransactionRequiredError,
    UnsupportedSourceError,
    WrongTransactionError,
)
from pgqueue.flows.flow import source_of
from pgqueue.model.schemas import in_schema
from pgqueue.statements import Statement
from pgqueue.statements.statement import scalar
from pgqueue.testing import Database
from pgqueue.transports import adrive, drive
from pgqueue.transports.drivers.watch import WATCH
from tests.contract.interruption import AFTER, interruptions
from tests.contract.sources import with_driver
from tests.patience import eventually

MINUTE = timedelta(minutes=1)
WORDS = "Zürich, 東京, 😀, 'quoted' \\ and \"quoted\""


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client


@pytest.fixture
def queue(client: QueueClient) -> pgqueue.Queue:
    return client.queue("q")


@pytest.fixture
def connection(database: Database) -> Iterator[Any]:
    connection = psycopg2.connect(database.dsn)
    yield connection
    connection.close()


@pytest.fixture
async def aclient(database: Database, client: QueueClient) -> AsyncIterator[pgqueue.aio.QueueClient]:
    async with pgqueue.aio.QueueClient(database.dsn) as aclient:
        yield aclient


@pytest.fixture
def aqueue(aclient: pgqueue.aio.QueueClient) -> pgqueue.aio.Queue:
    return aclient.queue("q")


@pytest.fixture
async def aconnection(database: Database) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.dsn)
    yield connection
    connection.terminate()


def fetched(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


# psycopg2


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"])
def test_text_is_sent_from_a_client_of_any_encoding(queue: pgqueue.Queue, connection: Any, encoding: str) -> None:
    if encoding == "SQL_ASCII":
        fetched(connection, "set client_encoding = sql_ascii; select 1")
    else:
        connection.set_client_encoding(encoding)
    message = Message({WORDS: WORDS}, subject=WORDS, application_properties={"words": WORDS})
    queue.send(message, transaction=connection)
    queue.send_batch([message, Message(WORDS.encode())], transaction=connection)
    connection.commit()
    first, second, third = queue.receive(max_messages=3)
    for received in (first, second):
        assert (received.body, received.subject) == ({WORDS: WORDS}, WORDS)
        assert received.application_properties == {"words": WORDS}
    assert third.body == WORDS.encode()


@pytest.mark.parametrize(("encoding", "words"), [("LATIN1", "Zürich"), ("WIN1252", "5 €"), ("EUC_JP", "東京")])
def test_text_is_received_by_a_client_of_another_encoding(
    queue: pgqueue.Queue, connection: Any, encoding: str, words: str
) -> None:
    connection.set_client_encoding(encoding)
    queue.send(Message([words], subject=words))
    [received] = queue.receive_and_delete(transaction=connection)
    assert (received.body, received.subject) == ([words], words)


def test_the_factory_and_the_adapters_of_a_connection_are_its_own(database: Database, queue: pgqueue.Queue) -> None:
    class Odd(psycopg2.extras.RealDictCursor):
        def execute(self, *_: object) -> None:
            raise AssertionError("it is not our cursor")

    psycopg2.extensions.register_adapter(str, psycopg2.extras.Json)
    psycopg2.extensions.register_adapter(list, psycopg2.extras.Json)
    try:
        connection = psycopg2.connect(database.dsn, cursor_factory=Odd)
        queue.send_batch([Message({"n": 1}), Message({"n": 2})], transaction=connection)
        assert [each.body for each in queue.receive_and_delete(max_messages=2, transaction=connection)] == [
            {"n": 1},
            {"n": 2},
        ]
        connection.close()
    finally:
        del psycopg2.extensions.adapters[str, psycopg2.extensions.ISQLQuote]
        psycopg2.extensions.register_adapter(str, psycopg2.extensions.QuotedString)
        psycopg2.extensions.register_adapter(list, psycopg2.extensions.adapt([]).__class__)


def test_a_connection_that_commits_each_statement_has_no_transaction(queue: pgqueue.Queue, connection: Any) -> None:
    connection.autocommit = True
    with pytest.raises(TransactionRequiredError, match=r"conn\.autocommit = False"):
        queue.send(Message(1), transaction=connection)
    fetched(connection, "begin; select 1")
    queue.send(Message(2), transaction=connection)
    fetched(connection, "rollback; select 1")
    assert queue.peek() == []


def test_an_asynchronous_connection_of_psycopg2_has_none(database: Database, queue: pgqueue.Queue) -> None:
    connection = psycopg2.connect(database.dsn, async_=True)
    psycopg2.extras.wait_select(connection)
    with pytest.raises(TransactionRequiredError, match="async_=True"):
        queue.send(Message(1), transaction=connection)
    connection.close()


def test_a_closed_connection_is_lost(queue: pgqueue.Queue, connection: Any) -> None:
    queue.send(Message(1))
    [received] = queue.receive()
    connection.close()
    with pytest.raises(ConnectionLostError, match="closed"):
        received.complete(transaction=connection)
    assert received.state is ReceiveState.RECEIVED
    with pytest.raises(ConnectionLostError, match="closed"), received.transaction(connection):
        pytest.fail("it began")
    received.complete()


NUL = Statement("select %(text)s::text", {"text": "cut\0off"}, scalar)


async def test_a_nul_character_is_refused_before_it_fails_the_transaction(
    queue: pgqueue.Queue, connection: Any, aconnection: Any
) -> None:
    shared = transports.shared(connection, source_of(queue), asynchronous=False)
    with pytest.raises(InvalidArgumentError, match="NUL"):
        drive(shared.execute(NUL))
    assert fetched(connection, "select 1") == [(1,)]
    async with aconnection.transaction():
        with pytest.raises(InvalidArgumentError, match="NUL"):
            await adrive(transports.shared(aconnection, source_of(queue), asynchronous=True).execute(NUL))
        assert await aconnection.fetchval("select 1") == 1


NOTIFIES = "select current_setting('pgqueue.notify', true)"


def test_a_transaction_that_is_prepared_wakes_no_receiver_and_takes_no_more(
    database: Database, queue: pgqueue.Queue, connection: Any
) -> None:
    queue.send_batch([Message(1), Message(2)])
    first, second = queue.receive(max_messages=2)
    connection.tpc_begin(connection.xid(1, "of the application", "x"))
    first.complete(transaction=connection)
    assert fetched(connection, in_schema(NOTIFIES, database.schema)) == [("off",)]
    connection.tpc_prepare()
    assert first.resolve() is ReceiveState.COMPLETING
    with pytest.raises(TransactionRequiredError, match="prepared"):
        second.complete(transaction=connection)
    with pytest.raises(InvalidStateError, match="prepared"), second.transaction(connection):
        pytest.fail("it began")
    connection.tpc_commit()
    assert first.resolve() is ReceiveState.COMPLETED
    second.complete(transaction=connection)
    connection.commit()
    assert second.resolve() is ReceiveState.COMPLETED


def test_a_send_in_a_block_on_psycopg2_wakes_receivers(
    database: Database, queue: pgqueue.Queue, connection: Any
) -> None:
    queue.send(Message(1))
    [received] = queue.receive()
    with received.transaction(connection) as tx:
        queue.send(Message(2), transaction=tx)
        assert fetched(tx, in_schema(NOTIFIES, database.schema)) != [("off",)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_of_psycopg2_is_given_back_as_it_was(queue: pgqueue.Queue, connection: Any, fails: bool) -> None:
    connection.autocommit = True
    queue.send(Message(1))
    [received] = queue.receive()
    with suppress(ZeroDivisionError), received.transaction(connection) as tx:
        assert not tx.autocommit
        assert fails < 1 or 1 / 0
    assert connection.autocommit
    assert (received.state is ReceiveState.RECEIVED) is fails
    connection.autocommit = False
    connection.commit()
    connection.rollback()


def test_a_commit_that_fails_leaves_a_connection_of_psycopg2_in_order(queue: pgqueue.Queue, connection: Any) -> None:
    fetched(connection, "create table late (n integer unique deferrable initially deferred); select 1")
    connection.commit()
    queue.send(Message(1))
    [received] = queue.receive()
    with pytest.raises(pgqueue.PGQueueError, match="late"), received.transaction(connection) as tx:
        fetched(tx, "insert into late values (1), (1) returning n")
    fetched(connection, "insert into late values (1) returning n")
    connection.commit()
    with received.transaction(connection):
        pass
    assert fetched(connection, "select n from late") == [(1,)]


def test_a_conflict_of_serializable_transactions_is_tried_again(database: Database, queue: pgqueue.Queue) -> None:
    queue.send(Message(1))
    [received] = queue.receive()
    connection, rival = psycopg2.connect(database.dsn), psycopg2.connect(database.dsn)
    for each in (connection, rival):
        each.set_session(isolation_level="SERIALIZABLE")
    fetched(rival, "create table n (n integer); insert into n values (0) returning n")
    rival.commit()
    tries: list[int] = []

    def work(message: object, tx: Any) -> None:
        tries.append(len(tries))
        fetched(tx, "select n from n")
        if len(tries) == 1:
            fetched(rival, "update n set n = n + 1 returning n")
            rival.commit()
        fetched(tx, "update n set n = n + 1 returning n")

    pgqueue.process(received, work, connection)
    assert (tries, fetched(rival, "select n from n")) == ([0, 1], [(2,)])
    connection.close()
    rival.close()


def test_a_forked_child_watches_its_own_deadlines(database: Database, queue: pgqueue.Queue, connection: Any) -> None:
    queue.send(Message(1), transaction=connection)
    connection.rollback()
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with WATCH._changed:
            held.set()
            let_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            own = psycopg2.connect(database.dsn)
            queue.send(Message(2), transaction=own)
            own.commit()
            os._exit(0)
    let_go.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    assert [message.body for message in queue.peek(max_messages=9)] == [2]


def test_a_worker_works_in_sessions_on_psycopg2(database: Database, queue: pgqueue.Queue) -> None:
    engine = sqlalchemy.create_engine(with_driver(database, "psycopg2"))
    queue.send_batch([Message(number) for number in range(5)])
    seen: list[int] = []

    def handle(message: Any, session: Any) -> None:
        session.execute(sqlalchemy.text("select 1"))
        seen.append(message.body)
        if len(seen) == 5:
            worker.stop()

    worker = Worker(queue, handle, transaction=sessionmaker(engine), concurrency=2)
    worker.run()
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert queue.peek() == []
    engine.dispose()


def test_a_client_runs_its_own_statements_on_psycopg(database: Database, connection: Any) -> None:
    engine = sqlalchemy.create_engine(with_driver(database, "psycopg2"))
    for source in (engine, connection):
        with pytest.raises(UnsupportedSourceError, match="psycopg"):
            QueueClient(source)


def test_neither_driver_is_imported_unless_the_application_has() -> None:
    program = (
        "import sys, pgqueue, pgqueue.aio; pgqueue.QueueClient, pgqueue.aio.QueueClient;"
        "import pgqueue.transports.alchemy; print({'psycopg2', 'asyncpg'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "set()"


# asyncpg


async def test_a_begin_that_is_interrupted_leaves_no_transaction(
    database: Database, aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    for interruption in interruptions(asyncio.CancelledError, AFTER):
        connection = await asyncpg.connect(database.dsn)
        with interruption.coming():
            async with received.transaction(connection):
                pass
        assert connection.is_closed() or not connection.is_in_transaction()
        if not connection.is_closed():
            async with connection.transaction():
                assert await connection.fetchval("select 1") == 1
        connection.terminate()
        if await received.resolve() is ReceiveState.COMPLETED:
            await aqueue.send(Message(1))
            [received] = await aqueue.receive()


async def test_a_task_that_is_cancelled_during_begin_leaves_no_transaction_around_those_that_follow(
    aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    """asyncpg would make savepoints of these, and commit none of them."""
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    beginning = asyncio.ensure_future(received.transaction(aconnection).__aenter__())
    for _ in range(100):
        if aconnection._top_xact is None:
            await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    if not aconnection.is_closed():
        async with aconnection.transaction():
            await aqueue.send(Message(2), transaction=aconnection)
        assert [message.body for message in await aqueue.peek(max_messages=9)] == [1, 2]
    await received.complete()


def test_a_begin_on_psycopg2_that_is_interrupted_leaves_no_transaction(queue: pgqueue.Queue, connection: Any) -> None:
    queue.send(Message(1))
    [received] = queue.receive()
    for interruption in interruptions(KeyboardInterrupt, AFTER):
        with interruption.coming(), received.transaction(connection):
            pass
        connection.commit()
        if received.resolve() is ReceiveState.COMPLETED:
            queue.send(Message(1))
            [received] = queue.receive()


@pytest.mark.parametrize("options", [{"statement_cache_size": 0}, {"statement_cache_size": 1}])
async def test_it_does_not_matter_what_is_cached(
    database: Database, aqueue: pgqueue.aio.Queue, options: dict[str, Any]
) -> None:
    connection = await asyncpg.connect(database.dsn, **options)
    for _ in range(3):
        async with connection.transaction():
            await aqueue.send_batch([Message({WORDS: 1}), Message(b"\0")], transaction=connection)
            [first, second] = await aqueue.receive_and_delete(max_messages=2, transaction=connection)
            assert (first.body, second.body) == ({WORDS: 1}, b"\0")
    await connection.close()


async def test_without_a_transaction_nothing_is_sent(aqueue: pgqueue.aio.Queue, aconnection: Any) -> None:
    with pytest.raises(TransactionRequiredError, match=r"async with conn\.transaction\(\)"):
        await aqueue.send(Message(1), transaction=aconnection)
    assert await aqueue.peek() == []


async def test_a_connection_that_another_task_uses_is_refused(aqueue: pgqueue.aio.Queue, aconnection: Any) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    async with aconnection.transaction():
        occupied = asyncio.create_task(aconnection.execute("select pg_sleep(0.5)"))
        await asyncio.sleep(0)
        with pytest.raises(TransactionRequiredError, match="another task"):
            await received.complete(transaction=aconnection)
        assert received.state is ReceiveState.RECEIVED
        await occupied
        await received.complete(transaction=aconnection)
    assert await received.resolve() is ReceiveState.COMPLETED


async def test_a_connection_that_has_gone_back_to_its_pool_is_lost(
    database: Database, aqueue: pgqueue.aio.Queue
) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    async with asyncpg.create_pool(database.dsn, min_size=0) as pool:
        async with pool.acquire() as connection, connection.transaction():
            await received.complete(transaction=connection)
        assert await received.resolve() is ReceiveState.COMPLETED
        with pytest.raises(ConnectionLostError):
            await aqueue.send(Message(1), transaction=connection)
    await aqueue.send(Message(2))
    [received] = await aqueue.receive()
    with pytest.raises(ConnectionLostError, match="clos"):
        async with received.transaction(pool):
            pytest.fail("it began")


NOWHERE = {"host": "127.0.0.1", "port": 1, "user": "postgres", "database": "shop"}


@pytest.mark.parametrize("kind", ["pool", "engine", "session"])
async def test_a_server_that_cannot_be_reached_is_a_lost_connection(aqueue: pgqueue.aio.Queue, kind: str) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    engine = create_async_engine("postgresql+asyncpg://", connect_args=NOWHERE)
    pool = await asyncpg.create_pool(**NOWHERE, min_size=0)
    source = {"pool": pool, "engine": engine, "session": AsyncSession(engine)}[kind]
    with pytest.raises(ConnectionLostError, match=r"Connect call failed|refused") as lost:
        async with received.transaction(source):
            pytest.fail("it began")
    assert lost.value.is_transient
    await received.complete()
    pool.terminate()


async def test_a_pool_that_has_no_connection_free(database: Database, client: QueueClient) -> None:
    async with (
        pgqueue.aio.QueueClient(database.dsn, timeout=timedelta(seconds=0.5)) as quick,
        asyncpg.create_pool(database.dsn, min_size=0, max_size=1) as pool,
    ):
        await quick.queue("q").send(Message(1))
        [received] = await quick.queue("q").receive()
        async with pool.acquire():
            with pytest.raises(OperationTimeoutError, match="no free connection"):
                async with received.transaction(pool):
                    pytest.fail("it began")
        async with received.transaction(pool) as tx:
            assert await tx.fetchval("select 1") == 1
        assert received.state is ReceiveState.COMPLETED


async def test_the_timeout_of_the_application_leaves_a_settlement_in_doubt(
    database: Database, client: QueueClient, aqueue: pgqueue.aio.Queue
) -> None:
    """The server is asked to cancel the statement, which may have been carried out before."""
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    connection = await asyncpg.connect(database.dsn, command_timeout=0.3)
    with database.connect() as holder:
        holder.execute("select from pgqueue.message for update")
        transaction = connection.transaction()
        await transaction.start()
        with pytest.raises(ConnectionLostError, match="command_timeout"):
            await received.complete(transaction=connection)
        assert received.state is ReceiveState.COMPLETING
        await transaction.rollback()
        holder.rollback()
    assert await received.resolve() is ReceiveState.RECEIVED
    await received.complete()
    await connection.close()


async def test_a_task_that_is_cancelled_leaves_the_connection_to_its_owner(
    database: Database, aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    with database.connect() as holder:
        holder.execute("select from pgqueue.message for update")
        transaction = aconnection.transaction()
        await transaction.start()
        completing = asyncio.create_task(received.complete(transaction=aconnection))
        waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        with database.connect(autocommit=True) as observer:
            await asyncio.to_thread(eventually, lambda: observer.execute(waits).fetchall(), "it does not wait")
        completing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await completing
        assert await received.resolve() in (ReceiveState.COMPLETING, ReceiveState.RECEIVED)
        await transaction.rollback()
    assert await received.resolve() is ReceiveState.RECEIVED
    async with aconnection.transaction():
        await received.complete(transaction=aconnection)
    assert await received.resolve() is ReceiveState.COMPLETED


@pytest.mark.parametrize("isolation", ["serializable", "repeatable_read"])
async def test_a_conflict_is_the_librarys_error(aqueue: pgqueue.aio.Queue, aconnection: Any, isolation: str) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    transaction = aconnection.transaction(isolation=isolation)
    await transaction.start()
    await aconnection.fetch("select 1")
    await received.renew_lock()
    with pytest.raises(TransactionConflictError):
        await received.complete(transaction=aconnection)
    await transaction.rollback()
    assert await received.resolve() is ReceiveState.RECEIVED
    await received.complete()


async def test_the_fence_in_a_transaction_of_asyncpg(
    database: Database, aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    database.move_clock(2 * MINUTE)
    [current] = await aqueue.receive()
    await aconnection.execute("create table effect (n integer)")
    async with aconnection.transaction():
        await aconnection.execute("insert into effect values (1)")
        with pytest.raises(LockLostError) as lost:
            await received.complete(transaction=aconnection)
    assert lost.value.sqlstate == "PQ001"
    assert isinstance(lost.value.__cause__, asyncpg.PostgresError)
    assert await aconnection.fetch("select * from effect") == []
    await current.complete()


async def test_work_that_has_ended_its_transaction_by_text_leaves_the_connection_in_order(
    aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    with pytest.raises(WrongTransactionError):
        async with received.transaction(aconnection) as tx:
            await tx.execute("rollback; begin")
    assert not aconnection.is_in_transaction()
    async with aconnection.transaction():
        await received.complete(transaction=aconnection)
    assert await received.resolve() is ReceiveState.COMPLETED


async def test_sqlalchemy_on_asyncpg_with_text_that_has_ended_the_transaction(
    database: Database, aqueue: pgqueue.aio.Queue
) -> None:
    """The statement would be committed by itself."""
    engine = create_async_engine(with_driver(database, "asyncpg"))
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    async with AsyncSession(engine) as session:
        await session.execute(sqlalchemy.text("select 1"))
        await session.execute(sqlalchemy.text("commit"))
        with pytest.raises(TransactionRequiredError, match="SQL text has ended"):
            await received.complete(transaction=session)
        assert received.state is ReceiveState.RECEIVED
    await received.complete()
    await engine.dispose()


@pytest.mark.parametrize("options", [{"stream_results": True}, {"yield_per": 1}])
async def test_options_of_a_connection_of_sqlalchemy_are_its_own(
    database: Database, aqueue: pgqueue.aio.Queue, options: dict[str, Any]
) -> None:
    engine = create_async_engine(with_driver(database, "asyncpg"))
    await aqueue.send_batch([Message(1), Message(2), Message(3)])
    async with engine.connect() as connection:
        await connection.execution_options(**options)
        taken = await aqueue.receive_and_delete(max_messages=2, transaction=connection)
        [received] = await aqueue.receive()
        await received.complete(transaction=connection)
        await connection.commit()
    assert [message.body for message in taken] == [1, 2]
    assert received.state is ReceiveState.COMPLETED
    await engine.dispose()


async def test_the_state_does_not_follow_a_commit_that_was_a_rollback(
    database: Database, aqueue: pgqueue.aio.Queue
) -> None:
    """A statement fails on the connection of asyncpg, which SQLAlchemy does not see; COMMIT raises no error."""
    engine = create_async_engine(with_driver(database, "asyncpg"))
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    async with engine.connect() as connection:
        await received.complete(transaction=connection)
        below: Any = (await connection.get_raw_connection()).driver_connection
        with pytest.raises(asyncpg.DivisionByZeroError):
            await below.execute("select 1 / 0")
        await connection.commit()
    assert received.context.state is ReceiveState.RECEIVED
    await received.complete()
    await engine.dispose()


@pytest.mark.parametrize("kind", ["pool", "session maker"])
async def test_a_worker_works_on_asyncpg(database: Database, aqueue: pgqueue.aio.Queue, kind: str) -> None:
    engine = create_async_engine(with_driver(database, "asyncpg"))
    await aqueue.send_batch([Message(number) for number in range(5)])
    seen: list[int] = []

    async def handle(message: Any, tx: Any) -> None:
        await (tx.execute("select 1") if kind == "pool" else tx.execute(sqlalchemy.text("select 1")))
        seen.append(message.body)
        if len(seen) == 5:
            worker.stop()

    async with asyncpg.create_pool(database.dsn, min_size=0, max_size=3) as pool:
        source = pool if kind == "pool" else async_sessionmaker(engine)
        worker = pgqueue.aio.Worker(aqueue, handle, transaction=source, concurrency=2)
        await worker.run()
        assert sorted(seen) == [0, 1, 2, 3, 4]
        assert await aqueue.peek() == []
    await engine.dispose()


async def test_results_of_a_batch_are_those_of_psycopg(aqueue: pgqueue.aio.Queue, aconnection: Any) -> None:
    await aqueue.send_batch([Message(1), Message(2)])
    received = await aqueue.receive(max_messages=2)
    async with aconnection.transaction():
        results = await aqueue.renew_lock_batch(received, lock_duration=MINUTE, transaction=aconnection)
        assert all(each.locked_until is not None for each in results)
        results = await aqueue.complete_batch(received, transaction=aconnection)
    assert [each.sequence_number for each in results] == [each.sequence_number for each in received]


@pytest.mark.parametrize("kind", ["connection", "engine"])
async def test_a_transaction_that_has_failed_unnoticed_is_not_committed(
    database: Database, aqueue: pgqueue.aio.Queue, aconnection: Any, kind: str
) -> None:
    engine = create_async_engine(with_driver(database, "asyncpg"))
    source = aconnection if kind == "connection" else engine
    begun = await adrive(transports.begin(source, source_of(aqueue), asynchronous=True))
    with pytest.raises(Exception, match="division"):
        await begun.handle.execute("select 1 / 0" if kind == "connection" else sqlalchemy.text("select 1 / 0"))
    with pytest.raises(TransactionRequiredError, match="aborted"):
        await adrive(begun.commit())
    await adrive(begun.rollback())
    await adrive(begun.release())
    await engine.dispose()


@pytest.mark.parametrize("kind", ["connection", "engine"])
async def test_a_commit_can_be_followed_by_the_next_transaction(
    database: Database, aqueue: pgqueue.aio.Queue, aconnection: Any, kind: str
) -> None:
    """In more round trips than with psycopg, but with the same outcome."""
    which = Statement("select pg_current_xact_id()::text", {}, scalar)
    engine = create_async_engine(with_driver(database, "asyncpg"))
    begun = await adrive(
        transports.begin(aconnection if kind == "connection" else engine, source_of(aqueue), asynchronous=True)
    )
    committed = await adrive(begun.execute(which))
    rolled_back = await adrive(begun.commit_and_begin(which, which))
    await adrive(begun.rollback())
    await adrive(begun.release())
    await engine.dispose()
    with database.connect() as connection:
        outcomes = [
            connection.execute("select pg_xact_status(%s::text::xid8)", [xid]).fetchone()
            for xid in (committed, rolled_back)
        ]
    assert outcomes == [("committed",), ("aborted",)]


# After failures


async def test_a_deadline_that_is_over_leaves_the_connection_open(aqueue: pgqueue.aio.Queue, aconnection: Any) -> None:
    received = await received_of(aqueue)
    with pgqueue.deadline(timedelta(microseconds=1)), pytest.raises(OperationTimeoutError):
        async with received.transaction(aconnection):
            pytest.fail("it began")
    async with received.transaction(aconnection):
        assert not aconnection.is_closed()


async def received_of(aqueue: pgqueue.aio.Queue) -> pgqueue.aio.ReceivedMessage:
    await aqueue.send(Message(1))
    [received] = await aqueue.receive()
    return received


async def test_a_connection_that_another_task_occupies_at_the_end_of_a_block_is_closed(
    aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    """Its transaction cannot be rolled back, and must not be that of the statements that follow."""
    received = await received_of(aqueue)
    tasks = []

    async def work() -> None:
        async with received.transaction(aconnection) as tx:
            tasks.append(asyncio.create_task(tx.fetch("select pg_sleep(60)")))
            await asyncio.sleep(0)  # it begins
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert aconnection.is_closed()
    await asyncio.gather(*tasks, return_exceptions=True)
    await received.complete()


async def test_a_connection_is_as_before_when_its_transaction_could_not_be_begun(
    aqueue: pgqueue.aio.Queue, aconnection: Any
) -> None:
    received = await received_of(aqueue)
    task = asyncio.create_task(aconnection.fetch("select pg_sleep(0.3)"))
    await asyncio.sleep(0)  # it begins
    with pytest.raises(pgqueue.PGQueueError):
        async with received.transaction(aconnection):
            pytest.fail("it began")
    await task
    async with aconnection.transaction():
        assert await aconnection.fetchval("select 1") == 1


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"])
async def test_text_is_sent_over_asyncpg_from_a_client_of_any_encoding(
    aqueue: pgqueue.aio.Queue, aconnection: Any, encoding: str
) -> None:
    await aconnection.execute(f"set client_encoding = '{encoding}'")
    async with aconnection.transaction():
        await aqueue.send(Message({WORDS: WORDS}, subject=WORDS), transaction=aconnection)
    [received] = await aqueue.receive()
    assert (received.body, received.subject) == ({WORDS: WORDS}, WORDS)


async def test_a_commit_of_which_it_is_not_known_whether_it_commits_fails(
    database: Database, aqueue: pgqueue.aio.Queue
) -> None:
    """The question before the commit fails: neither is an outcome announced, nor does the pool lend the connection."""
    engine = create_async_engine(with_driver(database, "asyncpg"), pool_size=1, max_overflow=0)
    received = await received_of(aqueue)
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("select 2"))
        await received.complete(transaction=connection)

        def hook(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> tuple[str, Any]:
            return ("select 1/0" if statement == "select 1" else statement), parameters

        sqlalchemy.event.listen(connection.sync_connection, "before_cursor_execute", hook, retval=True)
        with pytest.raises(sqlalchemy.exc.DBAPIError, match="division by zero"):
            await connection.commit()
    assert await received.resolve() is ReceiveState.RECEIVED
    async with engine.connect() as connection:
        assert (await connection.execute(sqlalchemy.text("select 1"))).scalar() == 1
    await received.complete()
    await engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
@pytest.mark.parametrize("end", ["end", "/* the end */ end", "\n end"])
async def test_text_that_ends_a_failed_transaction_is_noticed(
    database: Database, aqueue: pgqueue.aio.Queue, driver: str, end: str
) -> None:
    engine = create_async_engine(with_driver(database, driver))
    received = await received_of(aqueue)
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("select 2"))
        await received.complete(transaction=connection)
        with suppress(sqlalchemy.exc.DBAPIError):
            await connection.execute(sqlalchemy.text("select 1/0"))
        for text in (end, "begin"):
            await connection.execute(sqlalchemy.text(text))
        await connection.commit()
    assert received.state is not ReceiveState.COMPLETED
    assert await received.resolve() is ReceiveState.RECEIVED
    await engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_rollback_to_a_savepoint_that_fails_hides_no_later_one(
    database: Database, aqueue: pgqueue.aio.Queue, driver: str
) -> None:
    engine = create_async_engine(with_driver(database, driver))
    received = await received_of(aqueue)
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("savepoint a"))
        await received.complete(transaction=connection)
        nested = await connection.begin_nested()
        savepoint = nested.sync_transaction._savepoint  # type: ignore[union-attr]
        await connection.execute(sqlalchemy.text(f"release savepoint {savepoint}"))
        with suppress(sqlalchemy.exc.DBAPIError):
            await nested.rollback()
        await connection.execute(sqlalchemy.text("rollback to savepoint a"))
        await connection.commit()
    assert received.state is not ReceiveState.COMPLETED
    assert await received.resolve() is ReceiveState.RECEIVED
    await engine.dispose()


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("end", ["tpc_commit", "tpc_rollback"])
def test_work_that_ends_a_transaction_of_psycopg2_commits_nothing_later(
    queue: pgqueue.Queue, connection: Any, autocommit: bool, end: str
) -> None:
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("create table late (number integer)")
    connection.autocommit = autocommit
    queue.send(Message(1))
    (received,) = queue.receive()

    def work() -> None:
        with received.transaction(connection) as tx:
            getattr(tx, end)()
            with tx.cursor() as cursor:
                cursor.execute("insert into late values (1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert connection.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_IDLE
    assert connection.autocommit is autocommit
    connection.commit()
    assert fetched(connection, "select * from late") == []
