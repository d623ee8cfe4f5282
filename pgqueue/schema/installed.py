"""The version installed in a database: read at the start of every process, so without SQLAlchemy and alembic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from psycopg.errors import UndefinedTable

from pgqueue.errors import TransactionConflictError
from pgqueue.model.schemas import DEFAULT, check_schema
from pgqueue.schema.files import digest, head, indexes, revisions_after
from pgqueue.transports.readable import connect
from pgqueue.transports.translation import translated

#: The revision, the digest of functions and views, and the indexes.
INSTALLED = """
    select version_num,
           (select definitions_digest from pgqueue.installation),
           array (select relname::text
                    from pg_index
                    join pg_class on pg_class.oid = indexrelid
                   where relnamespace = 'pgqueue'::regnamespace and indisvalid)
      from pgqueue.alembic_version
"""

Installed = tuple[str | None, str | None, Sequence[str]]

#: Of a database where pgqueue was never installed.
NOTHING: Installed = (None, None, [])


def is_current(conninfo: str, schema: str, lock_timeout: timedelta) -> bool:
    """Whether nothing is left to migrate, nor any index to build. False, too, while another session migrates."""
    try:
        revision, definitions, valid = _installed(conninfo, schema, lock_timeout)
    except TransactionConflictError:
        return False
    return (revision, definitions) == (head(), digest()) and not _missing(valid)


def current(conninfo: str, *, schema: str = DEFAULT) -> str | None:
    """The revision that the schema is at; None where pgqueue was never installed."""
    revision, _, _ = _installed(conninfo, check_schema(schema))
    return revision


def pending(conninfo: str, *, schema: str = DEFAULT) -> list[str]:
    """The steps that a migration would take, a line each; empty where nothing is left to do.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    revision, definitions, valid = _installed(conninfo, check_schema(schema))
    lines = [f"revision {each} is not applied" for each in revisions_after(revision)]
    if definitions != digest():
        lines.append("functions and views are not those of this version")
    return lines + [f"index {name} is not built" for name in _missing(valid)]


def _installed(conninfo: str, schema: str, lock_timeout: timedelta | None = None) -> Installed:
    with translated(), connect(conninfo, schema=schema) as connection:
        if lock_timeout is not None:
            milliseconds = str(round(lock_timeout.total_seconds() * 1000))
            connection.execute("select set_config('lock_timeout', %s, true)", [milliseconds])
        connection.execute("set local search_path = pg_catalog, pg_temp")
        try:
            return connection.execute(INSTALLED).fetchone() or NOTHING
        except UndefinedTable:
            return NOTHING


def _missing(valid: Sequence[str]) -> list[str]:
    return [index.name for index in indexes() if index.name not in valid]
