"""Handles: connections that an application works with in a transaction of ours, and what its work leaves on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from psycopg.pq import TransactionStatus

from pgqueue.errors import TransactionRequiredError, WrongTransactionError
from pgqueue.statements.statement import literal

if TYPE_CHECKING:
    from pgqueue.transports.drivers import Driver

#: A psycopg Connection or AsyncConnection, or a synchronous Session or Connection of SQLAlchemy.
AnyHandle = Any

#: Undoes what survives the end of a transaction: the settings go back to those of the DSN, the role and the database.
#: DISCARD ALL does not run together with other commands; it would also forget the statements that psycopg has prepared.
RESET: Sequence[str] = (
    "reset session authorization",  # and the role
    "reset all",
    "close all",
    "unlisten *",
    "discard temp",
    "discard sequences",
)

#: The same for its advisory locks. A SELECT takes the server as long as all the others.
UNLOCK = "select pg_catalog.pg_advisory_unlock_all()"

#: Settings that PgBouncer makes for a client: RESET ALL on its server's session returns to those of the database.
SET_BY_POOLERS = ("application_name", "client_encoding")
DEFAULTS = f"select name, reset_val from pg_catalog.pg_settings where name in {SET_BY_POOLERS}"

ENDS = ("commit", "rollback")

#: The attribute of a connection of ours in which they are kept.
KEPT = "_pgqueue_attributes"


def _refuse() -> NoReturn:
    raise TransactionRequiredError(
        "commit() and rollback() are refused here: this transaction is committed together with the settlement of its"
        " message. Raise an error to roll it back; undo a part of it with a savepoint: `with tx.transaction():` of"
        " psycopg, `with session.begin_nested():` of SQLAlchemy"
    )


def refuse_ends(*handles: AnyHandle) -> None:
    """Refuse to commit or roll back, as psycopg does inside of a ``transaction()`` block."""
    for handle in handles:
        handle.__dict__.update(dict.fromkeys(ENDS, _refuse))


def allow_ends(*handles: AnyHandle) -> None:
    for handle in handles:
        for name in ENDS:
            handle.__dict__.pop(name, None)


class Attributes:
    """The settings of a psycopg connection: row factory, cursor factory, adapters, callbacks and the like."""

    @classmethod
    def of_ours(cls, connection: AnyHandle) -> Attributes:
        """Those of a connection of our pools, which has them again after each transaction: they are read once."""
        kept: Attributes | None = connection.__dict__.get(KEPT)
        return kept or cls(connection, is_kept=True)

    def __init__(self, connection: AnyHandle, *, is_kept: bool = False) -> None:
        if is_kept:
            connection.__dict__[KEPT] = self
        self._own = dict(connection.__dict__)
        #: Lists of callbacks and the like, which change in place.
        self._lists = {name: value.copy() for name, value in self._own.items() if type(value) in (list, deque)}
        self._prepared = connection.prepare_threshold, connection.prepared_max
        self._set_by_poolers = {} if connection.closed else self._settings(connection)
        #: Whether RESET ALL alone gives them back, as it does without a pooler; None if that is not known.
        self.is_reset_enough: bool | None = None

    @property
    def reset(self) -> Sequence[str]:
        """Undoes what work has left in the session."""
        return (*self._reset, UNLOCK)

    @property
    def reset_alone(self) -> Sequence[str]:
        """The same for where a transaction follows, whose first statement releases advisory locks.

        The commands would be a part of it: it would have the isolation level that was set before them, and its rollback
        would undo them.
        """
        return ("begin", *self._reset, "commit")

    @property
    def _reset(self) -> Sequence[str]:
        settings = () if self.is_reset_enough else self._set_by_poolers.items()
        return (*RESET, *(f"set {name} = {literal(value)}" for name, value in settings))

    def compare(self, defaults: Sequence[tuple[str, str]]) -> None:
        """Take the values that RESET ALL gives to these settings."""
        self.is_reset_enough = dict(defaults) == self._set_by_poolers

    @staticmethod
    def _settings(connection: AnyHandle) -> dict[str, str | None]:
        return {name: connection.info.parameter_status(name) for name in SET_BY_POOLERS}

    def restore(self, connection: AnyHandle) -> None:
        """Give the connection back the attributes that it had before."""
        now = connection.__dict__
        for name in now.keys() - self._own.keys():
            del now[name]
        now.update(self._own)
        now.update({name: value.copy() for name, value in self._lists.items()})
        connection.prepare_threshold, connection.prepared_max = self._prepared


def require_free(driver: Driver, connection: AnyHandle) -> None:
    """Refuse a connection that is occupied.

    Raises:
        TransactionRequiredError: it is.
    """
    if driver.is_busy(connection):
        raise TransactionRequiredError(
            "a COPY, a stream or another thread still occupies the connection of this transaction"
        )


def require_open(driver: Driver, connection: AnyHandle) -> None:
    """Refuse to complete a message outside of the transaction that was begun for it.

    Raises:
        WrongTransactionError: SQL text has ended that transaction.
        TransactionRequiredError: the connection is occupied.
    """
    require_free(driver, connection)
    if driver.status(connection) == TransactionStatus.IDLE:
        raise WrongTransactionError(
            "the work has ended its transaction itself, so its message cannot be completed in it"
        )


def require_success(driver: Driver, connection: AnyHandle) -> None:
    """Refuse to commit a transaction that has failed: PostgreSQL would roll it back without an error.

    Raises:
        TransactionRequiredError: an error in it was ignored.
    """
    if driver.status(connection) == TransactionStatus.INERROR:
        raise TransactionRequiredError(
            "the transaction has failed, and is rolled back: its work has ignored an error of SQL"
        )
