"""SQLAlchemy: sessions, connections and engines over psycopg, psycopg2 and asyncpg, synchronous and asynchronous.

Statements run on the connection of the driver, inside the transaction that SQLAlchemy has begun, so types and errors
are the same everywhere. Imported only when the application uses SQLAlchemy: its import takes as long as all the
rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from sqlalchemy import create_engine, event
from sqlalchemy.engine import AdaptedConnection, Connection, Engine, TwoPhaseTransaction
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, Pool, PoolResetState, QueuePool

from pgqueue.errors import (
    InvalidStateError,
    OperationTimeoutError,
    TransactionRequiredError,
    UnsupportedSourceError,
)
from pgqueue.flows import Begun, Flow, Line
from pgqueue.model.context import ReceiveContext
from pgqueue.statements import Statement
from pgqueue.transports import connections, cursors, drivers, engines, forking, handles, translation
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.drivers import PSYCOPG, Driver
from pgqueue.transports.drivers.begun import require_success
from pgqueue.transports.drivers.shared import QUIETLY
from pgqueue.transports.ending import end_statement
from pgqueue.transports.lines import ConnectionLine
from pgqueue.transports.notify_listener import NotifyListenerOwner
from pgqueue.transports.transaction_observers import TransactionObserver, connection_of

T = TypeVar("T")

DIALECT = "postgresql+psycopg://"

#: Parameters of a connection that hold for the host that has answered, at the address that it had then.
OF_ONE_ATTEMPT = ("hostaddr", "target_session_attrs")

#: A SQLAlchemy object, synchronous or asynchronous: the methods used here have the same names in both.
AnyOwner = Any

SYNC = (Engine, Connection, Session, scoped_session, sessionmaker)
ASYNC = (AsyncEngine, AsyncConnection, AsyncSession, async_scoped_session, async_sessionmaker)
#: The attributes that a connection of a private engine had before it was taken from the pool.
BEFORE = "pgqueue_before"

OWNERS = (Session, Connection, AsyncSession, AsyncConnection)


def source_of(source: object, timeout: float) -> EngineSource | None:
    """Where a client's own statements run; None if this object is no such source."""
    return EngineSource(source, timeout) if isinstance(source, Engine | AsyncEngine) else None


def shared(transaction: object, timeout: float) -> SharedOwner | None:
    """A caller's transaction; None if this object has none."""
    owner = _registered(transaction)
    return SharedOwner(owner, Deadlines(timeout)) if isinstance(owner, OWNERS) else None


def begin(source: object, timeout: float) -> Flow[Begun] | None:
    """Begin a transaction; None if this object cannot begin one."""
    match _registered(source):
        case Engine() | AsyncEngine() as engine:
            return begin_on(partial(engines.connect, engine), Deadlines(timeout))
        case sessionmaker() | async_sessionmaker() as maker:
            return begin_new(maker, Deadlines(timeout))
        case owner if isinstance(owner, OWNERS):
            return BegunOwner(owner, Deadlines(timeout), owned=False).begin()
    return None


def _registered(source: object) -> object:
    """The current session of a scoped session."""
    return source() if isinstance(source, scoped_session | async_scoped_session) else source


@contextmanager
def translated(*, is_ours: bool = False) -> Iterator[None]:
    """Raise the library's error in place of the driver's or SQLAlchemy's, which becomes its cause.

    Of a statement of ours, the cause is the driver's error: the text of SQLAlchemy's has the parameters in it.
    """
    try:
        with translation.translated():
            yield
    except DBAPIError as error:
        for original in (error.orig, error.orig and error.orig.__cause__):
            known = drivers.translation_of(original)
            if known is not None:
                raise known from (original if is_ours else error)
        raise
    except PoolTimeout as error:
        raise OperationTimeoutError(f"the connection pool has no free connection: {error}") from error


@contextmanager
def connecting() -> Iterator[None]:
    """The same where a connection may be made: asyncpg and SQLAlchemy pass on the errors of the socket."""
    try:
        with translated():
            yield
    except OSError as error:
        raise translation.lost(str(error) or type(error).__name__) from error


