"""Everything that an application may have in its hands, synchronous or asynchronous."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg_pool
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import pgqueue
import pgqueue.aio
from pgqueue.testing import Database
from pgqueue.transports.dsn import VARIABLES
from tests.contract.interpreter import Interpreter, meant
from tests.contract.transactions import (
    Block,
    OfAsyncpg,
    OfPsycopg2,
    Scoped,
    Transaction,
    TwoPhase,
    TwoPhaseOfSQLAlchemy,
    TwoPhaseSession,
)

#: The sources of a client.
CLIENTS = ("dsn", "pool", "engine")

#: The sources of a caller's transaction. Other ones have another driver than the library: psycopg2 in the synchronous
#: face, asyncpg in the asynchronous one.
CALLERS = (
    "connection",
    "autocommit connection",
    "session",
    "scoped session",
    "sqlalchemy connection",
    "other connection",
    "other session",
    "other sqlalchemy connection",
)

#: The sources of a transaction that is to be prepared.
TWO_PHASE = (
    "two-phase connection",
    "two-phase sqlalchemy connection",
    "two-phase session",
    "two-phase other sqlalchemy connection",
    "two-phase other session",
)

#: The sources on which `received.transaction(source)` and `process(…, source)` can begin a transaction.
WORKPLACES = (
    "nothing",
    "connection",
    "autocommit connection",
    "pool",
    "engine",
    "sqlalchemy connection",
    "session",
    "scoped session",
    "session maker",
    "other connection",
    "other pool",
    "other engine",
    "other sqlalchemy connection",
    "other session",
    "other session maker",
)

#: Those that a test does not close, because others use them too.
KEPT_OPEN = ("nothing", "pool", "engine", "session maker", "other pool", "other engine", "other session maker")


class Sources:
    """One face's sources. All that is made here can be called synchronously."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._closing: list[Callable[[], Any]] = []

    def close(self) -> None:
        for close in reversed(self._closing):
            close()

    @functools.cached_property
    def onlooker(self) -> psycopg.Connection[Any]:
        """A session apart from all sources, kept because connecting takes longer than a query."""
        onlooker = self.database.connect(autocommit=True)
        self._closing.append(onlooker.close)
        return onlooker

    @functools.cache  # noqa: B019 - they live as long as the process
    def client(self, source: str) -> pgqueue.QueueClient:
        made_of = {"dsn": self.database.dsn, "pool": self.pool, "engine": self.engine}
        client = self.made_of(made_of[source])
        self._closing.append(client.close)
        return client

    @contextmanager
    def narrow_client(self, source: str, timeout: float = 60) -> Iterator[pgqueue.QueueClient]:
        """A client over a source that has exactly one connection."""
        narrow = self._narrow(source, timeout)
        try:
            client = self.made_of(narrow)
            client.list_queues()
            yield client
        finally:
            (narrow.close if source == "pool" else narrow.dispose)()

    @contextmanager
    def fresh_client(self, source: str) -> Iterator[pgqueue.QueueClient]:
        """A client of its own, whose connections may get lost."""
        given: Any = self.database.dsn if source == "dsn" else self._narrow(source, timeout=60, size=10)
        client = self.made_of(given)
        try:
            yield client
        finally:
            client.close()
            if source != "dsn":
                (given.close if source == "pool" else given.dispose)()

    def transaction(self, kind: str) -> Transaction:
        """A caller's transaction of a kind, on a connection or in a session of its own."""
        made: dict[str, Callable[[], Transaction]] = {
            "autocommit connection": lambda: Block(self.open(kind)),
            "scoped session": lambda: Scoped(self.open(kind)),
            "other connection": lambda: self.other_transaction(self.open(kind)),
            "two-phase connection": lambda: TwoPhase(self.open("connection")),
            "two-phase sqlalchemy connection": lambda: TwoPhaseOfSQLAlchemy(self.open("sqlalchemy connection")),
            "two-phase session": lambda: TwoPhaseSession(self.session(self.engine, twophase=True)),
            "two-phase other sqlalchemy connection": lambda: TwoPhaseOfSQLAlchemy(
                self.open("other sqlalchemy connection")
            ),
            "two-phase other session": lambda: TwoPhaseSession(self.session(self.other_engine, twophase=True)),
        }
        return made[kind]() if kind in made else Transaction(self.open(kind))

    @contextmanager
    def workplace(self, kind: str) -> Iterator[Any]:
        """A source for `received.transaction(…)`, closed afterwards if it was opened for this."""
        source = self.open(kind)
        try:
            yield source
        finally:
            if kind == "scoped session":
                source.remove()
            elif source is not None and kind not in KEPT_OPEN:
                source.close()

    @contextmanager
    def serializable(self, kind: str) -> Iterator[Any]:
        """A workplace whose transactions are serializable."""
        engine = self.engine.execution_options(isolation_level="SERIALIZABLE")
        match kind:
            case "engine":
                yield engine
            case "session":
                session = self.session(engine)
                yield session
                session.close()
            case "connection":
                connection = self.open(kind)
                connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
                yield connection
                connection.close()

    pool: Any
    engine: Any
    other_engine: Any

    def other_transaction(self, connection: Any) -> Transaction:
        raise NotImplementedError

    def session(self, engine: Any, **options: Any) -> Any:
        raise NotImplementedError

    def open(self, kind: str) -> Any:
        raise NotImplementedError

    def process(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def made_of(self, source: Any, **options: Any) -> pgqueue.QueueClient:
        raise NotImplementedError

    def _narrow(self, source: str, timeout: float, size: int = 1) -> Any:
        raise NotImplementedError


class SyncSources(Sources):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.pool = psycopg_pool.ConnectionPool(database.dsn, min_size=0, max_size=4, open=True)
        self.engine = sqlalchemy.create_engine(database.url, pool_pre_ping=True)
        self.other_engine = sqlalchemy.create_engine(with_driver(database, "psycopg2"), pool_pre_ping=True)
        self._closing += [self.pool.close, self.engine.dispose, self.other_engine.dispose]

    def other_transaction(self, connection: Any) -> Transaction:
        return OfPsycopg2(connection)

    def open(self, kind: str) -> Any:
        ways: dict[str, Callable[[], Any]] = {
            "nothing": lambda: None,
            "other connection": lambda: psycopg2.connect(self.database.dsn),
            "other pool": lambda: self.other_engine,  # psycopg2's own pools are not accepted
            "other engine": lambda: self.other_engine,
            "other session": lambda: self.session(self.other_engine),
            "other sqlalchemy connection": self.other_engine.connect,
            "other session maker": lambda: sessionmaker(self.other_engine),
            "connection": lambda: psycopg.connect(self.database.dsn),
            "autocommit connection": lambda: psycopg.connect(self.database.dsn, autocommit=True),
            "pool": lambda: self.pool,
            "engine": lambda: self.engine,
            "session": lambda: self.session(self.engine),
            "scoped session": lambda: scoped_session(sessionmaker(self.engine)),
            "sqlalchemy connection": self.engine.connect,
            "session maker": lambda: sessionmaker(self.engine),
        }
        return ways[kind]()

    def session(self, engine: Any, **options: Any) -> Any:
        return Session(engine, **options)

    def process(self, received: Any, work: Callable[..., Any], source: Any = None, **options: Any) -> Any:
        return pgqueue.process(received, work, source, **options)

    def made_of(self, source: Any, **options: Any) -> pgqueue.QueueClient:
        return pgqueue.QueueClient(source, **options)

    def _narrow(self, source: str, timeout: float, size: int = 1) -> Any:
        if source == "pool":
            return psycopg_pool.ConnectionPool(self.database.dsn, min_size=1, max_size=size, timeout=timeout, open=True)
        return sqlalchemy.create_engine(self.database.url, pool_size=size, max_overflow=0, pool_timeout=timeout)


class AsyncSources(Sources):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._interpreter = Interpreter()
        call = self._interpreter.call
        self.pool = call(psycopg_pool.AsyncConnectionPool, database.dsn, min_size=0, max_size=4, open=False)
        self.pool.open()
        self.engine = call(create_async_engine, database.url, pool_pre_ping=True)
        self.other_engine = call(create_async_engine, with_driver(database, "asyncpg"), pool_pre_ping=True)
        self._closing += [self._interpreter.close, self.pool.close, self.engine.dispose, self.other_engine.dispose]

    @functools.cached_property
    def other_pool(self) -> Any:
        pool = self._interpreter.call(asyncpg.create_pool, self.database.dsn, min_size=0, max_size=4)
        self._closing.append(pool.terminate)  # close() would wait for a connection that a test has lost
        return pool

    def other_transaction(self, connection: Any) -> Transaction:
        return OfAsyncpg(connection)

    def open(self, kind: str) -> Any:
        call = self._interpreter.call
        engine, other_engine = meant(self.engine), meant(self.other_engine)
        connect = functools.partial(call, psycopg.AsyncConnection.connect, self.database.dsn)
        maker = async_sessionmaker(engine)
        ways: dict[str, Callable[[], Any]] = {
            "nothing": lambda: None,
            "other connection": functools.partial(call, asyncpg.connect, self.database.dsn),
            "other pool": lambda: self.other_pool,
            "other engine": lambda: self.other_engine,
            "other session": lambda: self.session(self.other_engine),
            "other sqlalchemy connection": lambda: call(other_engine.connect),
            "other session maker": lambda: call(lambda: async_sessionmaker(other_engine)),
            "connection": connect,
            "autocommit connection": functools.partial(connect, autocommit=True),
            "pool": lambda: self.pool,
            "engine": lambda: self.engine,
            "session": lambda: self.session(self.engine),
            "scoped session": lambda: call(async_scoped_session, maker, scopefunc=lambda: "the test"),
            "sqlalchemy connection": lambda: call(engine.connect),
            "session maker": lambda: call(lambda: maker),
        }
        return ways[kind]()

    def session(self, engine: Any, **options: Any) -> Any:
        return self._interpreter.call(AsyncSession, engine, **options)

    def process(self, received: Any, work: Callable[..., Any], source: Any = None, **options: Any) -> Any:
        return self._interpreter.call(pgqueue.aio.process, received, self._interpreter.work(work), source, **options)

    def made_of(self, source: Any, **options: Any) -> pgqueue.QueueClient:
        client: pgqueue.QueueClient = self._interpreter.call(pgqueue.aio.QueueClient, source, **options)
        return client

    def _narrow(self, source: str, timeout: float, size: int = 1) -> Any:
        call = self._interpreter.call
        if source == "engine":
            return call(create_async_engine, self.database.url, pool_size=size, max_overflow=0, pool_timeout=timeout)
        pool = call(
            psycopg_pool.AsyncConnectionPool, self.database.dsn, min_size=1, max_size=size, timeout=timeout, open=False
        )
        pool.open()
        return pool


def with_driver(database: Database, driver: str) -> Any:
    """The URL of an engine over this driver."""
    return sqlalchemy.make_url(database.url).set(drivername=f"postgresql+{driver}")


def libpq_variables(database: Database) -> dict[str, str]:
    """The environment variables that name a database to libpq."""
    said = conninfo_to_dict(database.dsn)
    return {
        variable: str(said[part]) for variable, part in {**VARIABLES, "PGPASSWORD": "password"}.items() if part in said
    }


FACES: dict[str, type[Sources]] = {"sync": SyncSources, "async": AsyncSources}
