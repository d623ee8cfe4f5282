"""Awa, whose engine is written in Rust: COPY into its queue storage; many handlers at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from awa import AsyncClient

from benchmarks.peers.counter import Counter, repeated

HANDLERS = 200


@dataclass
class Bench:
    body: dict[str, Any]


async def prepare(dsn: str) -> None:
    async with AsyncClient(dsn) as client:
        await client.migrate()
        await client.install_queue_storage()


async def send(dsn: str, bodies: list[Any], times: int) -> float:
    async with AsyncClient(dsn) as client:
        return await repeated(times, lambda: client.enqueue_many_copy([Bench(body) for body in bodies], queue="bench"))


async def drain(dsn: str, counter: Counter) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    counter.over = lambda: loop.call_soon_threadsafe(over.set)
    async with AsyncClient(dsn) as client:

        @client.task(Bench, queue="bench")
        async def handler(_: Any) -> None:
            counter.one()

        await client.start([("bench", HANDLERS)])
        await over.wait()
        await client.shutdown()
