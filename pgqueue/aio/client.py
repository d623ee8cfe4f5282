"""The asynchronous client: queues by name, and the schema they live in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from pgqueue import embedded, schema, transports
from pgqueue.aio.queue import Queue
from pgqueue.flows import queues as flows
from pgqueue.flows import sweeping
from pgqueue.model.settings import QueueProperties, QueueRuntimeProperties, QueueSettings
from pgqueue.model.sweeping import SweepReport
from pgqueue.statements import queues
from pgqueue.transports import adrive


class QueueClient:
    """The way in. ``source`` is a DSN, a ``psycopg_pool.AsyncConnectionPool`` or an ``AsyncEngine`` over psycopg.

    With a DSN the client has a pool of its own, opened at the first use and closed by :meth:`close` or at the end of a
    ``async with`` block; a pool or an engine that was given stays open. Safe to use from several tasks.

    A child of a fork may use it: with a DSN it opens connections of its own there. Over a pool that is open, or an
    engine that has connections, it raises :class:`~pgqueue.errors.InvalidStateError` in the child.

    Who waits for messages is told by the database when some come, over one connection for all queues; with
    ``listen=False``, and behind a pooler that makes it impossible, who waits looks from time to time instead.
    """

    def __init__(self, source: Any, *, listen: bool = True) -> None:
        self._source = transports.source_of(source, asynchronous=True, listens=listen)

    @classmethod
    async def embedded(cls, directory: Path | None = None) -> Self:
        """A client of the PostgreSQL that pip installed, started if need be, its schema migrated.

        Needs the extra ``pgqueue-tx[embedded]``. ``directory`` is where its data are kept.
        """
        client = cls(await asyncio.to_thread(embedded.start, directory))
        await client.migrate()
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client's own connections."""
        await adrive(self._source.close())

    async def migrate(self) -> None:
        """Brings the schema to the version of this library. Safe when many processes do it at once.

        Raises:
            SchemaVersionError: the schema is newer than this library.
        """
        await asyncio.to_thread(schema.migrate, self._source.conninfo)

    async def create_queue(
        self, name: str, *, exist_ok: bool = False, **settings: Unpack[QueueSettings]
    ) -> QueueProperties:
        """Creates a queue, with these settings of :class:`~pgqueue.QueueSettings`; the others have their defaults.

        Raises:
            QueueAlreadyExistsError: a queue of that name exists; with ``exist_ok`` it is returned as it is instead.
            InvalidArgumentError: the name or a setting is not what it may be.
        """
        return await adrive(flows.create(queues.create_queue(name, settings), name, self._source, exist_ok=exist_ok))

    async def get_queue(self, name: str) -> QueueProperties:
        """The settings of a queue. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return await adrive(self._source.execute(queues.get_queue(name)))

    async def get_queue_runtime_properties(self, name: str) -> QueueRuntimeProperties:
        """What is in a queue now. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return await adrive(self._source.execute(queues.get_queue_runtime_properties(name)))

    async def update_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueProperties:
        """Changes the settings that are given; None removes a setting that may be absent.

        Locks in force stay, and messages that were already sent keep their times.

        Raises:
            QueueNotFoundError: no queue has that name.
            InvalidArgumentError: a setting has an invalid value.
        """
        return await adrive(flows.alter(queues.alter_queue(name, settings), name, self._source))

    async def delete_queue(self, name: str) -> None:
        """Deletes a queue with all its messages and dead letters. Raises QueueNotFoundError."""
        await adrive(flows.drop(name, self._source))

    async def purge_queue(self, name: str) -> int:
        """Deletes the messages of a queue, locked, deferred and scheduled ones included, and returns how many.

        Dead letters stay; to delete those, name them: ``"<queue>/$deadletterqueue"``. Messages that an open transaction
        holds are left alone.
        """
        return await adrive(flows.purge(name, self._source))

    async def list_queues(self) -> list[QueueProperties]:
        """The settings of all queues, by name."""
        return await adrive(self._source.execute(queues.list_queues()))

    async def sweep(self, *, dry_run: bool = False) -> SweepReport:
        """Tidies up all queues, in short transactions, until nothing is left to do, and says what it did.

        Nothing depends on it. Safe at any time; while another sweeps, there is nothing to do. With ``dry_run`` it only
        counts what it would do.
        """
        return await adrive(sweeping.sweep(self._source, dry_run=dry_run))

    def queue(self, name: str) -> Queue:
        """A queue to send to and receive from; nothing is asked of the database yet."""
        return Queue(name, self._source)
