"""Sources of an application's transactions, to begin or to share; none of them pools connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

#: Valid values of ``transaction``.
TRANSACTIONS = ["psycopg connection", "sqlalchemy connection", "sqlalchemy session"]
#: Sources in which a transaction can be begun.
SOURCES = [*TRANSACTIONS, "sqlalchemy engine", "sqlalchemy session maker"]


@contextmanager
def source(kind: str, dsn: str) -> Iterator[Any]:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)
    match kind:
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


@asynccontextmanager
async def async_source(kind: str, dsn: str) -> AsyncIterator[Any]:
    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(dsn)

    engine = create_async_engine("postgresql+psycopg://", async_creator=connect, poolclass=NullPool)
    match kind:
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
