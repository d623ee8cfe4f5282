"""Sources of an application's transactions, to begin or to share; none of them pools connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg2
import sqlalchemy.exc
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

#: Valid values of ``transaction``.
TRANSACTIONS = [
    "psycopg connection",
    "sqlalchemy connection",
    "sqlalchemy session",
    "other connection",
    "other sqlalchemy connection",
    "other sqlalchemy session",
]
#: Sources in which a transaction can be begun.
SOURCES = [
    *TRANSACTIONS,
    "sqlalchemy engine",
    "sqlalchemy session maker",
    "other sqlalchemy engine",
    "other sqlalchemy session maker",
]
#: The errors of a connection that breaks.
BROKEN = (
    psycopg.OperationalError,
    psycopg2.OperationalError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    sqlalchemy.exc.DBAPIError,
)


@contextmanager
def source(kind: str, dsn: str) -> Iterator[Any]:
    connect: Any = psycopg2.connect if kind.startswith("other") else psycopg.connect
    url = f"postgresql+{'psycopg2' if kind.startswith('other') else 'psycopg'}://"
    engine = create_engine(url, creator=lambda: connect(dsn), poolclass=NullPool)
    match kind.removeprefix("other "):
        case "connection":
            alone = connect(dsn)
            yield alone
            alone.close()
        case "psycopg connection":
            with psycopg.connect(dsn) as connection:
                yield connection
        case "sqlalchemy connection":
            with engine.connect() as connected:
                yield connected
        case "sqlalchemy session":
            with Session(engine) as session:
                yield session
        case "sqlalchemy session maker":
            yield sessionmaker(engine)
        case _:
            yield engine


def of_asyncpg(dsn: str) -> dict[str, Any]:
    """A DSN as arguments of asyncpg."""
    parts = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    return {"ssl": False} | {name: parts[part] for part, name in names.items() if part in parts}


@asynccontextmanager
async def async_source(kind: str, dsn: str) -> AsyncIterator[Any]:
    async def connect() -> Any:
        if kind.startswith("other"):
            return await asyncpg.connect(**of_asyncpg(dsn))
        return await psycopg.AsyncConnection.connect(dsn)

    url = f"postgresql+{'asyncpg' if kind.startswith('other') else 'psycopg'}://"
    engine = create_async_engine(url, async_creator=connect, poolclass=NullPool)
    match kind.removeprefix("other "):
        case "connection":
            alone = await connect()
            yield alone
            alone.terminate()
        case "psycopg connection":
            async with await connect() as connection:
                yield connection
        case "sqlalchemy connection":
            async with engine.connect() as connected:
                yield connected
        case "sqlalchemy session":
            async with AsyncSession(engine) as session:
                yield session
        case "sqlalchemy session maker":
            yield async_sessionmaker(engine)
        case _:
            yield engine


async def begun(transaction: Any) -> Any:
    """The object with the method `commit()`: with asyncpg, one of its own, which is begun here."""
    if not isinstance(transaction, asyncpg.Connection):
        return transaction
    of_its_own = transaction.transaction()
    await of_its_own.start()
    return of_its_own
