"""Procrastinate on its psycopg connector: batch_defer; a worker that ends when it has caught up, and deletes jobs."""

from __future__ import annotations

import logging
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.peers.counter import Counter, repeated

CONCURRENCY = 100


def application(dsn: str) -> App:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    return App(connector=PsycopgConnector(conninfo=dsn))


async def prepare(dsn: str) -> None:
    app = application(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def send(dsn: str, bodies: list[Any], times: int) -> float:
    app = application(dsn)
    task = app.configure_task("bench", queue="bench")
    async with app.open_async():
        await app.check_connection_async()
        return await repeated(times, lambda: task.batch_defer_async(*({"body": body} for body in bodies)))


async def drain(dsn: str, counter: Counter) -> None:
    app = application(dsn)

    @app.task(name="bench", queue="bench")
    async def handler(body: Any) -> None:  # noqa: ARG001 - arguments go by their names
        counter.one()

    async with app.open_async():
        await app.run_worker_async(
            wait=False, concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False
        )
