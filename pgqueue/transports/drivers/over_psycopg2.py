"""psycopg2. Imported only when the application has a connection of it."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import psycopg2
from psycopg.pq import TransactionStatus
from psycopg2 import extensions

from pgqueue.errors import InvalidStateError, PGQueueError, ReadOnlyError, TransactionRequiredError
from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.drivers import records
from pgqueue.transports.drivers.cut_off import cut_off
from pgqueue.transports.drivers.driver import PREPARED
from pgqueue.transports.drivers.over_psycopg import has_pending_input
from pgqueue.transports.drivers.watch import WATCH
from pgqueue.transports.translation import Refusal, lost, refusal

T = TypeVar("T")

CONNECTION = extensions.connection
ERROR = psycopg2.Error

#: A connection of psycopg2.
AnyConnection = Any

#: The global id of the transactions that we begin as if they were to be prepared.
OURS = "pgqueue"


@contextmanager
def translated(connection: AnyConnection) -> Iterator[None]:
    """Raise the library's error in place of psycopg2's, which becomes its cause."""
    try:
        yield
    except psycopg2.Error as error:
        translation = translate(error)
        if isinstance(translation, ReadOnlyError) and not connection.closed:
            translation.is_transient = connection.get_parameter_status("in_hot_standby") == "on"
        raise translation from error


def translate(error: psycopg2.Error) -> PGQueueError:
    """The library's error for one of psycopg2."""
    text, diag = str(error).strip(), error.diag
    if error.pgcode is None and isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return lost(text)
    return refusal(Refusal(text, error.pgcode, diag.message_primary, diag.message_detail, diag.message_hint))


class Psycopg2Transaction:
    """A transaction in which psycopg2 refuses ``commit()`` and ``rollback()``: it was begun for two-phase commit.

    The method ``tpc_commit()`` of one that was not prepared is a COMMIT.
    """

    def __init__(self, connection: AnyConnection) -> None:
        self._connection = connection
        self._autocommit = connection.autocommit
        self._has_begun = False

    def begin(self) -> Flow[None]:
        if DRIVER.is_two_phase(self._connection):
            raise InvalidStateError("the connection has a transaction that is prepared: end it first")
        with translated(self._connection):
            if self._autocommit:
                self._connection.autocommit = False
            yield partial(self._connection.tpc_begin, self._connection.xid(0, OURS, ""))
            self._has_begun = True

    def commit(self) -> Flow[None]:
        with translated(self._connection):
            yield self._connection.tpc_commit
            self._restore()

    def rollback(self) -> Flow[None]:
        """A COMMIT that has failed has ended the transaction, but psycopg2 goes on refusing until another has ended."""
        with translated(self._connection):
            if any(xid.gtrid == OURS for xid in _xids(self._connection)):
                if self._connection.status == extensions.STATUS_READY:
                    yield partial(self._connection.tpc_begin, self._connection.xid(0, OURS, ""))
                yield self._connection.tpc_rollback
            elif self._has_begun and DRIVER.status(self._connection) != TransactionStatus.IDLE:
                # of work that has ended ours by a method
                yield self._connection.rollback
            self._restore()

    def _restore(self) -> None:
        if self._autocommit:
            self._connection.autocommit = True


class OverPsycopg2:
    """Connections of psycopg2. Parameters are a part of the SQL, as in psycopg2 itself."""

    shows_failures = True

    def execute(self, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        sql = records.with_literals(statement)
        with translated(connection):
            rows = yield partial(_fetched, connection, sql)
            encoding = connection.get_parameter_status("client_encoding")
        return records.read(statement, rows, encoding)

    def execute_under(self, owner: Any, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        """As :meth:`execute`: the driver begins the transaction."""
        return self.execute(connection, statement)

    def run(self, connection: AnyConnection, command: str) -> Flow[None]:
        with translated(connection):
            yield partial(_run, connection, command)

    def transaction(self, connection: AnyConnection) -> Psycopg2Transaction:
        return Psycopg2Transaction(connection)

    def limited(self, deadlines: Deadlines, connection: AnyConnection, until: float) -> AbstractContextManager[None]:
        return cut_off(until, WATCH.call_later, partial(_cut, connection))

    def require_transaction(self, connection: AnyConnection) -> None:
        if connection.async_:
            raise TransactionRequiredError(
                "the connection of psycopg2 was made with async_=True, and has no transactions: use a synchronous one"
            )
        if connection.autocommit and self.status(connection) == TransactionStatus.IDLE:
            raise TransactionRequiredError(
                "the connection is in autocommit mode and has no transaction: set conn.autocommit = False"
            )

    def status(self, connection: AnyConnection) -> TransactionStatus:
        return TransactionStatus.UNKNOWN if connection.closed else TransactionStatus(connection.info.transaction_status)

    def is_closed(self, connection: AnyConnection) -> bool:
        return bool(connection.closed)

    def is_in_transaction(self, connection: AnyConnection) -> bool:
        return self.status(connection) == TransactionStatus.INTRANS and not has_pending_input(connection)

    def is_busy(self, connection: AnyConnection) -> bool:
        return self.status(connection) == TransactionStatus.ACTIVE

    def is_two_phase(self, connection: AnyConnection) -> bool:
        return any(xid.gtrid != OURS for xid in _xids(connection))

    def require_unprepared(self, connection: AnyConnection) -> None:
        if self.status(connection) == TransactionStatus.IDLE:
            raise TransactionRequiredError(PREPARED)


DRIVER = OverPsycopg2()


def _xids(connection: AnyConnection) -> list[Any]:
    """The id of a transaction that ``tpc_begin`` began: a connection refers to it, but has no attribute for it."""
    return [each for each in gc.get_referents(connection) if isinstance(each, extensions.Xid)]


def _run(connection: AnyConnection, command: str | bytes) -> None:
    with extensions.cursor(connection) as cursor:
        cursor.execute(command)


def _fetched(connection: AnyConnection, sql: bytes) -> list[str]:
    """The rows by a plain cursor, not by one of the connection's cursor factory."""
    with extensions.cursor(connection) as cursor:
        cursor.execute(sql)
        return [packed for (packed,) in cursor.fetchall()]


def _cut(connection: AnyConnection) -> None:
    """Close the socket for both sides: libpq, which waits for the server, finds the connection lost."""
    with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(connection.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
