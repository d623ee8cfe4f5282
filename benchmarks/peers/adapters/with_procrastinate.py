"""Procrastinate on its psycopg connector: batch_defer, and a worker that deletes what is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from procrastinate import App, PsycopgConnector
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.orders import About, Body, Order, Settings, Work

CONCURRENCY = 30
CONNECTIONS = 10
EFFECT = "insert into effect (number, note) values (%s, 'x')"


def about(_: Settings) -> About:
    return About(
        version=version("procrastinate"),
        settings=f"batch_defer; concurrency {CONCURRENCY}, delete_jobs always, a pool of 20;"
        f" W5: the handler commits on a pool of {CONNECTIONS}",
        remaining="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
    )


def application(dsn: str) -> App:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=2, max_size=20))


async def prepare(dsn: str, _: Settings) -> None:
    app = application(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@asynccontextmanager
async def producing(order: Order) -> AsyncIterator[Producer]:
    app = application(order.dsn)
    async with app.open_async():
        await app.check_connection_async()
        yield Producer(app.configure_task("bench", queue="bench"))


class Producer:
    def __init__(self, task: Any) -> None:
        self._task = task

    async def send(self, body: Body) -> None:
        await self._task.defer_async(**body)

    async def send_batch(self, bodies: Sequence[Body]) -> None:
        await self._task.batch_defer_async(*bodies)


async def consume(order: Order, work: Work) -> None:
    app = application(order.dsn)
    pool = AsyncConnectionPool(
        order.dsn, min_size=CONNECTIONS, max_size=CONNECTIONS, open=False, kwargs={"autocommit": True}
    )
    if order.inserts:
        await pool.open()

    @app.task(name="bench", queue="bench")
    async def handler(number: int, note: str) -> None:  # noqa: ARG001 - arguments go by their names
        work.begin(number)
        if order.inserts:
            async with pool.connection() as connection:
                await connection.execute(EFFECT, [number], prepare=True)

    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(
                queues=["bench"], concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False
            )
        )
        over = asyncio.create_task(work.over.wait())
        await asyncio.wait([working, over], return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
