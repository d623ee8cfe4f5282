"""Indexes on tables that may be large by now: built while everybody works, after the migration has committed.

Nothing but speed depends on them, so one that cannot be built now is no failure: the next migration takes it up.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, InsufficientPrivilege, LockNotAvailable

from pgqueue.schema.files import Definition, indexes

logger = logging.getLogger("pgqueue.schema")

ARE_VALID = """
    select indexrelid::regclass::text, indisvalid
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = to_regnamespace('pgqueue')::oid and relname = any (%s::text[])
"""

# Two that build at once wait for each other's snapshots, until one of them is told of a deadlock. The lock is
# given back, because a PgBouncer's session goes on.
ONLY_ONE_BUILDS = "select pg_try_advisory_lock(pg_catalog.hashtextextended('pgqueue.indexes', 0))"
ANOTHER_MAY = "select pg_advisory_unlock(pg_catalog.hashtextextended('pgqueue.indexes', 0))"


def build(conninfo: str, *, lock_timeout: timedelta) -> None:
    """Builds those that are missing or were broken off, unless another process is about it."""
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as connection:
        if connection.execute(ONLY_ONE_BUILDS).fetchone() != (True,):
            return
        found: dict[str, bool] = dict(connection.execute(ARE_VALID, [[index.name for index in indexes()]]).fetchall())
        for index in indexes():
            name = f"pgqueue.{index.name}"
            if not found.get(name, False):
                _build(connection, index, name, lock_timeout, broken_off=name in found)
        connection.execute(ANOTHER_MAY)


def _build(
    connection: psycopg.Connection, index: Definition, name: str, lock_timeout: timedelta, *, broken_off: bool
) -> None:
    timeout = round(lock_timeout.total_seconds() * 1000)
    connection.execute(sql.SQL("set lock_timeout = {}").format(timeout))
    try:
        if broken_off:
            connection.execute(f"drop index concurrently if exists {name}".encode())
        connection.execute(index.sql.encode())
    except (LockNotAvailable, DeadlockDetected) as error:
        logger.warning(
            "%s was not built, an old transaction is in its way: look in pg_stat_activity, and migrate again (%s)",
            name,
            error,
        )
    except InsufficientPrivilege as error:
        logger.warning("%s is left to the owner of the tables to be built (%s)", name, error)
