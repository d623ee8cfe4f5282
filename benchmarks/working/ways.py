"""Ways to work off a queue that is full: this library's workers, and raw psycopg on a table of the same shape."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

import pgqueue
import pgqueue.aio
from benchmarks.working.scene import Countdown, Scene

CONCURRENCY = 8
#: How many raw workers claim at once, and may share a transaction.
AT_ONCE = 50

INSERT = "insert into effect values (%s, %s)"

CLAIM = """
with free as (
    select ctid as place from floor where position > %s and (locked_until is null or locked_until <= now())
     order by position limit %s for update skip locked)
update floor
   set locked_until = now() + interval '1 minute', lock_token = gen_random_uuid(), delivery_count = delivery_count + 1
  from free where floor.ctid = free.place
returning position, lock_token, delivery_count, enqueued_time, body"""
DELETE = "delete from floor where position = any(%s::bigint[])"


@dataclass(frozen=True)
class Way:
    """A way to work off so many messages; answers with messages a second. ``floor``: what it is compared with."""

    title: str
    floor: str
    run: Callable[[Scene, int], float]
    share: float = 1.0


def ways() -> list[Way]:
    drain, one, batch = "raw: claim and delete 500", "raw: insert and delete", "raw: 50 inserts and deletes"
    return [
        Way("no-op, threads", drain, threads),
        Way("no-op, asyncio", drain, tasks),
        Way(drain, drain, raw_drain),
        Way("one insert, threads", one, inserting, 0.1),
        Way("one insert, asyncio", one, inserting_tasks, 0.1),
        Way(one, one, raw_inserting, 0.1),
        Way("one insert, 50 share a transaction, threads", batch, partial(inserting, batch=50), 0.3),
        Way("one insert, 50 share a transaction, asyncio", batch, partial(inserting_tasks, batch=50), 0.3),
        Way(batch, batch, partial(raw_inserting, batch=50), 0.3),
    ]


def threads(scene: Scene, count: int) -> float:
    def handler(_: pgqueue.ReceivedMessage) -> None:
        countdown.one()

    worker = pgqueue.Worker(scene.queue, handler, concurrency=CONCURRENCY)
    countdown = Countdown(count, worker.stop)
    worker.run()
    return countdown.rate()


def tasks(scene: Scene, count: int) -> float:
    async def main() -> float:
        async def handler(_: pgqueue.aio.ReceivedMessage) -> None:
            countdown.one()

        async with pgqueue.aio.QueueClient(scene.dsn) as client:
            worker = pgqueue.aio.Worker(client.queue(scene.queue.name), handler, concurrency=CONCURRENCY)
            countdown = Countdown(count, worker.stop)
            await worker.run()
            return countdown.rate()

    return asyncio.run(main())


def raw_drain(scene: Scene, count: int, batch: int = 500) -> float:
    with psycopg.connect(scene.dsn, autocommit=True) as connection:
        countdown = Countdown(count, lambda: None)
        numbers: list[int] = [0]
        for _ in range(count // batch):
            rows = connection.execute(CLAIM, [max(numbers), batch], binary=True).fetchall()
            for _row in rows:
                countdown.one()
            numbers = [row[0] for row in rows]
            connection.execute(DELETE, [numbers])
        return countdown.rate()


def inserting(scene: Scene, count: int, batch: int = 1) -> float:
    def handler(message: pgqueue.ReceivedMessage, tx: psycopg.Connection[Any]) -> None:
        countdown.one()
        tx.execute(INSERT, [message.sequence_number, Jsonb(message.body)])

    worker = pgqueue.Worker(
        scene.queue, handler, concurrency=CONCURRENCY, transaction="psycopg", transaction_batch=batch
    )
    countdown = Countdown(count, worker.stop)
    worker.run()
    return countdown.rate()


def inserting_tasks(scene: Scene, count: int, batch: int = 1) -> float:
    async def main() -> float:
        async def handler(message: pgqueue.aio.ReceivedMessage, tx: psycopg.AsyncConnection[Any]) -> None:
            countdown.one()
            await tx.execute(INSERT, [message.sequence_number, Jsonb(message.body)])

        async with pgqueue.aio.QueueClient(scene.dsn) as client:
            worker = pgqueue.aio.Worker(
                client.queue(scene.queue.name),
                handler,
                concurrency=CONCURRENCY,
                transaction="psycopg",
                transaction_batch=batch,
            )
            countdown = Countdown(count, worker.stop)
            await worker.run()
            return countdown.rate()

    return asyncio.run(main())


def raw_inserting(scene: Scene, count: int, batch: int = 1) -> float:
    """As many threads, each with a connection of its own; they claim fifty at a time."""
    countdown = Countdown(count, lambda: None)

    def work() -> None:
        with psycopg.connect(scene.dsn) as connection:
            while rows := connection.execute(CLAIM, [0, AT_ONCE]).fetchall():
                connection.commit()
                for some in (rows[start : start + batch] for start in range(0, len(rows), batch)):
                    for number, *_, body in some:
                        countdown.one()
                        connection.execute(INSERT, [number, Jsonb(body)])
                    connection.execute(DELETE, [[row[0] for row in some]])
                    connection.commit()

    crew = [threading.Thread(target=work) for _ in range(CONCURRENCY)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return countdown.rate()