class SharedOwner:
    """A Session or a Connection in whose transaction we take part. A deadline closes the connection of its driver."""

    quietly = QUIETLY
    pipelines = False

    def __init__(self, owner: AnyOwner, deadlines: Deadlines) -> None:
        self._owner = owner
        self._deadlines = deadlines
        self._connection: Any = None
        self._process = os.getpid()

    def execute(self, statement: Statement[T]) -> Flow[T]:
        until = self._deadlines.begin(statement)
        connection = yield from self.connection()
        sync, driver = _sync(self._connection), _driver_of(connection)
        if _commits_by_itself(sync):
            raise TransactionRequiredError(
                "the connection has the isolation level AUTOCOMMIT, so no transaction to share: use another level"
            )
        with translated(is_ours=True), driver.limited(self._deadlines, connection, until):
            if isinstance(sync.get_transaction(), TwoPhaseTransaction):
                driver.require_unprepared(connection)
                yield from driver.execute_under(self._connection, connection, self.quietly)
            return (yield from driver.execute_under(self._connection, connection, statement))

    def follow(self, contexts: Sequence[ReceiveContext]) -> Flow[None]:
        """Observes the end of the connection's transaction, and of the savepoints that are open now."""
        yield from self.connection()
        connection = _sync(self._connection)
        TransactionObserver.of(connection).follow(connection, contexts)

    @property
    def is_open(self) -> bool:
        if self._connection is None or self._connection.closed or self._process != os.getpid():
            return False
        connection = _sync(self._connection)
        if connection.invalidated or connection.get_transaction() is None:
            return False
        driver_connection = connection_of(connection)
        return _driver_of(driver_connection).is_in_transaction(driver_connection)

    @property
    def known_connection(self) -> Connection | None:
        """The synchronous connection that the last statement ran on."""
        is_asynchronous = isinstance(self._connection, AsyncConnection)
        connection: Connection | None = self._connection.sync_connection if is_asynchronous else self._connection
        return connection

    def give_up_if_busy(self) -> Flow[None]:
        """Close an occupied connection: a rollback would wait for what occupies it."""
        last = self.last_connection
        if last is not None and _driver_of(last).is_busy(last):
            yield self._connection.invalidate

    def give_up(self, last: Any) -> Flow[None]:
        """Close a connection that could not be rolled back: its pool would lend it with the transaction open."""
        if self.last_connection is not None:
            yield self._connection.invalidate
        elif last is not None:  # a session has given it back already
            yield getattr(last, "terminate", last.close)

    @property
    def last_connection(self) -> Any:
        """The driver's connection that was used last, if it is still connected."""
        connection = self._connection
        if connection is None or connection.closed or connection.invalidated:
            return None
        return connection_of(_sync(connection))

    def connection(self) -> Flow[Any]:
        """The connection of the driver; SQLAlchemy has begun a transaction on it."""
        with connecting():
            if isinstance(self._owner, Session | AsyncSession):
                self._connection = yield self._owner.connection
            else:
                self._connection = self._owner
                if not self._owner.in_transaction():
                    yield self._owner.begin
            return (yield from _connection_below(self._connection))

    def limited(self, until: float) -> AbstractContextManager[None]:
        """In this block, close the driver's connection when the server has not answered by then."""
        last = self.last_connection
        return nullcontext() if last is None else _driver_of(last).limited(self._deadlines, last, until)


