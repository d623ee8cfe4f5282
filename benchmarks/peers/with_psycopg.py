"""The floor: plain psycopg on a table of that shape; executemany, then claims and deletes of 500."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from benchmarks.peers.counter import Counter, repeated

TABLE = """
create table floor (id bigint generated always as identity primary key, body jsonb,
                    locked_until timestamptz, lock_token uuid)"""
INSERT = "insert into floor (body) values (%s::text::jsonb)"
CLAIM = """
update floor set locked_until = now() + interval '1 minute', lock_token = gen_random_uuid()
 where id in (select id from floor where id > %s and (locked_until is null or locked_until <= now())
               order by id limit 500 for update skip locked)
returning id, body"""
DELETE = "delete from floor where id = any(%s)"


async def prepare(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(TABLE)


async def send(dsn: str, bodies: list[Any], times: int) -> float:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:

        async def batch() -> None:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(INSERT, [(json.dumps(body),) for body in bodies])

        return await repeated(times, batch)


async def drain(dsn: str, counter: Counter) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        reached = 0
        while rows := await (await connection.execute(CLAIM, [reached])).fetchall():
            for _ in rows:
                counter.one()
            await connection.execute(DELETE, [[number for number, _ in rows]])
            reached = max(number for number, _ in rows)
