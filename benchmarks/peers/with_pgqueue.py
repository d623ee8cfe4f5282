"""pgqueue: a batch is one statement; a worker with eight threads, completions in batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pgqueue
import pgqueue.aio
from benchmarks.peers.counter import Counter, repeated


async def prepare(dsn: str) -> None:
    async with pgqueue.aio.QueueClient(dsn) as client:
        await client.migrate()
        await client.create_queue("bench")


async def send(dsn: str, bodies: list[Any], times: int) -> float:
    async with pgqueue.aio.QueueClient(dsn) as client:
        queue = client.queue("bench")
        await client.get_queue("bench")  # the connection
        return await repeated(times, lambda: queue.send_batch([pgqueue.Message(body) for body in bodies]))


async def drain(dsn: str, counter: Counter) -> None:
    def handler(_: pgqueue.ReceivedMessage) -> None:
        counter.one()

    with pgqueue.QueueClient(dsn) as client:
        worker = pgqueue.Worker(client.queue("bench"), handler)
        counter.over = worker.stop
        await asyncio.to_thread(worker.run)
