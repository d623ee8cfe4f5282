"""Transactions of asyncpg and psycopg2 through a PgBouncer that gives each transaction another session."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg2
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import pgqueue.aio
from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.pgbouncer.conftest import Through

EACH = 20
MINUTE = timedelta(minutes=1)


def arguments(dsn: str) -> dict[str, Any]:
    """A DSN as arguments of asyncpg."""
    parts = conninfo_to_dict(dsn)
    return {"host": parts["host"], "port": parts["port"], "user": parts["user"], "database": parts["dbname"]}


def unnamed() -> str:
    return f"__asyncpg_{uuid.uuid4()}__"


@pytest.mark.parametrize(
    ("statements", "options"), [(200, {}), (0, {"statement_cache_size": 0})], ids=["prepared", "unprepared"]
)
@pytest.mark.parametrize("over", ["asyncpg", "sqlalchemy"])
async def test_asyncpg(
    database: Database, through: Through, statements: int, options: dict[str, Any], over: str
) -> None:
    dsn = through(database.name, default_pool_size=2, max_prepared_statements=statements)
    with QueueClient(database.dsn) as administrator:
        administrator.create_queue("q")
    beside = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": unnamed} if options else {}
    engine = create_async_engine("postgresql+asyncpg://", connect_args=arguments(dsn) | options | beside)
    async with pgqueue.aio.QueueClient(database.dsn) as client:
        queue = client.queue("q")

        async def work(pool: Any) -> None:
            for number in range(EACH):
                if over == "asyncpg":
                    async with pool.acquire() as connection, connection.transaction():
                        await queue.send(Message(number), transaction=connection)
                else:
                    async with AsyncSession(engine) as session, session.begin():
                        await queue.send(Message(number), transaction=session)
                [received] = await queue.receive(wait=MINUTE)
                async with received.transaction(pool if over == "asyncpg" else engine):
                    pass

        async with asyncpg.create_pool(**arguments(dsn), **options, min_size=0, max_size=4) as pool:
            await asyncio.gather(*(work(pool) for _ in range(3)))
        assert await queue.peek() == []
    await engine.dispose()


def test_psycopg2(database: Database, through: Through) -> None:
    dsn = through(database.name, default_pool_size=2)

    def work(client: QueueClient) -> None:
        connection = psycopg2.connect(dsn)
        for number in range(EACH):
            client.queue("q").send(Message(number), transaction=connection)
            connection.commit()
            [received] = client.queue("q").receive(wait=MINUTE)
            with received.transaction(connection):
                pass
        connection.close()

    with QueueClient(database.dsn) as client, ThreadPoolExecutor(3) as threads:
        client.create_queue("q")
        list(threads.map(work, [client] * 3))
        assert client.queue("q").peek() == []