class BegunOwner:
    """A transaction that we began on a Session or a Connection; we close these afterwards if they are ours.

    The application works with them, but only we end the transaction.
    """

    def __init__(self, owner: AnyOwner, deadlines: Deadlines, *, owned: bool) -> None:
        self.handle = owner
        self._deadlines = deadlines
        self._shared = SharedOwner(owner, deadlines)
        self._owned = owned
        self._nested: Any = None

    def begin(self) -> Flow[Begun]:
        if self.handle.in_transaction():
            raise InvalidStateError(
                "the session or connection is in a transaction already: end it first, or settle with transaction=…"
            )
        yield from self._shared.connection()
        handles.refuse_ends(*self._handles())
        return self

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return self._shared.execute(statement)

    def set_savepoint(self) -> Flow[None]:
        with translated():
            self._nested = yield self.handle.begin_nested

    def roll_back_to_savepoint(self) -> Flow[None]:
        with translated():
            yield self._nested.rollback

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        connection = yield from self._shared.connection()
        driver = _driver_of(connection)
        handles.require_open(driver, connection)
        if last is None:
            yield from require_success(driver, connection, self)
        else:
            yield from self.execute(last)
        handles.allow_ends(*self._handles())
        with translated():
            if isinstance(self.handle, Session | AsyncSession):
                yield self.handle.flush  # the work's own statements, which have no deadline
            with self._shared.limited(self._deadlines.begin()):
                yield self.handle.commit

    @property
    def is_open(self) -> bool:
        return bool(self.handle.in_transaction())

    can_commit_and_begin = False

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        yield from self.commit(last)
        return (yield from self.execute(first))

    def rollback(self) -> Flow[None]:
        handles.allow_ends(*self._handles())
        with translated(), self._shared.limited(self._deadlines.last_step()):
            yield from self._shared.give_up_if_busy()
            last = self._shared.last_connection
            try:
                yield self.handle.rollback
            except BaseException:
                yield from self._shared.give_up(last)
                raise

    def release(self) -> Flow[None]:
        handles.allow_ends(*self._handles())
        if self._owned:
            yield self.handle.close

    def _handles(self) -> Sequence[Any]:
        """The synchronous objects that can end the transaction, also those behind asynchronous ones."""
        owner = self.handle.sync_session if isinstance(self.handle, AsyncSession) else None
        owner = self.handle if isinstance(self.handle, Session) else owner
        return [each for each in (owner, self._shared.known_connection) if each is not None]


class EngineSource(NotifyListenerOwner):
    """A SQLAlchemy engine over psycopg."""

    pipelines = cursors.PIPELINES
    _the_parents: Pool | None = None
    #: The parameters of its first connection: a ``creator`` or ``connect_args`` may add to those of the URL.
    _beside: Mapping[str, Any] | None = None

    def __init__(self, engine: AnyOwner, timeout: float) -> None:
        self.timeout = timeout
        self._deadlines = Deadlines(timeout)
        if engine.dialect.driver != "psycopg":
            raise UnsupportedSourceError(
                f"a client runs its own statements on psycopg, and the engine uses the driver {engine.dialect.driver}:"
                " create it with postgresql+psycopg://, or give the client a DSN"
            )
        self._engine = engine

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        if _has_connections(self._engine.pool):
            self._the_parents = self._engine.pool

    @property
    def conninfo(self) -> str:  # type: ignore[override]  # readers see a property as an attribute
        url = self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        parameters: dict[str, Any] = {**(self._beside or {}), **conninfo_to_dict(url)}
        return make_conninfo(**parameters)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        """One round trip: in autocommit mode the statement is the transaction."""
        until = self._deadlines.begin(statement)
        connection, driver = yield from self._take(until)
        try:
            with self._deadlines.limited(driver, until):
                return (yield from cursors.execute(driver, statement))
        except BaseException:
            yield from end_statement(driver)
            raise
        finally:
            yield connection.close

    def begin(self) -> Flow[Begun]:
        return begin_on(self._connect, self._deadlines)

    def line(self) -> Flow[Line]:
        until = self._deadlines.begin()
        connection, driver = yield from self._take(until)
        return ConnectionLine(driver, connection.close, self._deadlines, until)

    def close(self) -> Flow[None]:
        """The engine is the caller's, and stays open."""
        yield self.stop_listening

    def _take(self, until: float) -> Flow[tuple[AnyOwner, Any]]:
        """A connection in autocommit mode, and its psycopg connection."""
        with translated():
            connection = yield partial(self._connect, until)
        try:
            with translated():
                yield partial(connection.execution_options, isolation_level="AUTOCOMMIT")
                driver = yield from _connection_below(connection)
            if self._beside is None:
                found = {**driver.info.get_parameters(), "password": driver.info.password}
                self._beside = {name: value for name, value in found.items() if value and name not in OF_ONE_ATTEMPT}
            return connection, driver
        except BaseException:
            yield connection.close
            raise

    def _connect(self, until: float) -> Any:
        if self._the_parents is not None and self._the_parents is self._engine.pool:
            raise InvalidStateError(
                "this client's engine has connections opened before the fork: call engine.dispose(close=False) in"
                " this process, or create an engine here and make a client of that"
            )
        return engines.connect(self._engine, until)


