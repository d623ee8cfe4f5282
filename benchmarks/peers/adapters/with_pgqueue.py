"""pgqueue. ``way`` is ``worker`` (a Worker with threads), ``aio`` (one of pgqueue.aio, with tasks), ``loop`` (receive
and complete_batch by hand) or ``sql`` (the same two SQL functions called by psycopg alone, to separate the cost of the
library's own Python from the rest).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg

import pgqueue
import pgqueue.aio
from benchmarks.peers.orders import About, Body, Order, Settings, Work

THREADS = 8
AT_ONCE = 500
LOCKED_FOR = timedelta(seconds=30)
EFFECT = "insert into effect (number, note) values (%s, 'x')"
COMPLETE = "select * from pgqueue.complete_batch('bench', %s::bigint[], %s::uuid[])"

WAYS = {
    "worker": "Worker, {threads} threads, W5: transaction_batch={batch}",
    "aio": "aio.Worker, {threads} tasks",
    "loop": f"receive({AT_ONCE}) and complete_batch by hand, one thread; W5: received.transaction()",
    "sql": f"pgqueue.receive({AT_ONCE}) and pgqueue.complete_batch called by psycopg alone, one connection",
}


def about(settings: Settings) -> About:
    way = WAYS[settings.get("way", "worker")]
    return About(
        version=pgqueue.__version__,
        settings="send_batch; "
        + way.format(threads=settings.get("threads", THREADS), batch=settings.get("transaction_batch", 1)),
        remaining="select count(*) from pgqueue.message",
        is_atomic=True,
    )


async def prepare(dsn: str, _: Settings) -> None:
    with pgqueue.QueueClient(dsn) as client:
        client.migrate()
        client.create_queue("bench", lock_duration=LOCKED_FOR)


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    with pgqueue.QueueClient(order.dsn) as client:
        client.get_queue("bench")  # the connection
        yield Producer(client.queue("bench"))


class Producer:
    def __init__(self, queue: pgqueue.Queue) -> None:
        self._queue = queue

    async def send(self, body: Body) -> None:
        self._queue.send(pgqueue.Message(body))

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        self._queue.send_batch([pgqueue.Message(body) for body in bodies])


async def consume(order: Order, work: Work) -> None:
    way = order.settings.get("way", "worker")
    if way == "aio":
        await _work_in_tasks(order, work)
    else:
        await asyncio.to_thread({"worker": _work, "loop": _loop, "sql": _call}[way], order, work)


def _work(order: Order, work: Work) -> None:
    def handler(message: pgqueue.ReceivedMessage) -> None:
        work.begin(message.body["number"])

    def inserting(message: pgqueue.ReceivedMessage, tx: psycopg.Connection[Any]) -> None:
        work.begin(message.body["number"])
        tx.execute(EFFECT, [message.body["number"]])

    threads = order.settings.get("threads", THREADS)
    with pgqueue.QueueClient(order.dsn) as client:
        queue = client.queue("bench")
        if order.inserts:
            batch = order.settings.get("transaction_batch", 1)
            worker = pgqueue.Worker(
                queue, inserting, concurrency=threads, transaction="psycopg", transaction_batch=batch
            )
        else:
            worker = pgqueue.Worker(queue, handler, concurrency=threads)
        work.ends(worker.stop)
        worker.run()


async def _work_in_tasks(order: Order, work: Work) -> None:
    async def handler(message: pgqueue.aio.ReceivedMessage) -> None:
        work.begin(message.body["number"])

    async def inserting(message: pgqueue.aio.ReceivedMessage, tx: psycopg.AsyncConnection[Any]) -> None:
        work.begin(message.body["number"])
        await tx.execute(EFFECT, [message.body["number"]])

    threads = order.settings.get("threads", THREADS)
    async with pgqueue.aio.QueueClient(order.dsn) as client:
        queue = client.queue("bench")
        if order.inserts:
            worker = pgqueue.aio.Worker(queue, inserting, concurrency=threads, transaction="psycopg")
        else:
            worker = pgqueue.aio.Worker(queue, handler, concurrency=threads)
        work.ends(worker.stop)
        await worker.run()


def _loop(order: Order, work: Work) -> None:
    with pgqueue.QueueClient(order.dsn) as client:
        queue = client.queue("bench")
        while not work.is_over.is_set():
            messages = queue.receive(max_messages=AT_ONCE, wait=timedelta(seconds=1))
            for message in messages:
                work.begin(message.body["number"])
                if order.inserts:
                    with message.transaction() as tx:
                        tx.execute(EFFECT, [message.body["number"]])
            if messages and not order.inserts:
                queue.complete_batch(messages)


def _call(order: Order, work: Work) -> None:
    from pgqueue.model.row import COLUMNS
    from pgqueue.statements.receiving import RECEIVED_COLUMNS

    receive, body = f"select {RECEIVED_COLUMNS} from pgqueue.receive('bench', {AT_ONCE})", COLUMNS.index("body")
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        while not work.is_over.wait(0):
            rows = connection.execute(receive.encode(), prepare=True).fetchall()
            for row in rows:
                work.begin(row[body]["number"])
            if rows:
                connection.execute(COMPLETE, [[row[0] for row in rows], [row[1] for row in rows]], prepare=True)
            else:
                work.is_over.wait(0.1)
