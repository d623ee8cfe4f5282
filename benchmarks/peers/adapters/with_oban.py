"""Oban for Python, with what its own command line sets up: uvloop, orjson, and no log of each job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import orjson
import uvloop
from oban import Oban, worker
from oban.schema import install
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.orders import About, Body, Order, Settings, Work

LIMIT = 100
CONNECTIONS = 10
EFFECT = "insert into effect (number, note) values (%s, 'x')"

run = uvloop.run
set_json_dumps(orjson.dumps)
set_json_loads(orjson.loads)


@worker(queue="bench")
class Bench:
    handler: Callable[[int], Coroutine[Any, Any, None]]

    async def process(self, job: Any) -> None:
        await Bench.handler(job.args["number"])


def about(_: Settings) -> About:
    return About(
        version=version("oban"),
        settings=f"enqueue_many; limit {LIMIT}, a pool of 10, what is done stays for a day, uvloop, orjson;"
        f" W5: the handler commits on a pool of {CONNECTIONS}",
        remaining="select count(*) from oban_jobs where state in ('available', 'scheduled', 'executing', 'retryable')",
    )


async def prepare(dsn: str, _: Settings) -> None:
    async with await Oban.create_pool(dsn) as pool:
        await install(pool)


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    async with await Oban.create_pool(order.dsn) as pool, Oban(pool=pool) as oban:
        yield Producer(oban)


class Producer:
    def __init__(self, oban: Any) -> None:
        self._oban = oban

    async def send(self, body: Body) -> None:
        await self._oban.enqueue(Bench.new(body))

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        await self._oban.enqueue_many(Bench.new(body) for body in bodies)


async def consume(order: Order, work: Work) -> None:
    own = AsyncConnectionPool(
        order.dsn, min_size=CONNECTIONS, max_size=CONNECTIONS, open=False, kwargs={"autocommit": True}
    )
    if order.inserts:
        await own.open()

    async def handler(number: int) -> None:
        work.begin(number)
        if order.inserts:
            async with own.connection() as connection:
                await connection.execute(EFFECT, [number], prepare=True)

    Bench.handler = staticmethod(handler)
    async with await Oban.create_pool(order.dsn) as pool, Oban(pool=pool, queues={"bench": LIMIT}):
        await work.over.wait()
