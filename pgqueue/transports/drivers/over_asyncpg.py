"""asyncpg. Imported only when the application has a connection or a pool of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

import asyncpg
from psycopg.pq import TransactionStatus

from pgqueue.errors import (
    InvalidArgumentError,
    InvalidStateError,
    OperationTimeoutError,
    PGQueueError,
    ReadOnlyError,
    TransactionRequiredError,
)
from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.drivers import records
from pgqueue.transports.drivers.cut_off import cut_off
from pgqueue.transports.drivers.driver import PREPARED
from pgqueue.transports.translation import Refusal, lost, refusal

T = TypeVar("T")

#: Also of connections that a pool has lent.
CONNECTION = asyncpg.Connection
POOL = asyncpg.Pool
ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError)

#: Options of SQLAlchemy, in place of those of the application's connection.
UNSTREAMED = {"stream_results": False, "yield_per": None}

#: A connection of asyncpg.
AnyConnection = Any


@contextmanager
def translated(connection: AnyConnection = None) -> Iterator[None]:
    """Raise the library's error in place of asyncpg's or the socket's, which becomes its cause."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, UnicodeEncodeError) as error:
        translation = translate(error)
        if isinstance(translation, ReadOnlyError) and connection is not None:
            translation.is_transient = getattr(connection.get_settings(), "in_hot_standby", None) == "on"
        raise translation from error


def translate(error: Exception) -> PGQueueError:
    """The library's error for one of asyncpg, or of the socket below it."""
    text = str(error)
    match error:
        case asyncpg.PostgresError() if error.message is not None:
            return refusal(Refusal(text, error.sqlstate, error.message, error.detail, error.hint))
        case asyncpg.exceptions.DataError() | UnicodeEncodeError():
            return InvalidArgumentError(text)
        case asyncpg.InterfaceError() if "another operation" in text:
            return TransactionRequiredError("another task, or a COPY, occupies the connection of this transaction")
        case asyncpg.InterfaceError() if "closed" not in text and "released" not in text:
            return InvalidStateError(text)
        case TimeoutError():  # asyncpg asks the server to cancel the statement, which may have been carried out
            return lost("asyncpg got no answer within its command_timeout")
    return lost(text or type(error).__name__)


def acquire(pool: Any, seconds: float) -> Flow[AnyConnection]:
    """Take a connection of a pool.

    Raises:
        OperationTimeoutError: none was free in time.
    """
    with translated():
        try:
            return (yield partial(pool.acquire, timeout=None if seconds == inf else seconds))
        except TimeoutError as error:
            raise OperationTimeoutError("the connection pool has no free connection") from error


class AsyncpgTransaction:
    """A transaction of a connection. No method of the connection ends it; one that the work begins is a savepoint."""

    def __init__(self, connection: AnyConnection) -> None:
        self._connection = connection
        self._transaction: Any = None

    def begin(self) -> Flow[None]:
        """After an interruption the connection is closed: asyncpg would make savepoints of its later transactions."""
        with translated(self._connection):
            self._transaction = self._connection.transaction()
            try:
                yield self._transaction.start
            except BaseException as error:
                if not isinstance(error, ERRORS):
                    _terminate(self._connection)
                elif not DRIVER.is_closed(self._connection):
                    _forget(self._connection, self._transaction)
                raise

    def commit(self) -> Flow[None]:
        with translated(self._connection):
            yield self._transaction.commit

    def rollback(self) -> Flow[None]:
        """A COMMIT or ROLLBACK that failed or was cancelled may have left the transaction open.

        If it cannot be ended, because another task occupies the connection, the connection is closed.
        """
        with translated(self._connection):
            try:
                try:
                    yield self._transaction.rollback
                except asyncpg.InterfaceError:
                    if DRIVER.status(self._connection) == TransactionStatus.INTRANS:
                        yield partial(self._connection.execute, "rollback")
            except BaseException:
                _terminate(self._connection)
                raise


