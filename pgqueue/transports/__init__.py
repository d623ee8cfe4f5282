"""Connections: adapts what applications have to what flows need.

Queues, messages, workers and notifications reach the database only through this package; import-linter enforces that.
:mod:`pgqueue.schema`, ``embedded``, ``testing``, ``spark``, ``cli`` and ``demo`` open connections of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg_pool

from pgqueue.errors import InvalidArgumentError, UnsupportedSourceError
from pgqueue.flows import Begun, Flow, Shared, Source
from pgqueue.model import schemas
from pgqueue.transports import drivers, dsn, forking
from pgqueue.transports.connections import BegunConnection, PoolSource, named, own_pool
from pgqueue.transports.deadlines import (
    DEFAULT,
    TIMEOUT,
    Deadlines,
    deadline,
    leave_blocks,
    seconds_of,
    time_left,
    until,
)
from pgqueue.transports.drivers.begun import BegunOnDriver, begin_on_pool
from pgqueue.transports.drivers.shared import SharedConnection
from pgqueue.transports.driving import adrive, drive
from pgqueue.transports.in_schema import begun_in, shared_in, source_in
from pgqueue.transports.one_shot import ask_once
from pgqueue.transports.wake_signals import call_in

if TYPE_CHECKING:
    from pgqueue.transports.alchemy import EngineSource

__all__ = [
    "DEFAULT",
    "TIMEOUT",
    "adrive",
    "ask_once",
    "begin",
    "call_in",
    "deadline",
    "drive",
    "leave_blocks",
    "shared",
    "sized",
    "source_of",
    "time_left",
    "transactions",
    "until",
]


def source_of(
    given: object,
    *,
    asynchronous: bool,
    listens: bool = True,
    timeout: timedelta | None = TIMEOUT,
    schema: str = schemas.DEFAULT,
) -> Source:
    """Where a client's own statements run: a DSN, a pool or an engine; by default, the DSN of libpq's environment."""
    schema = schemas.check_schema(schema)
    seconds = seconds_of(timeout)
    source = _source_of(_checked(_named_database() if given is None else given, asynchronous), asynchronous, seconds)
    source.listens, source.schema = listens, schema
    forking.register_for_reset(source)
    return source_in(source, schema)


def _named_database() -> str:
    named = dsn.from_environment()
    if named is None:
        raise InvalidArgumentError(
            "no database was named: give a DSN, a pool or an engine, set PGHOST or another of libpq's environment"
            " variables, or use QueueClient.embedded()"
        )
    return named


def _source_of(given: object, asynchronous: bool, timeout: float) -> PoolSource | EngineSource:
    match given:
        case str() as conninfo:
            text = "the client is closed: make another"
            return own_pool(conninfo, asynchronous=asynchronous, timeout=timeout, closed_text=text)
        case psycopg_pool.ConnectionPool() | psycopg_pool.AsyncConnectionPool():
            return PoolSource(given, owned=False, timeout=timeout)
    if _is_of_sqlalchemy(given):
        from pgqueue.transports import alchemy

        engine = alchemy.source_of(given, timeout)
        if engine is not None:
            return engine
    raise UnsupportedSourceError(
        f"a client needs a DSN, a connection pool or an engine, over psycopg, not {_name(given)}"
    )


def sized(source: Source, size: int, *, asynchronous: bool, name: str | None = None) -> Source:
    """Make a private pool to the same database, large enough that callers wait for the server, not for a connection.

    Its connections have this name in pg_stat_activity, unless the application has given them one.
    """
    conninfo = source.conninfo if name is None else named(source.conninfo, name)
    pool = own_pool(conninfo, asynchronous=asynchronous, size=size, patience=5, timeout=source.timeout)
    pool.interceptors, pool.schema = source.interceptors, source.schema
    forking.register_for_reset(pool)
    return source_in(pool, source.schema)


def transactions(
    kind: object, pool: Source, size: int, *, asynchronous: bool
) -> tuple[Callable[[], Flow[Begun]] | None, Callable[[], Flow[None]]]:
    """How to begin transactions of this kind: "psycopg", "sqlalchemy", on a given source, or none for None.

    And how to close the connections that were opened for them alone.
    """
    match kind:
        case None:
            return None, _nothing
        case "psycopg":
            return pool.begin, _nothing
        case "sqlalchemy":
            from pgqueue.transports.alchemy import SessionSource

            source = SessionSource(pool.conninfo, size, pool.timeout, asynchronous=asynchronous)
            return lambda: begun_in(source.begin(), pool.schema), source.close
    return partial(begin, kind, pool, asynchronous=asynchronous), _nothing


def _nothing() -> Flow[None]:
    yield from ()


def shared(transaction: object, source: Source, *, asynchronous: bool) -> Shared:
    """A caller's transaction: a connection or a session. Calls in it have the timeout and the schema of the client."""
    taken: Shared
    if isinstance(transaction, psycopg.AsyncConnection if asynchronous else psycopg.Connection):
        taken = SharedConnection(drivers.PSYCOPG, transaction, Deadlines(source.timeout))
    else:
        taken = _shared(transaction, source.timeout, asynchronous)
    return shared_in(taken, source.schema)


