from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import pgqueue.aio
from pgqueue import Message, QueueClient, ReceivedMessage, Tasks
from pgqueue.aio.testing import drain as adrain
from pgqueue.errors import InvalidArgumentError, NoHandlerError
from pgqueue.testing import drain
from pgqueue.testing.database import Database


@pytest.fixture
def client(database: Database) -> Any:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        yield client


@pytest.mark.core
def test_drain_handles_all_messages_and_returns_a_result_for_each(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(2)])
    assert drain(orders, lambda message, tx: message.body * 10) == [10, 20]
    assert orders.receive() == []


def test_drain_raises_the_first_error_and_gives_its_message_back(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(0), Message(2)])

    def handler(message: ReceivedMessage, tx: object) -> float:
        return float(1 / message.body)

    with pytest.raises(ZeroDivisionError):
        drain(orders, handler)
    assert [message.body for message in orders.peek(max_messages=3)] == [0, 2]


def test_drain_calls_the_handler_that_is_registered_for_a_message(client: QueueClient) -> None:
    orders, app = client.queue("orders"), Tasks(client)

    @app.handler("orders", subject="paid")
    def ship(message: ReceivedMessage, tx: object) -> str:
        return f"ship {message.body}"

    @app.task(queue="orders")
    def remind(order: int) -> None:
        orders.send(Message(order, subject="paid"))

    remind.send(7)
    assert drain(orders, app) == [None, "ship 7"]
    orders.send(Message(8, subject="lost"))
    with pytest.raises(NoHandlerError, match="lost"):
        drain(orders, app)
    assert [message.body for message in orders.receive()] == [8]
    with pytest.raises(InvalidArgumentError, match="no handler for 'others'"):
        drain(client.queue("others"), app)


async def test_drain_awaits_the_handlers_that_are_registered(database: Database, client: QueueClient) -> None:
    async with pgqueue.aio.QueueClient(database.dsn) as theirs:
        tasks = pgqueue.aio.Tasks(theirs)

        @tasks.task(queue="orders")
        async def remind(order: int) -> None:
            assert order == 7

        await remind.send(7)
        assert await adrain(theirs.queue("orders"), tasks) == [None]
    assert client.queue("orders").peek() == []


def test_a_handler_may_do_without_the_transaction(client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send(Message(1))
    assert drain(orders, lambda message: message.body) == [1]


def test_drain_begins_its_transactions_on_the_given_source(client: QueueClient, database: Database) -> None:
    orders = client.queue("orders")
    orders.send(Message(1))

    def handler(message: ReceivedMessage, tx: Session) -> object:
        return tx.scalar(sqlalchemy.text("select 7"))

    engine = sqlalchemy.create_engine(database.url)
    assert drain(orders, handler, source=sessionmaker(engine)) == [7]
    engine.dispose()
    assert orders.receive() == []


async def test_an_asynchronous_handler_is_awaited(client: QueueClient, database: Database) -> None:
    client.queue("orders").send_batch([Message(1), Message(2)])
    seen: list[Any] = []

    async def handler(message: pgqueue.aio.ReceivedMessage, tx: AsyncSession) -> object:
        seen.append(type(tx))
        return message.body

    engine = create_async_engine(database.url)
    async with pgqueue.aio.QueueClient(database.dsn) as aclient:
        orders = aclient.queue("orders")
        assert await adrain(orders, handler, source=async_sessionmaker(engine)) == [1, 2]
        assert seen == [AsyncSession] * 2
        assert await orders.receive() == []
    await engine.dispose()


async def test_a_queue_of_the_other_face_is_refused(client: QueueClient, database: Database) -> None:
    with pytest.raises(InvalidArgumentError, match=r"for others, pgqueue\.testing"):
        await adrain(client.queue("orders"), print)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"for others, pgqueue\.aio\.testing"):
        drain(pgqueue.aio.QueueClient(database.dsn).queue("orders"), print)  # type: ignore[arg-type]


def test_drain_needs_neither_pytest_nor_psutil() -> None:
    program = (
        "import sys; sys.modules.update(pytest=None, psutil=None); from pgqueue.testing import drain; print(drain)"
    )
    assert "drain" in subprocess.check_output([sys.executable, "-c", program], text=True)
