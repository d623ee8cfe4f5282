"""Indexes on tables that may be large: built concurrently, after the migration has committed.

Only speed depends on them, so an index that cannot be built now is not an error: the next migration builds it.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, InsufficientPrivilege, LockNotAvailable
from sqlalchemy import Connection

from pgqueue.schema.files import Definition, indexes
from pgqueue.transports.readable import connect

logger = logging.getLogger("pgqueue.schema")

ARE_VALID = """
    select relname::text, indisvalid
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = to_regnamespace('pgqueue')::oid and relname = any (%s::text[])
"""

# Two processes that build at once would wait for each other's snapshots until one gets a deadlock error. The lock ends
# with the session.
ONLY_ONE_BUILDS = "select pg_try_advisory_lock(pg_catalog.hashtextextended('pgqueue.indexes', 0))"


def build(conninfo: str, schema: str, *, lock_timeout: timedelta) -> None:
    """Build the indexes that are missing or invalid, unless another process is building them."""
    with connect(conninfo, schema=schema, autocommit=True) as connection:
        missing = _missing(connection)
        if not missing:
            return
        if connection.execute("select pg_backend_pid()").fetchone() != (connection.info.backend_pid,):
            logger.warning(
                "the indexes %s were not built, because sessions of PgBouncer are shared: migrate with a DSN that"
                " bypasses it",
                ", ".join(index.name for index, _ in missing),
            )
        elif connection.execute(ONLY_ONE_BUILDS).fetchone() == (True,):
            for index, is_broken_off in _missing(connection):
                _build(connection, index, lock_timeout, is_broken_off=is_broken_off)


def _missing(connection: psycopg.Connection) -> list[tuple[Definition, bool]]:
    """The indexes that are missing or invalid, and of each whether its build was broken off."""
    found: dict[str, bool] = dict(connection.execute(ARE_VALID, [[index.name for index in indexes()]]).fetchall())
    return [(index, index.name in found) for index in indexes() if not found.get(index.name, False)]


def build_at_once(connection: Connection) -> None:
    """Builds all in the transaction that has created their tables, which are empty."""
    for index in indexes():
        connection.exec_driver_sql(without_concurrency(index))


def without_concurrency(index: Definition) -> str:
    """The text of an index for use within a transaction."""
    return index.sql.replace("create index concurrently", "create index", 1)


def _build(connection: psycopg.Connection, index: Definition, lock_timeout: timedelta, *, is_broken_off: bool) -> None:
    timeout = round(lock_timeout.total_seconds() * 1000)
    connection.execute(sql.SQL("set lock_timeout = {}; set statement_timeout = 0").format(timeout))
    try:
        if is_broken_off:
            connection.execute(f"drop index concurrently if exists pgqueue.{index.name}".encode())
        connection.execute(index.sql.encode())
    except (LockNotAvailable, DeadlockDetected) as error:
        logger.warning(
            "the index %s was not built because of an old transaction: see pg_stat_activity, and migrate again (%s)",
            index.name,
            error,
        )
    except InsufficientPrivilege as error:
        logger.warning("the index %s was not built: migrate as the owner of the tables (%s)", index.name, error)
