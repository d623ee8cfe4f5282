"""Handlers, transactions and bodies under a type checker: each line passes, or fails where it must."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import psycopg
import psycopg2.extensions
import psycopg_pool
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, sessionmaker
from typing import Any

import pgqueue
import pgqueue.aio
from pgqueue import Handlers, Message, PeekedMessage, Queue, QueueClient, ReceiveMode, ReceivedMessage, Worker, process
from pgqueue.testing import drain

@dataclass
class Order:
    number: int

def none() -> None: ...
def one(message: ReceivedMessage) -> None: ...
def typed(message: ReceivedMessage[Order]) -> int: return message.body.number
def two(message: ReceivedMessage, tx: psycopg.Connection) -> None: ...
def session(message: ReceivedMessage, tx: Session) -> None: ...
def connection(message: ReceivedMessage, tx: sqlalchemy.Connection) -> None: ...
def three(message: ReceivedMessage, tx: psycopg.Connection, more: int) -> None: ...
async def awrong(message: ReceivedMessage) -> None: ...
async def aone(message: pgqueue.aio.ReceivedMessage) -> None: ...
async def atwo(message: pgqueue.aio.ReceivedMessage, tx: psycopg.AsyncConnection) -> None: ...
async def asession(message: pgqueue.aio.ReceivedMessage, tx: AsyncSession) -> None: ...

def sync(
    client: QueueClient, orders: Queue[Order], received: ReceivedMessage[Order], engine: sqlalchemy.Engine,
    pool: psycopg_pool.ConnectionPool, maker: sessionmaker[Session], app: Handlers,
    other: psycopg2.extensions.connection,
) -> None:
    anything = client.queue("anything")
    Worker(anything, one)
    Worker(anything, typed, concurrency=2)
    Worker(anything, two, transaction="psycopg")
    Worker(anything, two, transaction=pool)
    Worker(anything, session, transaction="sqlalchemy")
    Worker(anything, session, transaction=maker)
    Worker(anything, connection, transaction=engine)
    Worker(client, app, transaction="psycopg")
    Worker(client, app)
    Worker(anything, lambda message: None)
    Worker(anything, none)  # wrong
    Worker(anything, three, transaction="psycopg")  # wrong
    Worker(anything, one, transaction="psycopg")  # wrong
    Worker(anything, two)  # wrong
    Worker(anything, two, transaction="oracle")  # wrong
    Worker(anything, two, transaction="sqlalchemy")  # wrong
    Worker(anything, session, transaction="psycopg")  # wrong
    Worker(anything, session, transaction=engine)  # wrong
    Worker(anything, one, concurency=2)  # wrong
    Worker(client, one)  # wrong
    Worker(anything, app)  # wrong

    process(received, typed)
    process(received, two)
    process(received, two, pool)
    process(received, session, maker)
    process(received, connection, engine)
    process(received, lambda message, tx: None)
    process(received, none)  # wrong
    process(received, three)  # wrong
    process(received, session, pool)  # wrong
    process(received, two, maker)  # wrong
    process(received, two, "postgresql://localhost")  # wrong
    drain(orders, typed)
    drain(orders, session, source=maker)
    drain(orders, none)  # wrong

    with received.transaction(pool) as tx:
        assert_type(tx, psycopg.Connection[Any])
    with received.transaction(maker) as within:
        assert_type(within, Session)
    with received.transaction(engine) as sqlalchemys:
        assert_type(sqlalchemys, sqlalchemy.Connection)

    assert_type(received.body, Order)
    assert_type(orders.receive(), list[ReceivedMessage[Order]])
    assert_type(orders.dead_letters.peek()[0].body, Order)
    assert_type(Message(Order(1)), Message[Order])
    orders.send(Message(Order(1)))
    orders.send(Message("text"))  # wrong
    orders.send(Message(Order(1)), transaction=5)  # wrong
    received.complete(transaction=pool)  # wrong
    received.complete(transaction=maker())
    received.complete(transaction=other)
    anything.send(Message(1), transaction=other)
    Worker(anything, lambda message, tx: None, transaction=other)
    process(received, lambda message, tx: None, other)
    with received.transaction(other) as anything_at_all:
        assert_type(anything_at_all, Any)
    QueueClient(other)  # wrong
    QueueClient(5)  # wrong
    QueueClient(pool)
    QueueClient(engine)
    orders.send_batch([Message("text")])  # wrong
    anything.send_batch([Message(1), Message("text")])
    anything.send(Message({"a": 1}))
    plain: Message = Message(b"")
    plain.body.whatever
    assert_type(client.queue("orders", body_type=Order), Queue[Order])
    assert_type(client.queue("orders", body_type=list[Order]), Queue[list[Order]])
    assert_type(client.queue("orders"), Queue[Any])
    assert_type(client.subscription("t", "s", body_type=Order).receive()[0].body, Order)
    either: Queue[Order | int] = client.queue("orders", body_type=Order | int)
    either.send(Message(7))
    either.send(Message("text"))  # wrong
    client.topic("t", body_type=Order).send(Message(Order(1)))
    client.topic("t", body_type=Order).send(Message("text"))  # wrong
    client.queue("orders", body_type=Order).send(Message({"number": 1}))  # wrong
    Worker(client.queue("orders", body_type=Order), typed)
    Worker(client.queue("orders", body_type=int), typed)  # wrong
    with orders.receiver() as receiver:
        for each in receiver:
            assert_type(each, ReceivedMessage[Order])
            each.complete()
    with orders.receiver(receive_mode=ReceiveMode.RECEIVE_AND_DELETE) as deleting:
        assert_type(next(deleting), PeekedMessage[Order])

    app.handler("orders", subject="paid")(two)
    app.handler("orders")(typed)
    app.handler("orders")(aone)
    app.handler("orders")(none)  # wrong
    app.handler("orders")(three)  # wrong
    assert_type(app.handler("q")(typed)(received), int)

class OfAsyncpg:
    def get_server_pid(self) -> int: return 7
    def is_in_transaction(self) -> bool: return True

class PoolOfAsyncpg:
    def acquire(self, *, timeout: float | None = None) -> OfAsyncpg: return OfAsyncpg()
    def get_idle_size(self) -> int: return 7

async def asynchronous(
    other: OfAsyncpg, pool: PoolOfAsyncpg,
    client: pgqueue.aio.QueueClient, received: pgqueue.aio.ReceivedMessage[Order], engine: AsyncEngine, app: Handlers
) -> None:
    anything = client.queue("anything")
    pgqueue.aio.Worker(anything, aone)
    pgqueue.aio.Worker(anything, atwo, transaction="psycopg")
    pgqueue.aio.Worker(anything, asession, transaction="sqlalchemy")
    pgqueue.aio.Worker(client, app, transaction="sqlalchemy")
    pgqueue.aio.Worker(anything, one)  # wrong
    pgqueue.aio.QueueClient(5)  # wrong
    pgqueue.aio.QueueClient(engine)
    await anything.send(Message(1), transaction=5)  # wrong
    await anything.send(Message(1), transaction=other)
    await received.complete(transaction=pool)  # wrong
    pgqueue.aio.Worker(anything, atwo, transaction=pool)
    async with received.transaction(pool) as of_the_pool:
        assert_type(of_the_pool, Any)
    pgqueue.aio.Worker(anything, atwo)  # wrong
    pgqueue.aio.Worker(anything, one)  # wrong
    pgqueue.aio.Worker(anything, awrong)  # wrong
    pgqueue.aio.Worker(anything, asession, transaction="psycopg")  # wrong
    pgqueue.aio.Worker(anything, lambda message, tx: None, transaction="psycopg")  # wrong
    await pgqueue.aio.process(received, atwo)
    await pgqueue.aio.process(received, asession, engine)  # wrong
    async with received.transaction(engine) as tx:
        assert_type(tx, sqlalchemy.ext.asyncio.AsyncConnection)
    assert_type((await anything.receive())[0].body, Any)
    assert_type((await client.queue("orders", body_type=Order).receive())[0].body, Order)
    await client.queue("orders", body_type=Order).send(Message("text"))  # wrong
"""


def test_a_type_checker_accepts_what_is_right_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-error-summary",
            "--cache-dir", str(tmp_path / "cache"), str(program),
        ],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = {int(line) for line in re.findall(r"program\.py:(\d+): error:", ended.stdout)}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert said == wrong, ended.stdout + ended.stderr