class OverAsyncpg:
    """Connections of asyncpg."""

    #: It has one status for a transaction, whether that has failed or not.
    shows_failures = False

    def execute(self, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        sql, values = _written(connection, statement)
        with translated(connection):
            rows = yield partial(connection.fetch, sql, *values, record_class=asyncpg.Record)
            encoding = _encoding(connection)
        return records.read(statement, [packed for (packed,) in rows], encoding)

    def execute_under(self, owner: Any, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        """SQLAlchemy begins the transaction of asyncpg with the first statement that it runs itself."""
        with translated(connection):
            if not connection.is_in_transaction():
                yield partial(owner.exec_driver_sql, "select 1", None, UNSTREAMED)
            if not connection.is_in_transaction():
                raise TransactionRequiredError(f"SQL text has ended the transaction, or {PREPARED}")
            sql, values = _written(connection, statement)
            rows = (yield partial(owner.exec_driver_sql, sql, tuple(values), UNSTREAMED)).scalars().all()
            encoding = _encoding(connection)
        return records.read(statement, rows, encoding)

    def run(self, connection: AnyConnection, command: str) -> Flow[None]:
        with translated(connection):
            yield partial(connection.execute, command)

    def transaction(self, connection: AnyConnection) -> AsyncpgTransaction:
        return AsyncpgTransaction(connection)

    def limited(self, deadlines: Deadlines, connection: AnyConnection, until: float) -> AbstractContextManager[None]:
        return cut_off(until, asyncio.get_running_loop().call_later, partial(_terminate, connection))

    def require_transaction(self, connection: AnyConnection) -> None:
        if self.status(connection) == TransactionStatus.IDLE:
            raise TransactionRequiredError(
                "the connection is in autocommit mode and has no transaction: use it inside"
                " `async with conn.transaction():`"
            )

    def status(self, connection: AnyConnection) -> TransactionStatus:
        if self.is_closed(connection):
            return TransactionStatus.UNKNOWN
        return TransactionStatus.INTRANS if connection.is_in_transaction() else TransactionStatus.IDLE

    def is_closed(self, connection: AnyConnection) -> bool:
        try:
            return bool(connection.is_closed())
        except asyncpg.InterfaceError:  # its pool has it again
            return True

    def is_in_transaction(self, connection: AnyConnection) -> bool:
        return self.status(connection) == TransactionStatus.INTRANS

    def is_busy(self, connection: AnyConnection) -> bool:
        """Never: on an occupied connection asyncpg raises an error instead of waiting."""
        return False

    def is_two_phase(self, connection: AnyConnection) -> bool:
        """Never: there are no methods for it."""
        return False

    def require_unprepared(self, connection: AnyConnection) -> None:
        """Does nothing: SQLAlchemy begins late, so only :meth:`execute_under` knows."""


DRIVER = OverAsyncpg()


def _written(connection: AnyConnection, statement: Statement[Any]) -> tuple[str, list[str | None]]:
    """The SQL and its parameters; these are a part of it where the client's encoding may lack a character of them."""
    if DRIVER.is_closed(connection) or _encoding(connection) in ("UTF8", "UNICODE"):
        return records.with_numbers(statement)
    return records.with_literals(statement).decode("ascii"), []


def _encoding(connection: AnyConnection) -> str:
    """The encoding of the client. PgBouncer reports it in the quotes that asyncpg sends it in."""
    return str(connection.get_settings().client_encoding).strip("'")


def _forget(connection: AnyConnection, transaction: Any) -> None:
    """Forget a transaction whose BEGIN was refused: asyncpg would make savepoints of the later ones."""
    below: Any = getattr(connection, "_con", connection)  # of a pool's proxy
    if below._top_xact is transaction:  # noqa: SLF001 - asyncpg has no public way
        below._top_xact = None  # noqa: SLF001 - the same


def _terminate(connection: AnyConnection) -> None:
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
