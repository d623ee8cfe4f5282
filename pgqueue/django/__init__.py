"""Django: messages in the transaction of ``atomic()``, the schema by ``manage.py migrate``, commands, and admin pages.

Add ``"pgqueue.django"`` to ``INSTALLED_APPS``. The setting ``PGQUEUE_SCHEMA`` names the schema of pgqueue, if it is
another than ``pgqueue``. Needs the extra ``pgqueue-tx[django]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections
from django.db.transaction import atomic
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from pgqueue import QueueClient, ReceivedMessage
from pgqueue.django.following import ClientOfSource, FollowingSource
from pgqueue.errors import InvalidArgumentError, PGQueueError, SettlementUndoneError, TransactionRequiredError
from pgqueue.transports.dsn import as_role

__all__ = ["client", "completing", "dsn", "transaction"]


def transaction(using: str = DEFAULT_DB_ALIAS) -> psycopg.Connection[Any]:
    """Returns the connection of the ``atomic()`` block that you are in, to pass as ``transaction=``.

    Raises:
        TransactionRequiredError: no block is open, so that each statement would be committed by itself.
        InvalidArgumentError: the database is not PostgreSQL, or its driver is not psycopg 3.
    """
    connection = connections[using]
    if connection.get_autocommit():
        raise TransactionRequiredError(
            f"no transaction is open on the database {using!r}: use it inside"
            f" `with transaction.atomic(using={using!r}):`"
        )
    connection.validate_no_broken_transaction()
    return driver_connection(using)


@contextmanager
def completing(message: ReceivedMessage[Any], *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """An ``atomic()`` block that completes a message: your work and the completion are committed together.

    The message is completed first, so work never begins on one whose lock is lost. An exception rolls both back and
    leaves the message received and locked.

    Raises:
        LockLostError: another receiver has the message; the block is not run.
        SettlementUndoneError: the block ended without an exception, and has to be rolled back: it swallowed a database
            error, or called ``set_rollback(True)``.
    """
    with _settling(message, using):
        message.complete(transaction=transaction(using))
        yield
        _refuse_a_rollback(using)


@contextmanager
def completing_with(message: ReceivedMessage[Any], result: Callable[[], Any], using: str) -> Iterator[None]:
    """As :func:`completing`, with a result that is known at the end of the block. The lock is proved before."""
    with _settling(message, using):
        message.renew_lock(transaction=transaction(using))
        yield
        _refuse_a_rollback(using)
        message.complete(result=result(), transaction=transaction(using))


@contextmanager
def _settling(message: ReceivedMessage[Any], using: str) -> Iterator[None]:
    """An ``atomic()`` block that settles a message."""
    is_outermost = not connections[using].in_atomic_block
    if is_outermost:
        close_old_connections()
    try:
        with atomic(using=using):
            yield
    except BaseException:
        if is_outermost:  # Django does not report how the block ended, and a worker wants to abandon the message
            with suppress(PGQueueError):
                message.resolve()
        raise


def _refuse_a_rollback(using: str) -> None:
    """Refuse the end of a block that Django, or the database, would roll back in silence."""
    connection = connections[using]
    if connection.get_rollback() or connection.connection.info.transaction_status == TransactionStatus.INERROR:
        raise SettlementUndoneError(
            "the block that completes the message has to be rolled back, and has raised no error: it swallowed one of"
            " the database, or called set_rollback(True); wrap what may fail in an inner atomic()"
        )


@cache
def client(using: str = DEFAULT_DB_ALIAS) -> QueueClient:
    """Returns the client of a database in ``DATABASES``, with a pool of its own; always the same.

    It follows the settings of the database: in tests it works on the test database. :meth:`~pgqueue.QueueClient.close`
    closes its connections, and the next call opens others.

    Raises:
        InvalidArgumentError: the database is not PostgreSQL.
    """
    require_postgresql(using)
    return ClientOfSource(FollowingSource(using, dsn))


def dsn(using: str = DEFAULT_DB_ALIAS) -> str:
    """Returns the DSN of a database in ``DATABASES``; its connections take on the role that ``assume_role`` names.

    Raises:
        InvalidArgumentError: the database is not PostgreSQL.
    """
    require_postgresql(using)
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    parameters = connections[using].get_connection_params()
    named = make_conninfo(**{name: value for name, value in parameters.items() if name in known})
    role = connections[using].settings_dict["OPTIONS"].get("assume_role")
    return as_role(named, role) if role else named


def driver_connection(using: str) -> psycopg.Connection[Any]:
    """The connection of psycopg that Django uses in this thread."""
    require_postgresql(using)
    connections[using].ensure_connection()
    connection = connections[using].connection
    if not isinstance(connection, psycopg.Connection):
        raise InvalidArgumentError(
            f"the database {using!r} is used over psycopg2: install psycopg 3, Django prefers it"
        )
    return connection


def require_postgresql(using: str) -> None:
    """Refuse a database of another kind."""
    if connections[using].vendor != "postgresql":
        raise InvalidArgumentError(
            f"the database {using!r} is not PostgreSQL: name another by using=, and route the app pgqueue to it"
        )
