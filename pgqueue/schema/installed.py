"""The version installed in a database: read at the start of every process, so without SQLAlchemy and alembic."""

from __future__ import annotations

from datetime import timedelta

from psycopg.errors import LockNotAvailable, UndefinedTable

from pgqueue.schema.files import digest, head, indexes, revisions_after
from pgqueue.transports.readable import connect
from pgqueue.transports.translation import translated

REVISION = "select version_num from pgqueue.alembic_version"

SAME_DEFINITIONS = "select exists (select from pgqueue.installation where definitions_digest = %s)"

VALID_INDEXES = """
    select relname
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = to_regnamespace('pgqueue') and indisvalid
"""

IS_CURRENT = """
    select version_num = %(head)s
           and exists (select from pgqueue.installation where definitions_digest = %(digest)s)
           and array (select relname::text
                        from pg_index
                        join pg_class on pg_class.oid = indexrelid
                       where relnamespace = 'pgqueue'::regnamespace and indisvalid) @> %(indexes)s::text[]
      from pgqueue.alembic_version
"""


def is_current(conninfo: str, lock_timeout: timedelta) -> bool:
    """Whether nothing is left to migrate, nor any index to build. False, too, while another session migrates."""
    wanted = {"head": head(), "digest": digest(), "indexes": [index.name for index in indexes()]}
    milliseconds = str(round(lock_timeout.total_seconds() * 1000))
    with translated(), connect(conninfo) as connection:
        connection.execute("select set_config('lock_timeout', %s, true)", [milliseconds])
        connection.execute("set local search_path = pg_catalog, pg_temp")
        try:
            return connection.execute(IS_CURRENT, wanted).fetchone() == (True,)
        except (UndefinedTable, LockNotAvailable):
            return False


def current(conninfo: str) -> str | None:
    """The revision that the database is at; None where pgqueue was never installed."""
    with translated(), connect(conninfo) as connection:
        try:
            row = connection.execute(REVISION).fetchone()
        except UndefinedTable:
            return None
    return None if row is None else str(row[0])


def pending(conninfo: str) -> list[str]:
    """The steps that a migration would take, a line each; empty where nothing is left to do.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    lines = [f"revision {revision} is not applied" for revision in revisions_after(current(conninfo))]
    with translated(), connect(conninfo) as connection:
        connection.execute("set local search_path = pg_catalog, pg_temp")
        installation = connection.execute("select to_regclass('pgqueue.installation')").fetchone()
        is_same = False
        if installation != (None,):
            is_same = connection.execute(SAME_DEFINITIONS, [digest()]).fetchone() == (True,)
        if not is_same:
            lines.append("functions and views are not those of this version")
        valid = {name for (name,) in connection.execute(VALID_INDEXES)}
    return lines + [f"index {index.name} is not built" for index in indexes() if index.name not in valid]
