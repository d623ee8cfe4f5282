"""Observes how transactions of a SQLAlchemy connection end, for the deliveries that are settled in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from psycopg.pq import TransactionStatus
from sqlalchemy import event, text
from sqlalchemy.engine import Connection, ExceptionContext
from sqlalchemy.exc import DBAPIError

from pgqueue.errors import ConnectionLostError, error_class, sqlstate_of
from pgqueue.model.context import Event, ReceiveContext
from pgqueue.statements.statement import as_text
from pgqueue.transports import drivers
from pgqueue.transports.translation import FAILED_TRANSACTION

#: SQL text that may end a transaction, or a part of it. A false match only costs a query.
ENDS = re.compile(r"\b(?:rollback|abort|commit|prepare\s+transaction)\b|(?:^|;|\*/|\n)\s*end\b", re.IGNORECASE)

UNDONE = text(
    "select cast(id as text) from unnest(cast(cast(:ids as text) as xid8[])) as id where pg_xact_status(id) = 'aborted'"
)


@dataclass(frozen=True)
class Follower:
    """Deliveries that are settled in a transaction, and the savepoints that were open then.

    A delivery whose outcome is already known, because the database was asked, may be part of another transaction by
    now.
    """

    contexts: Sequence[ReceiveContext]
    transaction_ids: Sequence[str | None]
    enclosing: frozenset[str]

    def report(self, event: Event) -> None:
        for context in self._still_there():
            context.apply(event)

    def retract(self) -> None:
        for context in self._still_there():
            context.retract()

    def is_undone(self, undone: Collection[str]) -> bool:
        """Whether it is part of one of these transactions or savepoints."""
        return not set(undone).isdisjoint(self.transaction_ids)

    def _still_there(self) -> Iterator[ReceiveContext]:
        for context, transaction_id in zip(self.contexts, self.transaction_ids, strict=True):
            if context.transaction_id == transaction_id:
                yield context


class TransactionObserver:
    """Observes how the transactions of one SQLAlchemy connection end, and reports it to the deliveries in them.

    Rolling back a savepoint that was open at the settlement undoes the settlement; a later savepoint does not matter.
    SQLAlchemy reports no event when SQL text undoes something: after a statement that may end a transaction or a part
    of it, the database is asked before a commit. A prepared transaction is neither open nor over; its outcome is
    reported with its COMMIT.
    """

    #: The connection owns its observer, whose deliveries may lead back to it: a strong reference here would keep both.
    _of_connection: ClassVar[WeakKeyDictionary[Connection, ReferenceType[TransactionObserver]]] = WeakKeyDictionary()

    def __init__(self, connection: Connection) -> None:
        self._followers: list[Follower] = []
        self._prepared: dict[Any, list[Follower]] = {}
        self._announced: list[Follower] = []
        self._announced_prepared = False
        self._has_seen_an_end = False
        self._is_its_own_end = False
        event.listen(connection, "begin", self._on_begin)
        event.listen(connection, "begin_twophase", self._on_begin)
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "rollback", self._on_rollback)
        event.listen(connection, "rollback_savepoint", self._on_rollback_savepoint)
        event.listen(connection, "prepare_twophase", self._on_prepare)
        event.listen(connection, "commit_twophase", self._on_commit_twophase)
        event.listen(connection, "rollback_twophase", self._on_rollback_twophase)
        event.listen(connection, "after_cursor_execute", self._on_statement)
        if not event.contains(connection.engine, "handle_error", _on_error):
            event.listen(connection.engine, "handle_error", _on_error)

    @classmethod
    def of(cls, connection: Connection) -> TransactionObserver:
        observer = cls.known(connection)
        if observer is None:
            observer = cls(connection)
            cls._of_connection[connection] = ref(observer)
        return observer

    @classmethod
    def known(cls, connection: Connection | None) -> TransactionObserver | None:
        observer = None if connection is None else cls._of_connection.get(connection)
        return None if observer is None else observer()

    def follow(self, connection: Connection, contexts: Sequence[ReceiveContext]) -> None:
        transaction_ids = [context.transaction_id for context in contexts]
        self._followers.append(Follower(contexts, transaction_ids, _savepoints(connection)))

    def on_failure(self, *, undone: bool) -> None:
        """Takes back the outcome that was reported before a COMMIT that failed or was not answered.

        A prepared transaction stays prepared when its COMMIT is refused. A rollback to a savepoint that fails is no
        statement that is reported afterwards.
        """
        self._is_its_own_end = False
        announced, self._announced = self._announced, []
        for follower in announced:
            if undone and not self._announced_prepared:
                follower.report(Event.ABORTED)
            else:
                follower.retract()

    def _on_begin(self, connection: Connection, xid: Any = None) -> None:
        self._announced = []
        self._has_seen_an_end = False

    def _on_commit(self, connection: Connection) -> None:
        """SQLAlchemy calls this *before* it commits: if the COMMIT fails, the reported outcome is taken back.

        The COMMIT of a failed transaction commits nothing, without an error from PostgreSQL. If SQL text has ended the
        transaction, its outcome is unknown here.
        """
        followers = self._taken()
        with _pool_safe(connection):
            self._announce_commit(connection, followers)

    def _announce_commit(self, connection: Connection, followers: list[Follower]) -> None:
        if _has_failed(connection, followers):
            _apply_outcome(followers, Event.ABORTED)
        elif _status_of(connection) is TransactionStatus.INTRANS:
            undone = _undone(connection, followers) if self._has_seen_an_end else ()
            _apply_outcome([each for each in followers if each.is_undone(undone)], Event.ABORTED)
            self._announce([each for each in followers if not each.is_undone(undone)], prepared=False)

    def _on_rollback(self, connection: Connection) -> None:
        """A transaction that SQL text has already ended is not undone by this."""
        followers = self._taken()
        if not self._has_seen_an_end:
            _apply_outcome(followers, Event.ABORTED)

    def _on_rollback_savepoint(self, connection: Connection, name: str, context: None) -> None:
        self._is_its_own_end = True
        undone = [follower for follower in self._followers if name in follower.enclosing]
        self._followers = [follower for follower in self._followers if name not in follower.enclosing]
        _apply_outcome(undone, Event.ABORTED)

    def _on_prepare(self, connection: Connection, xid: Any) -> None:
        followers = self._taken()
        with _pool_safe(connection):
            has_failed = _has_failed(connection, followers)
        if has_failed:  # then PREPARE rolls back, without an error
            _apply_outcome(followers, Event.ABORTED)
        else:
            self._prepared[xid] = followers

    def _on_commit_twophase(self, connection: Connection, xid: Any, is_prepared: bool) -> None:
        if is_prepared:
            self._announce(self._prepared.pop(xid, []), prepared=True)
        else:
            self._on_commit(connection)

    def _on_rollback_twophase(self, connection: Connection, xid: Any, is_prepared: bool) -> None:
        """A prepared transaction stays prepared if its ROLLBACK fails: nothing is reported; the database is asked."""
        if is_prepared:
            self._prepared.pop(xid, None)
        else:
            self._on_rollback(connection)

    def _on_statement(self, connection: Connection, cursor: object, statement: str, *_: object) -> None:
        is_its_own, self._is_its_own_end = self._is_its_own_end, False
        if self._followers and not is_its_own and ENDS.search(statement):
            self._has_seen_an_end = True

    def _announce(self, followers: list[Follower], *, prepared: bool) -> None:
        self._announced, self._announced_prepared = followers, prepared
        _apply_outcome(followers, Event.COMMITTED)

    def _taken(self) -> list[Follower]:
        followers, self._followers = self._followers, []
        return followers


def _apply_outcome(followers: Sequence[Follower], outcome: Event) -> None:
    for follower in followers:
        follower.report(outcome)


def _on_error(failure: ExceptionContext) -> None:
    listener = TransactionObserver.known(failure.connection)
    if listener is not None:
        sqlstate = sqlstate_of(failure.original_exception)
        listener.on_failure(undone=sqlstate is not None and error_class(sqlstate) is not ConnectionLostError)


def connection_of(connection: Connection) -> Any:
    """The underlying connection of the driver."""
    return connection.connection.driver_connection


def _status_of(connection: Connection) -> TransactionStatus:
    """The status of the session's transaction, from the driver: SQLAlchemy may not know that it has failed."""
    below = connection_of(connection)
    driver = drivers.driver_of(below)
    assert driver is not None, "others are refused"
    return driver.status(below)


