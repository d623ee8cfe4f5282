"""PGMQ, whose functions are in the database already: called by psycopg, with prepared statements."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from benchmarks.peers.orders import About, Body, Order, Settings, Work

THREADS = 4
AT_ONCE, AT_ONCE_SINGLY = 500, 100
#: How often ``read_with_poll`` looks; PGMQ's own default is 100.
POLL_MILLISECONDS = 10

SEND = "select pgmq.send('bench', %s::jsonb)"
SEND_BATCH = "select pgmq.send_batch('bench', %s::jsonb[])"
READ = f"select msg_id, message from pgmq.read_with_poll('bench', 30, %s, 2, {POLL_MILLISECONDS})"
DELETE = "select pgmq.delete('bench', %s::bigint)"
DELETE_BATCH = "select pgmq.delete('bench', %s::bigint[])"
EFFECT = "insert into effect (number, note) values (%s, 'x')"


def about(_: Settings) -> About:
    return About(
        version="of the file that was given",
        settings=f"send_batch; read_with_poll({AT_ONCE}), looking each {POLL_MILLISECONDS} ms, and delete of {AT_ONCE}"
        f" on one connection; W5: {THREADS} threads, INSERT and delete in a transaction a message",
        remaining="select count(*) from pgmq.q_bench",
        is_atomic=True,
    )


async def prepare(dsn: str, _: Settings) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("select pgmq.create('bench')")


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        yield Producer(connection)


class Producer:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def send(self, body: Body) -> None:
        self._connection.execute(SEND, [json.dumps(body)], prepare=True)

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        self._connection.execute(SEND_BATCH, [[json.dumps(body) for body in bodies]], prepare=True)


async def consume(order: Order, work: Work) -> None:
    for _ in range(THREADS if order.inserts else 1):
        threading.Thread(target=_drain, args=(order, work), daemon=True).start()
    await work.over.wait()


def _drain(order: Order, work: Work) -> None:
    step = AT_ONCE_SINGLY if order.inserts else AT_ONCE
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        while not work.is_over.is_set():
            rows = connection.execute(READ, [step], prepare=True).fetchall()
            for number, body in rows:
                work.begin(body["number"])
                if order.inserts:
                    with connection.transaction():
                        connection.execute(EFFECT, [body["number"]], prepare=True)
                        connection.execute(DELETE, [number], prepare=True)
            if rows and not order.inserts:
                connection.execute(DELETE_BATCH, [[number for number, _ in rows]], prepare=True)
