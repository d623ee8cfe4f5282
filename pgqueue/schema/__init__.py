"""Bringing a database to this version of pgqueue: its tables by revision, its functions and views as a whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import psycopg
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from tenacity import (
    RetryError,
    Retrying,
    before_sleep_log,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random,
)

from pgqueue.errors import (
    ConnectionLostError,
    OperationTimeoutError,
    PGQueueError,
    TransactionConflictError,
    error_class,
)
from pgqueue.schema import definitions, indexes, revisions
from pgqueue.schema.revisions import head as head

logger = logging.getLogger("pgqueue.schema")

MIGRATION_LOCK = 0x7067_7175_6575_65  # "pgqueue"


def migrate(conninfo: str, *, lock_timeout: timedelta = timedelta(seconds=5), attempts: int = 5) -> str:
    """Bring the database to head and return the revision it is at: all in one transaction, but for indexes on tables
    that may be large, which are built while everybody works.

    Any number of processes may do this at once: one works, the others find it done. Where a lock is not to be had
    within ``lock_timeout`` everything is rolled back, so that applications are not held up, and tried again.
    """
    trials = Retrying(
        retry=retry_if_exception_type(TransactionConflictError),
        stop=stop_after_attempt(attempts),
        wait=wait_random(max=0.5),
        before_sleep=before_sleep_log(logger, logging.INFO),
    )
    try:
        revision = trials(_migrate_once, conninfo, lock_timeout)
    except RetryError as error:
        raise OperationTimeoutError(
            f"the schema was not migrated: {attempts} times, a lock was not to be had within"
            f" {lock_timeout.total_seconds():g} s. Look for old transactions in pg_stat_activity."
        ) from error.last_attempt.exception()
    with _our_words():
        indexes.build(conninfo, lock_timeout=lock_timeout)
    return revision


def current(conninfo: str) -> str | None:
    """The revision that the database is at; None where pgqueue was never installed."""
    with _transaction(conninfo) as connection:
        return revisions.current(connection)


def _migrate_once(conninfo: str, lock_timeout: timedelta) -> str:
    with _transaction(conninfo) as connection:
        milliseconds = round(lock_timeout.total_seconds() * 1000)
        connection.execute(text("select set_config('lock_timeout', :timeout, true)"), {"timeout": str(milliseconds)})
        if _is_done(connection):
            return head()
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        if _is_done(connection):
            return head()
        revisions.upgrade(connection)
        definitions.replace_all(connection)
        logger.info("migrated to revision %s", head())
        return head()


def _is_done(connection: Connection) -> bool:
    revision = revisions.current(connection)
    revisions.refuse_unknown(revision)
    return revision == head() and definitions.are_current(connection)


@contextmanager
def _transaction(conninfo: str) -> Iterator[Connection]:
    connect = partial(psycopg.connect, conninfo, prepare_threshold=None)  # what is done once is not worth preparing
    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
    with _our_words(), engine.begin() as connection:
        yield connection


@contextmanager
def _our_words() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        raise _in_our_words(error) from error


def _in_our_words(error: DBAPIError | psycopg.Error) -> PGQueueError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    sqlstate = getattr(cause, "sqlstate", None)
    unreachable = sqlstate is None and isinstance(cause, psycopg.OperationalError)
    kind = error_class(sqlstate) or (ConnectionLostError if unreachable else PGQueueError)
    return kind(str(cause), sqlstate=sqlstate)
