"""SQLAlchemy: sessions, connections and engines over psycopg, synchronous and asynchronous.

Statements run on the psycopg connection beneath, inside the transaction SQLAlchemy has begun, so that types and errors
are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
)
from sqlalchemy.orm import Session, scoped_session

from pgqueue.errors import (
    InvalidStateError,
    TransactionRequiredError,
    UnsupportedSourceError,
)
from pgqueue.flows import Begun, Flow
from pgqueue.model.context import Event
from pgqueue.statements import Statement
from pgqueue.transports import connections
from pgqueue.transports.translation import translated

T = TypeVar("T")

#: A SQLAlchemy object, synchronous or asynchronous: the methods used here have the same names in both.
AnyOwner = Any


class SharedOwner:
    """A Session or a Connection in whose transaction we take part."""

    def __init__(self, owner: AnyOwner) -> None:
        self._owner = owner
        self._connection: Any = None

    def execute(self, statement: Statement[T]) -> Flow[T]:
        driver = yield from self._driver()
        if driver.autocommit:
            raise TransactionRequiredError(
                "the connection has the isolation level AUTOCOMMIT, so no transaction to share: use another level"
            )
        return (yield from connections.execute(driver, statement))

    def follow(self, listener: Callable[[Event], object]) -> Flow[None]:
        """Listens to the connection until its transaction is over, and to the savepoints that enclose this moment."""
        yield from self._driver()
        connection = self._connection
        sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
        assert isinstance(sync, Connection)
        Listener.of(sync).follow(listener)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed and self._connection.in_transaction()

    def _driver(self) -> Flow[Any]:
        with translated():
            if isinstance(self._owner, Session | AsyncSession | scoped_session | async_scoped_session):
                self._connection = yield self._owner.connection
            else:
                self._connection = self._owner
                if not self._owner.in_transaction():
                    yield self._owner.begin
            return (yield from _driver_of(self._connection))


class Listener:
    """Overhears how the transactions of one SQLAlchemy connection end, and tells everybody who takes part in them.

    A savepoint that was there before us and is rolled back undoes what we did; one that came later does not concern us.
    """

    _of_connection: ClassVar[WeakKeyDictionary[Connection, Listener]] = WeakKeyDictionary()

    def __init__(self, connection: Connection) -> None:
        self._followers: list[tuple[Callable[[Event], object], set[str]]] = []
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "rollback", self._on_rollback)
        event.listen(connection, "savepoint", self._on_savepoint)
        event.listen(connection, "rollback_savepoint", self._on_rollback_savepoint)

    @classmethod
    def of(cls, connection: Connection) -> Listener:
        if connection not in cls._of_connection:
            cls._of_connection[connection] = cls(connection)
        return cls._of_connection[connection]

    def follow(self, tell: Callable[[Event], object]) -> None:
        later_savepoints: set[str] = set()
        self._followers.append((tell, later_savepoints))

    def _on_commit(self, connection: Connection) -> None:
        self._end(Event.COMMITTED)

    def _on_rollback(self, connection: Connection) -> None:
        self._end(Event.ABORTED)

    def _end(self, outcome: Event) -> None:
        followers, self._followers = self._followers, []
        for tell, _ in followers:
            tell(outcome)

    def _on_savepoint(self, connection: Connection, name: str) -> None:
        for _, later in self._followers:
            later.add(name)

    def _on_rollback_savepoint(self, connection: Connection, name: str, context: None) -> None:
        undone = [tell for tell, later in self._followers if name not in later]
        self._followers = [(tell, later) for tell, later in self._followers if name in later]
        for tell in undone:
            tell(Event.ABORTED)


class BegunOwner:
    """A transaction that we began on a Session or a Connection; closed afterwards when it is ours."""

    def __init__(self, owner: AnyOwner, *, owned: bool) -> None:
        self.handle = owner
        self._shared = SharedOwner(owner)
        self._owned = owned

    def begin(self) -> Flow[Begun]:
        if self.handle.in_transaction():
            raise InvalidStateError(
                "the session or connection is in a transaction already: end it first, or settle with transaction=…"
            )
        yield from self._shared._driver()
        return self

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return self._shared.execute(statement)

    def commit(self) -> Flow[None]:
        with translated():
            yield self.handle.commit

    def rollback(self) -> Flow[None]:
        with translated():
            yield self.handle.rollback

    def release(self) -> Flow[None]:
        if self._owned:
            yield self.handle.close


class EngineSource:
    """A SQLAlchemy engine over psycopg."""

    def __init__(self, engine: AnyOwner) -> None:
        if engine.dialect.driver != "psycopg":
            raise UnsupportedSourceError(
                f"the engine uses the driver {engine.dialect.driver}: create it with postgresql+psycopg://"
            )
        self._engine = engine

    @property
    def conninfo(self) -> str:
        url = self._engine.url.set(drivername="postgresql")
        return str(url.render_as_string(hide_password=False))

    def execute(self, statement: Statement[T]) -> Flow[T]:
        begun = yield from self.begin()
        try:
            result: T = yield from begun.execute(statement)
            yield from begun.commit()
        finally:
            yield from begun.release()
        return result

    def begin(self) -> Flow[Begun]:
        with translated():
            connection = yield partial(_connect, self._engine)
        begun = BegunOwner(connection, owned=True)
        try:
            return (yield from begun.begin())
        except BaseException:
            yield from begun.release()
            raise

    def close(self) -> Flow[None]:
        """The engine is the caller's, and stays open."""
        yield from ()


def begin_new(maker: Callable[[], AnyOwner]) -> Flow[Begun]:
    """Begins a transaction in a new session of a session maker."""
    begun = BegunOwner(maker(), owned=True)
    try:
        return (yield from begun.begin())
    except BaseException:
        yield from begun.release()
        raise


def _connect(engine: AnyOwner) -> Any:
    if isinstance(engine, AsyncEngine):
        return engine.connect().start()
    return engine.connect()


def _driver_of(connection: AnyOwner) -> Flow[Any]:
    if isinstance(connection, AsyncConnection):
        driver = (yield connection.get_raw_connection).driver_connection
    else:
        driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection | psycopg.AsyncConnection):
        raise UnsupportedSourceError(
            f"the session or connection uses {type(driver).__module__}: create its engine with postgresql+psycopg://"
        )
    return driver
