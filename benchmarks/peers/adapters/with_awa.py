"""Awa, whose engine is written in Rust: COPY into its queue storage; many handlers at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import asyncpg
from awa import AsyncClient

from benchmarks.peers.orders import About, Body, Order, Settings, Work

HANDLERS, INSERTING_HANDLERS = 1024, 256
CONNECTIONS = 10
EFFECT = "insert into effect (number, note) values ($1, 'x')"

# The view of its messages, awa.jobs, takes minutes when many wait.
REMAINING = """
select (select count(*) from awa.ready_entries)
     - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)
     - (select count(*) from awa.done_entries)"""


@dataclass
class Bench:
    number: int
    note: str


def about(_: Settings) -> About:
    return About(
        version=version("awa-pg"),
        settings=f"enqueue_many_copy; {HANDLERS} handlers, queue storage;"
        f" W5: {INSERTING_HANDLERS} handlers, which commit on a pool of {CONNECTIONS}",
        remaining=REMAINING,
    )


async def prepare(dsn: str, _: Settings) -> None:
    """The first worker that starts turns queue storage on."""
    client = AsyncClient(dsn)
    await client.migrate()

    @client.task(Bench, queue="first")
    async def handler(_: Any) -> None: ...

    await client.start([("first", 1)])
    await asyncio.sleep(1)
    await client.shutdown()


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    async with AsyncClient(order.dsn) as client:
        yield Producer(client)


class Producer:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def send(self, body: Body) -> None:
        await self._client.insert(Bench(**body), queue="bench")

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        await self._client.enqueue_many_copy([Bench(**body) for body in bodies], queue="bench")


async def consume(order: Order, work: Work) -> None:
    client = AsyncClient(order.dsn)
    pool = await asyncpg.create_pool(order.dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) if order.inserts else None

    @client.task(Bench, queue="bench")
    async def handler(job: Any) -> None:
        work.begin(job.args.number)
        if pool is not None:
            await pool.execute(EFFECT, job.args.number)

    await client.start([("bench", INSERTING_HANDLERS if order.inserts else HANDLERS)])
    await work.over.wait()
    await client.shutdown()
