"""The migration itself: it loads SQLAlchemy and alembic, which only a database that is behind needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, event, text
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
    AccessDeniedError,
    InvalidArgumentError,
    OperationTimeoutError,
    TransactionConflictError,
    TransactionRequiredError,
)
from pgqueue.model.arguments import shown
from pgqueue.model.schemas import in_schema
from pgqueue.schema import definitions, indexes, locks, revisions
from pgqueue.schema.files import head, revisions_after
from pgqueue.transports.alchemy import translated
from pgqueue.transports.readable import connect

logger = logging.getLogger("pgqueue.schema")

MIGRATION_LOCK = 0x7067_7175_6575_65  # "pgqueue"

#: SQLAlchemy's names of psycopg 3.
DRIVERS = ("psycopg", "psycopg_async")

RIGHTS = "Migrate as the owner of the schema; the first time, this takes CREATE on the database, and CREATEROLE"


def migrate(conninfo: str, schema: str, lock_timeout: timedelta, attempts: int) -> str:
    """Migrate in one transaction, then build the indexes; retried if a lock was not acquired in time."""
    trials = Retrying(
        retry=retry_if_exception_type(TransactionConflictError),
        stop=stop_after_attempt(attempts),
        wait=wait_random(max=0.5),
        before_sleep=before_sleep_log(logger, logging.INFO),
    )
    try:
        revision = trials(_migrate_once, conninfo, schema, lock_timeout)
    except RetryError as error:
        raise OperationTimeoutError(
            f"the schema was not migrated: in {attempts} attempts, a lock was not granted within"
            f" {lock_timeout.total_seconds():g} s. A transaction that stays open may hold it: `pgqueue doctor` names"
            " those older than five minutes."
        ) from error.last_attempt.exception()
    except AccessDeniedError as error:
        raise AccessDeniedError(f"{error.args[0]}. {RIGHTS}.", sqlstate=error.sqlstate) from error
    with translated():
        indexes.build(conninfo, schema, lock_timeout=lock_timeout)
    return revision


def migrate_within(connection: object, schema: str) -> str:
    """Migrate in the transaction of a connection that the caller has begun, and leave its settings as they were."""
    if not isinstance(connection, Connection):  # alembic's offline mode has none, or a mock
        raise InvalidArgumentError(
            f"migrate_within needs a connection of SQLAlchemy, not {shown(connection)}; alembic has none in its offline"
            " mode (--sql): use the output of `pgqueue migrate --sql` there"
        )
    if connection.dialect.driver not in DRIVERS:
        raise InvalidArgumentError(
            f"pgqueue migrates over psycopg, not over {connection.dialect.driver}: use a URL postgresql+psycopg://"
        )
    driver_connection: Any = connection.connection.driver_connection
    if driver_connection.autocommit:
        raise TransactionRequiredError(
            "a migration is one transaction, and this connection commits by itself: call it outside of autocommit_block"
        )
    with translated(), _kept_settings(connection), _renaming(connection, schema):
        revisions.refuse_hindrances(connection, schema)
        return _bring_to_head(connection, schema, locks.execute)


def _migrate_once(conninfo: str, schema: str, lock_timeout: timedelta) -> str:
    with _transaction(conninfo) as connection, _renaming(connection, schema):
        milliseconds = round(lock_timeout.total_seconds() * 1000)
        _set_local(connection, "lock_timeout", str(milliseconds))
        revisions.refuse_hindrances(connection, schema)
        if _is_done(connection, schema):
            return head()
        return _bring_to_head(connection, schema, partial(locks.take, conninfo, lock_timeout))


def _bring_to_head(connection: Connection, schema: str, lock: Callable[..., None]) -> str:
    connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    if _is_done(connection, schema):
        return head()
    revision = revisions.current(connection, schema)
    is_new = revision is None
    if not is_new:
        lock(connection, tables=bool(revisions_after(revision)))
    with _logged_warnings(connection):
        revisions.upgrade(connection, schema=schema)
        definitions.replace_all(connection, schema)
    if is_new:  # no table has rows yet, and no session waits
        indexes.build_at_once(connection)
    logger.info("migrated to revision %s", head())
    return head()


@contextmanager
def _logged_warnings(connection: Connection) -> Iterator[None]:
    """Log what the server warns of: that it could not give the schema to an owner without login."""
    driver_connection: Any = connection.connection.driver_connection
    driver_connection.add_notice_handler(_log_warning)
    try:
        yield
    finally:
        driver_connection.remove_notice_handler(_log_warning)


def _log_warning(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        logger.warning("%s. %s", notice.message_primary, notice.message_hint)


def _is_done(connection: Connection, schema: str) -> bool:
    revision = revisions.current(connection, schema)
    return not revisions_after(revision) and definitions.are_current(connection)


@contextmanager
def _renaming(connection: Connection, schema: str) -> Iterator[None]:
    """Have the statements of a connection executed with the names of this schema."""

    def rename(_connection: Connection, _cursor: object, sql: Any, parameters: Any, *_: object) -> tuple[str, Any]:
        return in_schema(sql, schema), parameters

    event.listen(connection, "before_cursor_execute", rename, retval=True)
    try:
        yield
    finally:
        event.remove(connection, "before_cursor_execute", rename)


@contextmanager
def _kept_settings(connection: Connection) -> Iterator[None]:
    """Set what a migration needs, and set it back. An error leaves the transaction to its rollback."""
    names = ("search_path", "check_function_bodies")
    before = {name: connection.scalar(text("select current_setting(:name)"), {"name": name}) for name in names}
    _set_local(connection, "search_path", "pg_catalog, pg_temp")
    yield
    for name, value in before.items():
        _set_local(connection, name, value)


def _set_local(connection: Connection, name: str, value: str) -> None:
    connection.execute(text("select set_config(:name, :value, true)"), {"name": name, "value": value})


@contextmanager
def _transaction(conninfo: str) -> Iterator[Connection]:
    engine = create_engine(
        "postgresql+psycopg://",
        creator=partial(connect, conninfo),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",  # another process may have migrated while this one waited
    )
    with translated(), engine.begin() as connection:
        _set_local(connection, "search_path", "pg_catalog, pg_temp")
        yield connection
