"""The floor: plain SQL on a table of that shape, by a client that knows the numbers of its rows and has no rivals.

A message is one insert, an update that locks it and a delete. Bulk is COPY. Where messages come while they are consumed
(order.waits), the sender notifies, and the consumer listens and deletes what it finds.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from benchmarks.peers.orders import About, Body, Order, Settings, Work

THREADS = 4
#: How many are locked in one statement: by one that completes in bulk, and by one that has a transaction a message.
AT_ONCE, AT_ONCE_SINGLY = 500, 100

TABLE = """
create table floor (id bigint generated always as identity primary key,
                    locked_until timestamptz, delivery_count integer default 0, body jsonb)"""
INSERT = "insert into floor (body) values (%s) returning id"
TELL = f"with sent as ({INSERT}) select id, pg_notify('floor', '') from sent"
COPY = "copy floor (body) from stdin"
LOCK = """
update floor set locked_until = now() + interval '30 seconds', delivery_count = delivery_count + 1
 where id > %s and id <= %s returning id, body"""
DELETE = "delete from floor where id = %s"
DELETE_MANY = "delete from floor where id = any(%s)"
TAKE = "delete from floor returning body"
EFFECT = "insert into effect (number, note) values (%s, 'x')"


def about(_: Settings) -> About:
    return About(
        version=psycopg.__version__,
        settings=f"COPY; UPDATE and DELETE of {AT_ONCE} known rows on one connection;"
        f" W5: {THREADS} threads, BEGIN, INSERT, DELETE, COMMIT a message; W4: LISTEN, NOTIFY by each send",
        remaining="select count(*) from floor",
        is_atomic=True,
    )


async def prepare(dsn: str, _: Settings) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLE)


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        yield Producer(connection, TELL if order.waits else INSERT)


class Producer:
    def __init__(self, connection: psycopg.Connection[Any], insert: str) -> None:
        self._connection = connection
        self._insert = insert.encode()

    async def send(self, body: Body) -> None:
        self._connection.execute(self._insert, [json.dumps(body)], prepare=True)

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(COPY) as copy:
            for body in bodies:
                copy.write_row([json.dumps(body)])
        if self._insert == TELL.encode():
            self._connection.execute("select pg_notify('floor', '')")


async def consume(order: Order, work: Work) -> None:
    if order.waits:
        await asyncio.to_thread(_listen, order, work)
        return
    with psycopg.connect(order.dsn) as connection:
        ((last,),) = connection.execute("select coalesce(max(id), 0) from floor").fetchall()
    count = THREADS if order.inserts else 1
    shares = [(last * nth // count, last * (nth + 1) // count) for nth in range(count)]
    threads = [threading.Thread(target=_drain, args=(order, work, *share)) for share in shares]
    for thread in threads:
        thread.start()
    await work.over.wait()


def _drain(order: Order, work: Work, reached: int, last: int) -> None:
    """Works off the rows with numbers above ``reached``, up to ``last``."""
    step = AT_ONCE_SINGLY if order.inserts else AT_ONCE
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        while reached < last and not work.is_over.is_set():
            rows = connection.execute(LOCK, [reached, min(reached + step, last)], prepare=True).fetchall()
            reached += step
            for number, body in rows:
                work.begin(body["number"])
                if order.inserts:
                    with connection.transaction():
                        connection.execute(EFFECT, [body["number"]], prepare=True)
                        connection.execute(DELETE, [number], prepare=True)
            if not order.inserts:
                connection.execute(DELETE_MANY, [[number for number, _ in rows]], prepare=True)


def _listen(order: Order, work: Work) -> None:
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        connection.execute("listen floor")
        while not work.is_over.is_set():
            for (body,) in connection.execute(TAKE, prepare=True).fetchall():
                work.begin(body["number"])
            for _ in connection.notifies(timeout=1, stop_after=1):
                pass
