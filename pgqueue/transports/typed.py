"""For type checkers: what transactions begin on, by what the application is given of them. Nothing is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool
    import sqlalchemy
    from sqlalchemy.ext import asyncio
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    PsycopgConnection: TypeAlias = psycopg.Connection[Any]
    SQLAlchemyConnection: TypeAlias = sqlalchemy.Connection
    SQLAlchemySession: TypeAlias = Session
    GivesPsycopgConnection: TypeAlias = psycopg.Connection[Any] | psycopg_pool.ConnectionPool[Any]
    GivesConnection: TypeAlias = sqlalchemy.Engine | sqlalchemy.Connection
    GivesSession: TypeAlias = Session | sessionmaker[Any] | scoped_session[Any]
    Transaction: TypeAlias = psycopg.Connection[Any] | sqlalchemy.Connection | Session | scoped_session[Any]
    TransactionSource: TypeAlias = GivesPsycopgConnection | GivesConnection | GivesSession
    ClientSource: TypeAlias = str | psycopg_pool.ConnectionPool[Any] | sqlalchemy.Engine

    AsyncPsycopgConnection: TypeAlias = psycopg.AsyncConnection[Any]
    AsyncSQLAlchemyConnection: TypeAlias = asyncio.AsyncConnection
    AsyncSQLAlchemySession: TypeAlias = asyncio.AsyncSession
    GivesAsyncPsycopgConnection: TypeAlias = psycopg.AsyncConnection[Any] | psycopg_pool.AsyncConnectionPool[Any]
    GivesAsyncConnection: TypeAlias = asyncio.AsyncEngine | asyncio.AsyncConnection
    GivesAsyncSession: TypeAlias = (
        asyncio.AsyncSession | asyncio.async_sessionmaker[Any] | asyncio.async_scoped_session[Any]
    )
    AsyncTransaction: TypeAlias = (
        psycopg.AsyncConnection[Any]
        | asyncio.AsyncConnection
        | asyncio.AsyncSession
        | asyncio.async_scoped_session[Any]
    )
    AsyncTransactionSource: TypeAlias = GivesAsyncPsycopgConnection | GivesAsyncConnection | GivesAsyncSession
    AsyncClientSource: TypeAlias = str | psycopg_pool.AsyncConnectionPool[Any] | asyncio.AsyncEngine