def _has_failed(connection: Connection, followers: Sequence[Follower]) -> bool:
    """Whether the open transaction has failed. Where the driver does not show it, the database refuses a statement."""
    driver = drivers.driver_of(connection_of(connection))
    if driver is None or driver.shows_failures or not followers:
        return _status_of(connection) is TransactionStatus.INERROR
    try:
        connection.exec_driver_sql("select 1")
    except DBAPIError as error:
        if sqlstate_of(error.orig) == FAILED_TRANSACTION:
            return True
        raise
    return False


@contextmanager
def _pool_safe(connection: Connection) -> Iterator[None]:
    """Close the connection on an error: SQLAlchemy takes its transaction for ended, and would lend it with it open."""
    try:
        yield
    except BaseException as failure:
        if not connection.closed and not connection.invalidated:
            connection.invalidate(failure)
        raise


def _undone(connection: Connection, followers: Sequence[Follower]) -> Collection[str]:
    """Ask in the transaction itself, before its commit, which parts of it were undone."""
    ids = [transaction_id for follower in followers for transaction_id in follower.transaction_ids]
    return connection.execute(UNDONE, {"ids": as_text(ids)}).scalars().all()


def _savepoints(connection: Connection) -> frozenset[str]:
    """The names of the open savepoints. Events do not help: a savepoint has no name yet when it is announced."""
    names, savepoint = set(), connection.get_nested_transaction()
    while savepoint is not None:
        names.add(savepoint._savepoint)  # noqa: SLF001 - SQLAlchemy has no public name of it
        savepoint = savepoint._previous_nested  # noqa: SLF001 - the same
    return frozenset(names)
