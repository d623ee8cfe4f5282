"""PgQueuer on asyncpg, its fastest driver: lists are enqueued; a worker claims 500 at a time until all is done."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.peers.counter import Counter, repeated

BATCH = 500


async def _connect(dsn: str) -> asyncpg.Connection:
    """asyncpg takes a host that is named over the directory of a socket."""
    return await asyncpg.connect(dsn.replace("@localhost/", "@/"))


async def prepare(dsn: str) -> None:
    await Queries(AsyncpgDriver(await _connect(dsn))).install()


async def send(dsn: str, bodies: list[Any], times: int) -> float:
    queries = Queries(AsyncpgDriver(await _connect(dsn)))

    async def batch() -> None:
        payloads = [json.dumps(body).encode() for body in bodies]
        await queries.enqueue(["bench"] * len(bodies), payloads, [0] * len(bodies))

    return await repeated(times, batch)


async def drain(dsn: str, counter: Counter) -> None:
    application = PgQueuer(AsyncpgDriver(await _connect(dsn)))

    @application.entrypoint("bench")
    async def handler(job: Job) -> None:
        json.loads(job.payload or b"null")
        counter.one()

    await application.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
