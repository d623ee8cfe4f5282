"""Python on the pages that begins in the middle: what it needs is made here, then it runs as it stands."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import psycopg_pool
import pytest
import sqlalchemy

import pgqueue.aio
from pgqueue import Message, QueueClient
from pgqueue.errors import PGQueueError
from pgqueue.testing import Database
from tests.docs.snippets import Snippet, snippets

FRAGMENTS = {str(each): each for each in snippets() if each.language == "python"}


async def run(snippet: Snippet, **names: Any) -> dict[str, Any]:
    """Run a block, which may await, with these names; return those that it leaves behind."""
    code = compile(snippet.text, str(snippet), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    ended = eval(code, names)
    if inspect.isawaitable(ended):
        await ended
    return names


async def test_the_outcomes_of_a_burst_are_looked_at(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", max_message_size=100)
        orders = client.queue("orders")
        burst = [1, "x" * 200, 2]
        names = {"orders": orders, "burst": burst, "Message": Message, "PGQueueError": PGQueueError}
        await run(FRAGMENTS["docs/sending.md 1 python"], **names)
        assert [each.body for each in orders.peek(max_messages=9)] == [1, 2]
    assert "x" * 200 in capsys.readouterr().out


async def test_a_burst_is_sent_by_coroutines(database: Database) -> None:
    async with pgqueue.aio.QueueClient(database.dsn) as client:
        await client.create_queue("orders")
        orders = client.queue("orders")
        names = await run(
            FRAGMENTS["docs/sending.md 2 python"], orders=orders, burst=range(15), Message=pgqueue.aio.Message
        )
        assert names["numbers"] == [each.sequence_number for each in await orders.peek(max_messages=99)]


async def test_a_grant_is_listed(database: Database) -> None:
    role = f"{database.name}_shop"
    fragment = FRAGMENTS["docs/security.md 1 python"]
    fragment = Snippet(fragment.page, 1, "python", None, fragment.text.replace('"shop"', f'"{role}"'))
    with database.connect(autocommit=True) as connection, QueueClient(database.dsn) as client:
        client.create_queue("orders")
        connection.execute(f"create role {role}".encode())
        try:
            await run(fragment, client=client)
            said = fragment.text.partition("# ")[2].strip()
            assert said.replace('"', "'") == repr(client.list_grants())
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


async def test_statements_are_not_prepared(database: Database) -> None:
    given = {"psycopg_pool": psycopg_pool, "sqlalchemy": sqlalchemy, "dsn": database.dsn, "url": database.url}
    names = await run(FRAGMENTS["docs/pgbouncer.md 2 python"], **given)
    with names["pool"] as pool, pool.connection() as connection:
        assert connection.prepare_threshold is None
    with names["engine"].connect() as borrowed:
        assert borrowed.connection.driver_connection.prepare_threshold is None
    names["engine"].dispose()
