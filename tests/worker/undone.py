"""Handlers that settle their message in a transaction of their own, and do not commit it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from pgqueue.errors import TransactionRequiredError
from tests.worker.scene import Scene, effect

Way = Callable[[Scene, Any], Awaitable[None]]


async def done(result: Any) -> Any:
    """The result of a verb of either face."""
    return await result if inspect.isawaitable(result) else result


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """A block of either face."""
    if hasattr(manager, "__aenter__"):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value


@asynccontextmanager
async def connection(scene: Scene) -> AsyncIterator[Any]:
    kind: Any = psycopg.Connection if scene.face == "threads" else psycopg.AsyncConnection
    opened = await done(kind.connect(scene.database.dsn, autocommit=True))
    try:
        yield opened
    finally:
        await done(opened.close())


def session(scene: Scene) -> Any:
    if scene.face == "threads":
        return Session(sqlalchemy.create_engine(scene.database.url, poolclass=NullPool))
    return AsyncSession(create_async_engine(scene.database.url, poolclass=NullPool))


async def settle(message: Any, tx: Any, verb: str = "complete", *arguments: str) -> None:
    await effect(tx, message.body)
    await done(getattr(message, verb)(*arguments, transaction=tx))


async def swallowed_error(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx, entered(tx.transaction()):
        await settle(message, tx)
        with suppress(psycopg.Error):
            await done(tx.execute("select 1 / 0"))


async def swallowed_error_before(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx, entered(tx.transaction()):
        with suppress(psycopg.Error):
            await done(tx.execute("select 1 / 0"))
        with suppress(TransactionRequiredError):
            await done(message.complete(transaction=tx))


async def raised_rollback(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx, entered(tx.transaction()):
        await settle(message, tx)
        raise psycopg.Rollback


async def undone_savepoint(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx, entered(tx.transaction()):
        await done(tx.execute("select 1"))
        async with entered(tx.transaction()):
            await settle(message, tx)
            raise psycopg.Rollback


async def undone_dead_letter(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx, entered(tx.transaction()):
        await settle(message, tx, "dead_letter", "Mine")
        raise psycopg.Rollback


async def text_that_rolls_back(scene: Scene, message: Any) -> None:
    async with connection(scene) as tx:
        await done(tx.execute("begin"))
        await settle(message, tx)
        await done(tx.execute("rollback"))


async def session_rolled_back(scene: Scene, message: Any) -> None:
    async with entered(session(scene)) as tx:
        await settle(message, tx)
        await done(tx.rollback())


async def session_without_commit(scene: Scene, message: Any) -> None:
    async with entered(session(scene)) as tx:
        await settle(message, tx)


async def swallowed_error_of_a_session(scene: Scene, message: Any) -> None:
    async with entered(session(scene)) as tx:
        await settle(message, tx)
        with suppress(sqlalchemy.exc.DBAPIError):
            await done(tx.execute(sqlalchemy.text("select 1 / 0")))
        await done(tx.commit())


async def savepoint_of_our_block(scene: Scene, message: Any) -> None:
    async with entered(message.transaction()) as tx:
        await done(tx.execute("savepoint here"))
        await settle(message, tx)
        await done(tx.execute("rollback to savepoint here"))


WAYS: list[Way] = [
    swallowed_error,
    swallowed_error_before,
    raised_rollback,
    undone_savepoint,
    undone_dead_letter,
    text_that_rolls_back,
    session_rolled_back,
    session_without_commit,
    swallowed_error_of_a_session,
    savepoint_of_our_block,
]
