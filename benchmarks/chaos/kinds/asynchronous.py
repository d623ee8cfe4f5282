"""Receivers and senders in an event loop, whose tasks are cancelled at any await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import pgqueue.aio
from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.history import Open
from benchmarks.chaos.kinds.acting import (
    EXPECTED,
    PAUSE_AFTER_AN_ERROR,
    Actor,
    Kind,
    answered,
    aremember,
    deliveries,
    known_state,
    locks,
)
from pgqueue import Message
from pgqueue.aio import ReceivedMessage

WAIT = timedelta(milliseconds=500)
#: A task is cancelled within so many seconds: about as long as it takes.
SOON = 0.02


class Asynchronous:
    """Runs tasks, one after the other, in a loop of its own; some are cancelled."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def step(self) -> None:
        asyncio.run(self.run())

    async def run(self) -> None:
        async with pgqueue.aio.QueueClient(self.actor.setting.dsn) as self.client:
            self.queue = self.client.queue(self.actor.queue)
            while not self.is_over:
                try:
                    await self.act()
                except EXPECTED:
                    await asyncio.sleep(PAUSE_AFTER_AN_ERROR)

    @property
    def is_over(self) -> bool:
        return False

    async def act(self) -> None:
        raise NotImplementedError

    async def perhaps_cancelled(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        if self.actor.commits("cancel", 0.3):
            await asyncio.wait([task], timeout=self.actor.chance.uniform(0, SOON))
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class AsyncReceiver(Asynchronous):
    """``async with received.transaction()``."""

    at_once = 5

    async def act(self) -> None:
        with self.actor.receiving() as operation:
            received = await self.queue.receive(max_messages=self.at_once, wait=WAIT)
            operation.facts["deliveries"] = deliveries(received)
        for each in received:
            await self.perhaps_cancelled(self.complete(each))

    async def complete(self, received: ReceivedMessage) -> None:
        with self.settling(received, effect=True) as operation:
            try:
                async with received.transaction() as transaction:
                    await transaction.execute(EFFECT, [received.body["id"], operation.name])
            finally:
                await self.ask(received, operation)

    def settling(self, received: ReceivedMessage, *, effect: bool) -> Any:
        return self.actor.operation("settle", how="complete", locks=locks([received]), effect=effect, doubt=True)

    async def ask(self, received: ReceivedMessage, operation: Open) -> None:
        """The library's state once it has asked the database, where it knows that it must."""
        answered(operation)
        with suppress(*EXPECTED):
            await received.resolve()
        operation.facts["states"] = [known_state(received)]


class AsyncBare(AsyncReceiver):
    """``await received.complete()``, without an effect."""

    async def complete(self, received: ReceivedMessage) -> None:
        with self.settling(received, effect=False) as operation:
            try:
                await received.complete()
            finally:
                await self.ask(received, operation)


class AsyncByHand(AsyncReceiver):
    """A psycopg connection of the caller's."""

    _connection: psycopg.AsyncConnection[Any] | None = None

    async def complete(self, received: ReceivedMessage) -> None:
        connection = await self._own_connection()
        with self.settling(received, effect=True) as operation:
            try:
                await connection.execute(EFFECT, [received.body["id"], operation.name])
                await aremember(received, connection)
                await received.complete(transaction=connection)
                await connection.commit()
            finally:
                await self._end(connection)
                await self.ask(received, operation)

    async def _own_connection(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(self.actor.setting.dsn)
        return self._connection

    async def _end(self, connection: psycopg.AsyncConnection[Any]) -> None:
        with suppress(psycopg.Error):
            await connection.rollback()


class AsyncAlchemy(AsyncReceiver):
    """An AsyncSession of the caller's."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(actor)
        url = actor.setting.dsn.replace("postgresql://", "postgresql+psycopg://", 1)
        self._engine = create_async_engine(url, pool_size=1)

    async def complete(self, received: ReceivedMessage) -> None:
        with self.settling(received, effect=True) as operation:
            try:
                async with AsyncSession(self._engine) as session:
                    connection = await session.connection()
                    await connection.exec_driver_sql(EFFECT, (received.body["id"], operation.name))
                    await received.complete(transaction=session)
                    await session.commit()
            finally:
                await self.ask(received, operation)


class AsyncSender(Asynchronous):
    """Sends one by one and overlapped, from tasks that are cancelled now and then; stops when faults are over."""

    @property
    def is_over(self) -> bool:
        return self.actor.is_resting

    async def act(self) -> None:
        target = self.actor.chance.choice(self.actor.setting.queues)
        ways = [self._send, self._overlapped]
        await self.perhaps_cancelled(self.actor.chance.choice(ways)(target))
        await asyncio.sleep(self.actor.chance.uniform(0, 0.1) * self.actor.setting.pace)

    async def _send(self, queue: str) -> None:
        [message] = self.actor.new_messages()
        session = self.actor.a_session(queue)
        with self.actor.operation("send", queue, ids=[message], session=session, doubt=True):
            await self.client.queue(queue).send(Message({"id": message}, session_id=session))

    async def _overlapped(self, queue: str) -> None:
        async with self.client.queue(queue).sender(max_in_flight=5) as sender:
            messages = self.actor.new_messages(10)
            await asyncio.gather(*(self._through(sender, queue, message) for message in messages))

    async def _through(self, sender: pgqueue.aio.Sender, queue: str, message: str) -> None:
        session = self.actor.a_session(queue)
        facts = {"ids": [message], "session": session}
        with suppress(*EXPECTED), self.actor.operation("send", queue, doubt=True, **facts) as operation:
            pending = await sender.send(Message({"id": message}, session_id=session))
            operation.facts["number"] = await pending.result()


RECEIVERS: dict[str, type[Kind]] = {
    "async-transaction": AsyncReceiver,
    "async-complete": AsyncBare,
    "async-by-hand": AsyncByHand,
    "async-sqlalchemy": AsyncAlchemy,
}