def where(transaction: object | None, source: Source, *, asynchronous: bool) -> Shared | Source:
    """Where statements are executed: in the caller's transaction if there is one, else in those of the source."""
    return source if transaction is None else shared(transaction, source, asynchronous=asynchronous)


def _shared(transaction: object, timeout: float, asynchronous: bool) -> Shared:
    driver = drivers.driver_of(_checked(transaction, asynchronous))
    if driver is not None:
        return SharedConnection(driver, transaction, Deadlines(timeout))
    if _is_of_sqlalchemy(transaction):
        from pgqueue.transports import alchemy

        owner = alchemy.shared(transaction, timeout)
        if owner is not None:
            return owner
    raise UnsupportedSourceError(
        f"transaction must be {drivers.connections(asynchronous=asynchronous)}, not {_name(transaction)}"
    )


def begin(given: object, source: Source, *, asynchronous: bool) -> Flow[Begun]:
    """Begin a transaction for the application to work in; our calls in it have the timeout and schema of the client."""
    return begun_in(_begin(given, source.timeout, asynchronous), source.schema)


def _begin(source: object, timeout: float, asynchronous: bool) -> Flow[Begun]:
    match _checked(source, asynchronous):
        case psycopg.Connection() | psycopg.AsyncConnection():
            return BegunConnection(source, Deadlines(timeout)).begin()
        case psycopg_pool.ConnectionPool() | psycopg_pool.AsyncConnectionPool():
            return PoolSource(source, owned=False, timeout=timeout).begin()
    driver = drivers.other_driver_of(source)
    if driver is not None:
        return BegunOnDriver(driver, source, Deadlines(timeout)).begin()
    if drivers.is_pool_of_asyncpg(source):
        return begin_on_pool(source, Deadlines(timeout))
    if _is_of_sqlalchemy(source):
        from pgqueue.transports import alchemy

        begun = alchemy.begin(source, timeout)
        if begun is not None:
            return begun
    raise UnsupportedSourceError(
        f"a transaction needs {drivers.sources(asynchronous=asynchronous)}, not {_name(source)}"
    )


def _checked(source: object, asynchronous: bool) -> Any:
    if isinstance(source, _kinds(source, not asynchronous)):
        face = "pgqueue (the synchronous face)" if asynchronous else "pgqueue.aio (the asynchronous face)"
        raise UnsupportedSourceError(f"{_name(source)} belongs with {face}")
    return source


def _kinds(source: object, asynchronous: bool) -> tuple[type, ...]:
    """The types that a source of this kind may have, a driver's or SQLAlchemy's."""
    if _is_of_sqlalchemy(source):
        from pgqueue.transports import alchemy

        return alchemy.ASYNC if asynchronous else alchemy.SYNC
    return drivers.kinds(source, asynchronous=asynchronous)


def _is_of_sqlalchemy(source: object) -> bool:
    """Whether this is a SQLAlchemy object, checked without importing SQLAlchemy."""
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in type(source).__mro__)


def _name(thing: object) -> str:
    name = type(thing).__name__
    package = drivers.package_of(thing)
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}{f' of {package}' if package else ''}"
