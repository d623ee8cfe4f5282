"""PgQueuer on asyncpg, its fastest driver, with uvloop, and with the autovacuum settings that it brings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.orders import About, Body, Order, Settings, Work

AT_ONCE = 1_000
CONNECTIONS = 10
EFFECT = "insert into effect (number, note) values ($1, 'x')"

run = uvloop.run


def about(_: Settings) -> About:
    return About(
        version=version("pgqueuer"),
        settings=f"enqueue of lists; batch_size {AT_ONCE}, `pgqueuer autovac`, asyncpg, uvloop;"
        f" W5: the handler commits on a pool of {CONNECTIONS}",
        remaining="select count(*) from pgqueuer where status in ('queued', 'picked')",
    )


async def prepare(dsn: str, _: Settings) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(dsn)))
    await queries.install()
    await queries.optimize_autovacuum()


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    connection = await asyncpg.connect(order.dsn)
    yield Producer(Queries(AsyncpgDriver(connection)))
    await connection.close()


class Producer:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def send(self, body: Body) -> None:
        await self._queries.enqueue("bench", json.dumps(body).encode())

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        payloads: list[bytes | None] = [json.dumps(body).encode() for body in bodies]
        await self._queries.enqueue(["bench"] * len(bodies), payloads, [0] * len(bodies))


async def consume(order: Order, work: Work) -> None:
    pool = await asyncpg.create_pool(order.dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) if order.inserts else None
    application = PgQueuer(AsyncpgDriver(await asyncpg.connect(order.dsn)))

    @application.entrypoint("bench")
    async def handler(job: Job) -> None:
        number = json.loads(job.payload or b"")["number"]
        work.begin(number)
        if pool is not None:
            await pool.execute(EFFECT, number)

    running = asyncio.create_task(application.run(batch_size=AT_ONCE))
    await work.over.wait()
    application.shutdown.set()
    await running
