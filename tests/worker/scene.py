"""A queue, a table of effects, and workers: one that runs its handlers in threads, and one that runs them as tasks.

Handlers are coroutine functions here, which both can run; what they are given as transaction is of either kind.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

import psycopg
import sqlalchemy

import pgqueue
import pgqueue.aio
from pgqueue import Message
from pgqueue.testing import Database
from tests.patience import PATIENCE

FACES = ["threads", "tasks"]


class Running:
    """A worker at work in a thread of its own."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            result = self.worker.run()
            if inspect.iscoroutine(result):
                asyncio.run(result)
        except BaseException as error:  # noqa: BLE001 - raised where the worker is waited for
            self.error = error

    def ended(self) -> None:
        """Waits until it has ended, and raises what it ended with."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the worker does not end"
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.worker.stop()
        self.ended()


class Scene:
    def __init__(self, database: Database, face: str) -> None:
        self.database = database
        self.face = face
        self.client = pgqueue.QueueClient(database.dsn)

    def __enter__(self) -> Self:
        self.client.create_queue("q", lock_duration=timedelta(seconds=20))
        self.queue = self.client.queue("q")
        self.run("create table effect (number int, transaction xid8 default pg_current_xact_id())")
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def send(self, *bodies: Any) -> Sequence[int]:
        return self.queue.send_batch([Message(body) for body in bodies])

    def make(self, handler: Callable[..., Any], **options: Any) -> Any:
        """A worker of this face."""
        if self.face == "threads":
            if options.get("transaction") is not None:
                handler = plain(handler)
            return pgqueue.Worker(self.queue, handler, **options)
        return pgqueue.aio.Worker(pgqueue.aio.QueueClient(self.database.dsn).queue(self.queue.name), handler, **options)

    @contextmanager
    def working(self, handler: Callable[..., Any], **options: Any) -> Iterator[Running]:
        """A worker, which is stopped at the end."""
        with self.running(self.make(handler, **options)) as running:
            yield running

    @contextmanager
    def running(self, worker: Any) -> Iterator[Running]:
        """This worker at work, which is stopped at the end."""
        running = Running(worker)
        try:
            yield running
        finally:
            running.worker.stop()
        running.ended()

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.database.connect(autocommit=True) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()

    def run(self, statement: str) -> None:
        with self.database.connect(autocommit=True) as connection:
            connection.execute(statement.encode())

    def effects(self) -> Sequence[int]:
        return [number for (number,) in self.rows("select number from effect order by number")]

    def left(self) -> list[Any]:
        """The bodies of what is still in the queue."""
        return [message.body for message in self.queue.peek(max_messages=10_000)]

    def dead(self) -> list[Any]:
        return self.queue.dead_letters.peek(max_messages=10_000)


def plain(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function that returns a coroutine: such handlers may have a synchronous transaction."""

    @functools.wraps(handler)
    def called(*arguments: Any) -> Any:
        return handler(*arguments)

    return called


async def effect(transaction: Any, number: int) -> None:
    """Leaves a row in whatever transaction it is given."""
    if isinstance(transaction, psycopg.Connection | psycopg.AsyncConnection):
        result: Any = transaction.execute("insert into effect values (%s)", [number])
    else:
        result = transaction.execute(sqlalchemy.text("insert into effect values (:number)"), {"number": number})
    if inspect.isawaitable(result):
        await result
