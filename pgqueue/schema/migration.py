"""The migration itself: it loads SQLAlchemy and alembic, which only a database that is behind needs."""

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

from pgqueue.errors import OperationTimeoutError, TransactionConflictError
from pgqueue.schema import definitions, indexes, revisions
from pgqueue.schema.files import head
from pgqueue.schema.installed import in_our_words

logger = logging.getLogger("pgqueue.schema")

MIGRATION_LOCK = 0x7067_7175_6575_65  # "pgqueue"


def migrate(conninfo: str, lock_timeout: timedelta, attempts: int) -> str:
    """Migrate in one transaction, then build the indexes; tried again if a lock could not be had in time."""
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
    with in_our_words():
        indexes.build(conninfo, lock_timeout=lock_timeout)
    return revision


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
    with in_our_words():
        try:
            with engine.begin() as connection:
                connection.execute(text("set local search_path = pg_catalog, pg_temp"))
                yield connection
        except DBAPIError as error:
            raise error.orig or error from error
