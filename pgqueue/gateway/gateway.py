"""The gateway: what its connections share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pgqueue
from pgqueue.aio import ReceivedMessage, Session
from pgqueue.errors import PGQueueError
from pgqueue.gateway import conditions
from pgqueue.gateway.clients import RoleClient
from pgqueue.gateway.conditions import Refusal
from pgqueue.gateway.connection import Connection, Wire
from pgqueue.gateway.keys import KeyRing
from pgqueue.gateway.receiving import Held, tag_of
from pgqueue.gateway.settings import Settings

logger = logging.getLogger("pgqueue.gateway")

#: How often keys are read again, and expired locks and tokens are searched for, in seconds.
EVERY = 15.0

#: How long after the end of its lock a message is remembered: the lock may have been renewed elsewhere.
GRACE = timedelta(minutes=1)


#: How many transactions of clients are committed at a time, each on a connection of its own.
COMMITS = 8


class Memory:
    """How many bytes of messages have arrived that are not stored yet. Beyond the bound nothing more is read."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self.taken = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def take(self, size: int) -> None:
        """So many bytes have arrived."""
        self.taken += size
        if self.taken > self._bound:
            self._has_room.clear()

    def give_back(self, size: int) -> None:
        """So many bytes are stored."""
        self.taken -= size
        if self.taken <= self._bound:
            self._has_room.set()

    async def room(self) -> None:
        """Wait until there is room."""
        await self._has_room.wait()


class Gateway:
    """Serves connections: each key has the rights of its role, and all clients of a role share what is costly."""

    version = pgqueue.__version__

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = KeyRing(settings.dsn, settings.schema, settings.secret)
        self.memory = Memory(settings.memory)
        self.held: dict[UUID, Held] = {}
        self.links = 0
        self.commits = asyncio.Semaphore(COMMITS)
        self.connections: set[Connection] = set()
        self.handlers: set[asyncio.Task[Any]] = set()
        self.is_stopping = False
        self._clients: dict[str, RoleClient] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Read the keys, and begin to look after what expires. Raises a PGQueueError."""
        await self.keys.read()
        self.spawn(self._look_after(), waits=True)

    async def client_of(self, role: str) -> RoleClient:
        """The queues, with the rights of a role. Raises Refusal if connections do not take it on."""
        if role not in self._clients:
            self._clients[role] = RoleClient(self.settings.dsn, role, self.settings.schema)
        await self._clients[role].check()
        return self._clients[role]

    def connect(self, wire: Wire, peer: str) -> Connection:
        """A client has connected."""
        connection = Connection(self, wire, peer)
        self.connections.add(connection)
        if self.is_stopping:
            connection.close()
        if (task := asyncio.current_task()) is not None:
            self.handlers.add(task)
            task.add_done_callback(self.handlers.discard)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """A client has gone."""
        connection.close()
        self.connections.discard(connection)

    def hold(self, received: ReceivedMessage, accepted: Session | None) -> None:
        """A client has received a message by a request, perhaps of a session, and settles it by another one."""
        self.held[tag_of(received)] = Held(received, None, accepted)

    def settled(self, held: Held) -> None:
        """A message was settled by a request."""
        if held.link is None:
            self.held.pop(tag_of(held.received), None)
        else:
            held.link.settled(held)
            held.link.session.settled(held.delivery_id)

    async def clock(self) -> datetime:
        """The time by the clock of the database: no other decides about messages. Raises a PGQueueError."""
        ((now,),) = await self.keys.rows("select pgqueue.clock()")
        return cast(datetime, now)

    def spawn(self, work: Coroutine[Any, Any, Any], *, waits: bool = False) -> asyncio.Task[Any]:
        """Run something that outlives its connection; at the end, what only ``waits`` is cancelled."""
        task = asyncio.create_task(work)
        if waits:
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, PGQueueError):
            logger.error("unexpected %s: %s", type(error).__name__, error, exc_info=error)

    async def stop(self) -> None:
        """Send the clients away, who may come again, and give back what they hold."""
        self.is_stopping = True
        held = [one for one in self.held.values() if not one.is_settling]
        for connection in list(self.connections):
            connection.fail(Refusal(conditions.STOPPED, "the gateway stops: connect again"))
        for task in self._waiting:
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        for one in held:
            try:
                await one.received.postpone(timedelta(0))
            except PGQueueError as error:
                logger.info("message %s stays locked: %s", one.received.sequence_number, error)
        for client in self._clients.values():
            await client.close()

    async def _look_after(self) -> None:
        """Every few seconds: what has expired is forgotten, and who may no longer is sent away."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.keys.read()
                self._forget(await self.clock())
            except PGQueueError as error:
                logger.warning("the keys could not be read, and stay as they were: %s", error)
            for connection in list(self.connections):
                if connection.is_late():
                    connection.close()
                connection.check_grants()

    def _forget(self, now: datetime) -> None:
        """Forget the messages whose locks have expired."""
        for token, held in list(self.held.items()):
            if held.locked_until is not None and held.locked_until + GRACE < now:
                del self.held[token]
                if held.link is not None:
                    held.link.settled(held)
