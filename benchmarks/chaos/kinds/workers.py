"""Workers in threads and as tasks, one message or several in a transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pgqueue
import pgqueue.aio
from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.kinds.acting import Actor, Kind, aremember, deliveries, locks, remember

#: Handlers fail now and then; their messages rest for a moment.
RETRY = pgqueue.RetryPolicy(first_delay=timedelta(milliseconds=500), max_delay=timedelta(seconds=1))


class Stumbled(Exception):
    """Raised by a handler for no reason."""


class Threads:
    """A worker whose handlers run in threads."""

    batch = 1
    transaction = "psycopg"

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._client = pgqueue.QueueClient(actor.setting.dsn)

    def step(self) -> None:
        worker = pgqueue.Worker(
            self._client.queue(self._actor.queue),
            self._handle,
            concurrency=3,
            transaction=self.transaction,
            transaction_batch=self.batch,
            retry=RETRY,
            prefetch=10,
        )
        worker.run()

    def _handle(self, message: pgqueue.ReceivedMessage, tx: Any) -> None:
        note(self._actor, message)
        with self._actor.operation(
            "settle", how="complete", locks=locks([message]), effect=True, doubt=True
        ) as attempt:
            attempt.leave_open()  # the worker completes it when this has returned
            self._write(tx, [message.body["id"], attempt.name])
            remember(message, tx)
            stumble(self._actor)

    def _write(self, tx: Any, effect: list[str]) -> None:
        tx.execute(EFFECT, effect)


class Batched(Threads):
    """A worker whose messages share transactions."""

    batch = 5


class ThreadsOfSQLAlchemy(Threads):
    """A worker whose handlers get a session."""

    transaction = "sqlalchemy"

    def _write(self, tx: Any, effect: list[str]) -> None:
        tx.connection().exec_driver_sql(EFFECT, tuple(effect))


class Tasks:
    """A worker whose handlers are tasks of an event loop."""

    batch = 1

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def step(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with pgqueue.aio.QueueClient(self._actor.setting.dsn) as client:
            worker = pgqueue.aio.Worker(
                client.queue(self._actor.queue),
                self._handle,
                concurrency=5,
                transaction="psycopg",
                transaction_batch=self.batch,
                retry=RETRY,
                prefetch=10,
            )
            await worker.run()

    async def _handle(self, message: pgqueue.aio.ReceivedMessage, tx: Any) -> None:
        note(self._actor, message)
        with self._actor.operation(
            "settle", how="complete", locks=locks([message]), effect=True, doubt=True
        ) as attempt:
            attempt.leave_open()
            await tx.execute(EFFECT, [message.body["id"], attempt.name])
            await aremember(message, tx)
            stumble(self._actor)


class BatchedTasks(Tasks):
    """Tasks whose messages share transactions."""

    batch = 5


def note(actor: Actor, message: Any) -> None:
    """Writes down that a message was delivered, when a handler first sees it."""
    with actor.receiving() as operation:
        operation.facts["deliveries"] = deliveries([message])
        operation.facts["noted"] = True


def stumble(actor: Actor) -> None:
    if actor.commits("rollback", 0.05):
        raise Stumbled


WORKERS: dict[str, type[Kind]] = {
    "worker-threads": Threads,
    "worker-batch": Batched,
    "worker-sqlalchemy": ThreadsOfSQLAlchemy,
    "worker-tasks": Tasks,
    "worker-task-batch": BatchedTasks,
}
