"""psycopg: a caller's connection, and a pool."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from pgqueue.errors import (
    InvalidArgumentError,
    InvalidStateError,
    TransactionRequiredError,
)
from pgqueue.flows import Begun, Flow, Line
from pgqueue.model.context import ReceiveContext
from pgqueue.statements import Statement
from pgqueue.transports.hub import HubOwner
from pgqueue.transports.lines import ConnectionLine
from pgqueue.transports.translation import translated

T = TypeVar("T")

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any
AnyPool = Any

#: Arguments of psycopg's connect() that are not part of a DSN.
NOT_OF_LIBPQ = ("autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory")

#: A server that has vanished without a word is noticed within half a minute. What a DSN says itself counts.
PATIENCE_OF_A_SOCKET = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


def execute(connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
    """One round trip."""
    with translated():
        cursor = connection.cursor(row_factory=tuple_row)
        yield partial(cursor.execute, statement.sql, statement.parameters)
        rows = yield cursor.fetchall
    return statement.read(rows)


class SharedConnection:
    """A connection in whose transaction we take part."""

    def __init__(self, connection: AnyConnection) -> None:
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise TransactionRequiredError(
                "the connection is in autocommit mode and has no transaction: use it inside `with conn.transaction():`"
            )
        self._connection = connection

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return execute(self._connection, statement)

    def follow(self, contexts: Sequence[ReceiveContext]) -> Flow[None]:
        """psycopg tells nobody how a transaction ended; the database is asked instead."""
        yield from ()

    @property
    def is_open(self) -> bool:
        return not self._connection.closed and self._connection.info.transaction_status == TransactionStatus.INTRANS


class BegunConnection:
    """A transaction that we began on a connection, given back to where it came from."""

    def __init__(self, connection: AnyConnection, give_back: Callable[[], Any] | None = None) -> None:
        self.handle = connection
        self._give_back = give_back
        self._is_marked = False

    def begin(self) -> Flow[Begun]:
        status = self.handle.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR, TransactionStatus.ACTIVE):
            raise InvalidStateError(
                "the connection is in a transaction already: end it first, or settle with transaction=connection"
            )
        if self.handle.autocommit:
            with translated():
                yield partial(self.handle.execute, "begin")
        return self

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return execute(self.handle, statement)

    def mark(self) -> Flow[None]:
        released = "release savepoint pgqueue_mark; " if self._is_marked else ""
        with translated():
            yield partial(self.handle.execute, released + "savepoint pgqueue_mark")
        self._is_marked = True

    def back(self) -> Flow[None]:
        with translated():
            yield partial(self.handle.execute, "rollback to savepoint pgqueue_mark")

    def commit(self) -> Flow[None]:
        with translated():
            yield self.handle.commit

    def rollback(self) -> Flow[None]:
        if not self.handle.closed:
            with translated():
                yield self.handle.rollback

    def release(self) -> Flow[None]:
        if self._give_back is not None:
            yield self._give_back


class PoolSource(HubOwner):
    """A pool of psycopg connections, the client's own or the caller's."""

    def __init__(self, pool: AnyPool, *, owned: bool) -> None:
        self._pool = pool
        self._owned = owned
        self._opened = not owned

    @property
    def conninfo(self) -> str:  # type: ignore[override]  # a property is an attribute to whom reads it
        return _conninfo(self._pool)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        connection = yield from self._take()
        try:
            restore = not connection.autocommit
            if restore:
                yield partial(connection.set_autocommit, True)
            try:
                return (yield from execute(connection, statement))
            finally:
                if restore and not connection.closed:
                    yield partial(connection.set_autocommit, False)
        finally:
            yield partial(self._pool.putconn, connection)

    def begin(self) -> Flow[Begun]:
        connection = yield from self._take()
        begun = BegunConnection(connection, partial(self._pool.putconn, connection))
        try:
            return (yield from begun.begin())
        except BaseException:
            yield from begun.release()
            raise

    def line(self) -> Flow[Line]:
        connection = yield from self._take()
        restore = not connection.autocommit
        if restore:
            yield partial(connection.set_autocommit, True)
        return ConnectionLine(connection, partial(self._pool.putconn, connection), restore=restore)

    def close(self) -> Flow[None]:
        yield self.hush
        if self._owned and self._opened:
            yield self._pool.close

    def _take(self) -> Flow[AnyConnection]:
        with translated():
            if not self._opened:
                yield from self._knock()
                yield self._pool.open
                self._opened = True
            try:
                connection = yield self._pool.getconn
                while self._owned and (yield from _has_gone(connection)):
                    yield partial(self._pool.putconn, connection)
                    connection = yield self._pool.getconn
                return connection
            except psycopg_pool.PoolTimeout:
                if self._owned:
                    yield from self._knock()
                raise

    def _knock(self) -> Flow[None]:
        """Connects for once without the pool, which would keep trying for long, and not say why it failed."""
        visitor = yield partial(self._pool.connection_class.connect, self._pool.conninfo)
        yield visitor.close


def own_pool(conninfo: str, pool_class: type[Any], size: int = 10, patience: float = 30.0) -> PoolSource:
    """The pool of a client that was given a DSN: opened at the first use, checked before it gives a connection."""
    pool = pool_class(
        patient(conninfo),
        min_size=0,
        max_size=size,
        open=False,
        kwargs={"autocommit": True},
        name="pgqueue",
        timeout=patience,
        reconnect_timeout=5,
    )
    return PoolSource(pool, owned=True)


def patient(conninfo: str) -> str:
    """The same DSN, with the bounds of our patience and our name where it says nothing of its own."""
    try:
        said = psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise InvalidArgumentError(f"the DSN must be one that libpq understands: {error}") from error
    ours: dict[str, str | int] = {"application_name": "pgqueue", **PATIENCE_OF_A_SOCKET}
    return psycopg.conninfo.make_conninfo(conninfo, **{name: ours[name] for name in ours.keys() - said.keys()})


def _conninfo(pool: AnyPool) -> str:
    """How to reach the database of a pool otherwise: what it says in its DSN, and beside it."""
    conninfo = pool.conninfo() if callable(pool.conninfo) else pool.conninfo
    beside = pool.kwargs() if callable(pool.kwargs) else pool.kwargs
    options = {name: value for name, value in (beside or {}).items() if name not in NOT_OF_LIBPQ}
    return psycopg.conninfo.make_conninfo(conninfo or "", **options)


def _has_gone(connection: AnyConnection) -> Flow[bool]:
    """Whether the server has ended an idle connection. Only one from which something came, unasked, is worth asking.

    The pool has a check of its own, but it waits longer after each connection that fails it, up to half a minute.
    """
    ear = select.poll()
    ear.register(connection.fileno(), select.POLLIN)
    if not ear.poll(0):
        return False
    try:
        yield partial(connection.execute, "")
    except psycopg.OperationalError:
        return True
    return False