class SessionSource:
    """Sessions of a private engine, over that many connections. Nothing of their work stays on a connection."""

    def __init__(self, conninfo: str, size: int, timeout: float, *, asynchronous: bool) -> None:
        conninfo = connections.with_timeouts(conninfo, timeout)
        self._deadlines = Deadlines(timeout)
        pool: dict[str, Any] = {"pool_size": size, "max_overflow": -1, "pool_reset_on_return": None}
        self._maker: Callable[[], AnyOwner]
        if asynchronous:

            async def connect() -> psycopg.AsyncConnection[Any]:
                return forking.detach_after_fork(await psycopg.AsyncConnection.connect(conninfo))

            self._engine: Any = create_async_engine(DIALECT, async_creator=connect, **pool)
            self._maker = async_sessionmaker(self._engine)
        else:
            self._engine = create_engine(
                DIALECT, creator=lambda: forking.detach_after_fork(psycopg.connect(conninfo)), **pool
            )
            self._maker = sessionmaker(self._engine)
        sync = self._engine.sync_engine if asynchronous else self._engine
        event.listen(sync, "checkout", _check_out)
        event.listen(sync, "reset", _reset)

    def begin(self) -> Flow[Begun]:
        return begin_new(self._maker, self._deadlines)

    def close(self) -> Flow[None]:
        yield self._engine.dispose


def _check_out(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    driver = record.driver_connection
    if connections.is_broken(driver):
        raise InvalidatePoolError
    record.info[BEFORE] = handles.Attributes(driver)


def _reset(connection: Any, record: ConnectionPoolEntry, state: PoolResetState) -> None:
    """Undo what work has left on a connection, in the round trip that a ping would take; an error closes it."""
    driver = record.driver_connection
    if driver is None or driver.closed or state.terminate_only:
        return
    handles.require_free(PSYCOPG, driver)
    connections.refuse_a_pipeline(driver)
    is_open = driver.info.transaction_status != TransactionStatus.IDLE
    before = record.info[BEFORE]
    reset = partial(cursors.run, commands=["rollback", *before.reset] if is_open else before.reset)
    if isinstance(connection, AdaptedConnection):
        connection.run_async(reset)
    else:
        reset(connection)
    before.restore(driver)


def begin_on(connect: Callable[[float], AnyOwner], deadlines: Deadlines) -> Flow[Begun]:
    """Begin a transaction on a connection of an engine."""
    with connecting():
        connection = yield partial(connect, deadlines.begin())
    begun = BegunOwner(connection, deadlines, owned=True)
    try:
        return (yield from begun.begin())
    except BaseException:
        yield from begun.release()
        raise


def begin_new(maker: Callable[[], AnyOwner], deadlines: Deadlines) -> Flow[Begun]:
    """Begin a transaction in a new session of a session maker."""
    begun = BegunOwner(maker(), deadlines, owned=True)
    try:
        return (yield from begun.begin())
    except BaseException:
        yield from begun.release()
        raise


def _has_connections(pool: Pool) -> bool:
    """Whether this process has opened connections. Takes no lock: a parent's thread may have held it at the fork."""
    if isinstance(pool, QueuePool) and pool.size():
        return pool.size() + pool.overflow() > 0
    return not isinstance(pool, NullPool)


def _sync(connection: AnyOwner) -> Connection:
    sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    assert isinstance(sync, Connection)
    return sync


def _connection_below(connection: AnyOwner) -> Flow[Any]:
    """The connection of the driver below one of SQLAlchemy.

    Raises:
        UnsupportedSourceError: it is of another driver.
    """
    is_asynchronous = isinstance(connection, AsyncConnection)
    below = (yield connection.get_raw_connection) if is_asynchronous else connection.connection
    below = below.driver_connection
    if not drivers.is_of(below, asynchronous=is_asynchronous):
        raise UnsupportedSourceError(
            f"the session or connection uses {type(below).__module__.partition('.')[0]}: create its engine with"
            f" {drivers.urls(asynchronous=is_asynchronous)}"
        )
    return below


def _commits_by_itself(connection: Connection) -> bool:
    adapted: Any = connection.connection.dbapi_connection
    return bool(adapted.autocommit)


def _driver_of(connection: Any) -> Driver:
    driver = drivers.driver_of(connection)
    assert driver is not None, "others are refused"
    return driver
