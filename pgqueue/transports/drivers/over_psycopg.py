"""psycopg, synchronous and asynchronous."""

from __future__ import annotations

import select
from functools import partial
from typing import Any, TypeVar

from psycopg.pq import TransactionStatus

from pgqueue.errors import TransactionRequiredError
from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports import cursors
from pgqueue.transports.deadlines import Deadlines, Limited
from pgqueue.transports.drivers.driver import PREPARED
from pgqueue.transports.translation import translated

T = TypeVar("T")

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any


class OverPsycopg:
    """Connections of psycopg."""

    shows_failures = True

    def execute(self, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        return cursors.execute(connection, statement)

    def execute_under(self, owner: Any, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        """As :meth:`execute`: the driver begins the transaction."""
        return cursors.execute(connection, statement)

    def run(self, connection: AnyConnection, command: str) -> Flow[None]:
        with translated(connection):
            yield partial(connection.execute, command)

    def limited(self, deadlines: Deadlines, connection: AnyConnection, until: float) -> Limited:
        return deadlines.limited(connection, until)

    def require_transaction(self, connection: AnyConnection) -> None:
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise TransactionRequiredError(
                "the connection is in autocommit mode and has no transaction: use it inside `with conn.transaction():`"
            )

    def status(self, connection: AnyConnection) -> TransactionStatus:
        status: TransactionStatus = connection.info.transaction_status
        return status

    def is_closed(self, connection: AnyConnection) -> bool:
        return bool(connection.closed)

    def is_in_transaction(self, connection: AnyConnection) -> bool:
        """A connection with unread input from the server may be dead, and does not count.

        A psycopg block that finds its connection broken ends without an error.
        """
        if connection.closed or connection.info.transaction_status != TransactionStatus.INTRANS:
            return False
        return not has_pending_input(connection)

    def is_busy(self, connection: AnyConnection) -> bool:
        """A COPY, a stream or another thread may occupy it."""
        return connection.info.transaction_status == TransactionStatus.ACTIVE or bool(connection.lock.locked())

    def is_two_phase(self, connection: AnyConnection) -> bool:
        """Whether ``tpc_begin`` began the transaction; psycopg has no public attribute for it."""
        return getattr(connection, "_tpc", None) is not None

    def require_unprepared(self, connection: AnyConnection) -> None:
        if self.status(connection) == TransactionStatus.IDLE:
            raise TransactionRequiredError(PREPARED)


def has_pending_input(connection: AnyConnection) -> bool:
    """Whether the server has sent something that was not read yet, or has closed the connection."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return bool(poller.poll(0))
