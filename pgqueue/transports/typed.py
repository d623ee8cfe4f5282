"""For type checkers: what transactions begin on, by what the application is given of them. Nothing is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool
    import sqlalchemy
    from sqlalchemy.ext import asyncio
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    class OtherConnection(Protocol):
        """A connection of psycopg2, by methods that only it has; so its types are not needed."""

        def get_parameter_status(self, name: str, /) -> str | None: ...

        def tpc_begin(self, xid: Any, /) -> None: ...

    class AsyncOtherConnection(Protocol):
        """A connection of asyncpg, by methods that only it has."""

        def get_server_pid(self) -> int: ...

        def is_in_transaction(self) -> bool: ...

    class AsyncOtherPool(Protocol):
        """A pool of asyncpg, by methods that only it has."""

        def acquire(self, *, timeout: float | None = None) -> Any: ...

        def get_idle_size(self) -> int: ...

    PsycopgConnection: TypeAlias = psycopg.Connection[Any]
    SQLAlchemyConnection: TypeAlias = sqlalchemy.Connection
    SQLAlchemySession: TypeAlias = Session
    GivesPsycopgConnection: TypeAlias = psycopg.Connection[Any] | psycopg_pool.ConnectionPool[Any]
    GivesConnection: TypeAlias = sqlalchemy.Engine | sqlalchemy.Connection
    GivesSession: TypeAlias = Session | sessionmaker[Any] | scoped_session[Any]
    GivesOtherConnection: TypeAlias = OtherConnection
    Transaction: TypeAlias = (
        psycopg.Connection[Any] | OtherConnection | sqlalchemy.Connection | Session | scoped_session[Any]
    )
    TransactionSource: TypeAlias = GivesPsycopgConnection | GivesOtherConnection | GivesConnection | GivesSession
    ClientSource: TypeAlias = str | psycopg_pool.ConnectionPool[Any] | sqlalchemy.Engine

    AsyncPsycopgConnection: TypeAlias = psycopg.AsyncConnection[Any]
    AsyncSQLAlchemyConnection: TypeAlias = asyncio.AsyncConnection
    AsyncSQLAlchemySession: TypeAlias = asyncio.AsyncSession
    GivesAsyncPsycopgConnection: TypeAlias = psycopg.AsyncConnection[Any] | psycopg_pool.AsyncConnectionPool[Any]
    GivesAsyncConnection: TypeAlias = asyncio.AsyncEngine | asyncio.AsyncConnection
    GivesAsyncSession: TypeAlias = (
        asyncio.AsyncSession | asyncio.async_sessionmaker[Any] | asyncio.async_scoped_session[Any]
    )
    GivesAsyncOtherConnection: TypeAlias = AsyncOtherConnection | AsyncOtherPool
    AsyncTransaction: TypeAlias = (
        psycopg.AsyncConnection[Any]
        | AsyncOtherConnection
        | asyncio.AsyncConnection
        | asyncio.AsyncSession
        | asyncio.async_scoped_session[Any]
    )
    AsyncTransactionSource: TypeAlias = (
        GivesAsyncPsycopgConnection | GivesAsyncOtherConnection | GivesAsyncConnection | GivesAsyncSession
    )
    AsyncClientSource: TypeAlias = str | psycopg_pool.AsyncConnectionPool[Any] | asyncio.AsyncEngine
