"""The few things that transports need of a driver: of psycopg, psycopg2 and asyncpg."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from psycopg.pq import TransactionStatus

from pgqueue.flows import Flow
from pgqueue.statements import Statement
from pgqueue.transports.deadlines import Deadlines

T = TypeVar("T")

#: A connection of any driver.
AnyConnection = Any


class Transaction(Protocol):
    """A transaction of a driver that the library begins and ends."""

    def begin(self) -> Flow[None]: ...

    def commit(self) -> Flow[None]: ...

    def rollback(self) -> Flow[None]:
        """Roll back, whatever has become of the transaction."""


PREPARED = "the transaction is prepared: nothing more can be part of it, only end it"


class Driver(Protocol):
    """A driver of an application's connections. Its errors are raised as the library's."""

    #: Whether its status differs for a transaction that has failed.
    shows_failures: bool

    def execute(self, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        """One round trip."""

    def execute_under(self, owner: Any, connection: AnyConnection, statement: Statement[T]) -> Flow[T]:
        """The same in the transaction of a Connection of SQLAlchemy, which it begins if need be."""

    def run(self, connection: AnyConnection, command: str) -> Flow[None]:
        """Run a command without parameters and rows."""

    def limited(self, deadlines: Deadlines, connection: AnyConnection, until: float) -> AbstractContextManager[None]:
        """In this block, close the connection when the server has not answered by then."""

    def require_transaction(self, connection: AnyConnection) -> None:
        """Refuse a connection that would commit each statement by itself.

        Raises:
            TransactionRequiredError: it would.
        """

    def status(self, connection: AnyConnection) -> TransactionStatus:
        """The status of the session's transaction. UNKNOWN if the connection is closed."""

    def is_closed(self, connection: AnyConnection) -> bool: ...

    def is_in_transaction(self, connection: AnyConnection) -> bool:
        """Whether a statement can be run in an open transaction, as far as is known."""

    def is_busy(self, connection: AnyConnection) -> bool:
        """Whether something else occupies the connection, which we would wait for."""

    def is_two_phase(self, connection: AnyConnection) -> bool:
        """Whether the application has begun the transaction in order to prepare it."""

    def require_unprepared(self, connection: AnyConnection) -> None:
        """Refuse a connection whose two-phase transaction is already prepared.

        Raises:
            TransactionRequiredError: it is.
        """


class OtherDriver(Driver, Protocol):
    """Another driver than psycopg, for which :class:`~pgqueue.transports.connections.BegunConnection` is made."""

    def transaction(self, connection: AnyConnection) -> Transaction:
        """A transaction to be begun on a connection that has none."""
