"""How the transactions of a SQLAlchemy connection end, overheard for the deliveries that are settled in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import event
from sqlalchemy.engine import Connection, ExceptionContext

from pgqueue.errors import ConnectionLostError, error_class
from pgqueue.model.context import Event, ReceiveContext


@dataclass(frozen=True)
class Follower:
    """Deliveries that are settled in a transaction, and the savepoints that were open when they were.

    A delivery that knows already, because it has asked, may be part of another transaction by now.
    """

    contexts: Sequence[ReceiveContext]
    transaction_ids: Sequence[str | None]
    enclosing: frozenset[str]

    def tell(self, event: Event) -> None:
        for context in self._still_there():
            context.apply(event)

    def retract(self) -> None:
        for context in self._still_there():
            context.retract()

    def _still_there(self) -> Iterator[ReceiveContext]:
        for context, transaction_id in zip(self.contexts, self.transaction_ids, strict=True):
            if context.transaction_id == transaction_id:
                yield context


class Listener:
    """Overhears how the transactions of one SQLAlchemy connection end, and tells all deliveries that are part of them.

    A savepoint that was there before us and is rolled back undoes what we did; one that came later does not concern us.
    """

    _of_connection: ClassVar[WeakKeyDictionary[Connection, Listener]] = WeakKeyDictionary()

    def __init__(self, connection: Connection) -> None:
        self._followers: list[Follower] = []
        self._announced: list[Follower] = []
        event.listen(connection, "begin", self._on_begin)
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "rollback", self._on_rollback)
        event.listen(connection, "rollback_savepoint", self._on_rollback_savepoint)
        if not event.contains(connection.engine, "handle_error", _on_error):
            event.listen(connection.engine, "handle_error", _on_error)

    @classmethod
    def of(cls, connection: Connection) -> Listener:
        if connection not in cls._of_connection:
            cls._of_connection[connection] = cls(connection)
        return cls._of_connection[connection]

    @classmethod
    def known(cls, connection: Connection | None) -> Listener | None:
        return None if connection is None else cls._of_connection.get(connection)

    def follow(self, connection: Connection, contexts: Sequence[ReceiveContext]) -> None:
        transaction_ids = [context.transaction_id for context in contexts]
        self._followers.append(Follower(contexts, transaction_ids, _savepoints(connection)))

    def take_back(self, *, undone: bool) -> None:
        """The COMMIT that was announced has failed: refused by the database, or not answered."""
        announced, self._announced = self._announced, []
        for follower in announced:
            if undone:
                follower.tell(Event.ABORTED)
            else:
                follower.retract()

    def _on_begin(self, connection: Connection) -> None:
        self._announced = []

    def _on_commit(self, connection: Connection) -> None:
        """SQLAlchemy says so *before* it commits: if that fails, what we tell here is taken back.

        A transaction that has failed commits nothing, and PostgreSQL does not call that an error.
        """
        if has_failed(connection):
            self._end(Event.ABORTED)
        else:
            self._announced = self._end(Event.COMMITTED)

    def _on_rollback(self, connection: Connection) -> None:
        self._end(Event.ABORTED)

    def _end(self, outcome: Event) -> list[Follower]:
        followers, self._followers = self._followers, []
        for follower in followers:
            follower.tell(outcome)
        return followers

    def _on_rollback_savepoint(self, connection: Connection, name: str, context: None) -> None:
        undone = [follower for follower in self._followers if name in follower.enclosing]
        self._followers = [follower for follower in self._followers if name not in follower.enclosing]
        for follower in undone:
            follower.tell(Event.ABORTED)


def _on_error(failure: ExceptionContext) -> None:
    listener = Listener.known(failure.connection)
    if listener is not None:
        sqlstate = getattr(failure.original_exception, "sqlstate", None)
        listener.take_back(undone=sqlstate is not None and error_class(sqlstate) is not ConnectionLostError)


def has_failed(connection: Connection) -> bool:
    """Whether the transaction can only be rolled back, which SQLAlchemy need not know."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection | psycopg.AsyncConnection)
    return driver.info.transaction_status == TransactionStatus.INERROR


def _savepoints(connection: Connection) -> frozenset[str]:
    """The names of the savepoints that are open. Events cannot tell: one that is announced has no name yet."""
    names, savepoint = set(), connection.get_nested_transaction()
    while savepoint is not None:
        names.add(savepoint._savepoint)
        savepoint = savepoint._previous_nested
    return frozenset(names)
