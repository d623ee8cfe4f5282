"""Migration of a database to this version of pgqueue: tables by revision, functions and views as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pgqueue.schema import installed
from pgqueue.schema.files import HISTORY_SCHEMA, SCHEMA
from pgqueue.schema.files import head as head
from pgqueue.schema.installed import current as current
from pgqueue.schema.installed import pending as pending

if TYPE_CHECKING:
    from sqlalchemy import Connection

PATIENCE = timedelta(seconds=5)


def migrate(conninfo: str, *, lock_timeout: timedelta = PATIENCE, attempts: int = 5) -> str:
    """Migrate the database to head; return its revision.

    The migration is one transaction. Indexes on tables that may be large are built after it, concurrently.

    Any number of processes may call this at once: one migrates, the others then find the schema current. If the
    migration cannot get a lock within ``lock_timeout``, it is rolled back, so that applications are not blocked, and
    retried: ``attempts`` times in all.
    """
    if installed.is_current(conninfo, lock_timeout):
        return head()
    from pgqueue.schema import migration

    return migration.migrate(conninfo, lock_timeout, attempts)


def migrate_within(connection: Connection | None) -> str:
    """Migrate to head in a transaction of your own, such as that of a revision; return our revision.

    ``connection`` is SQLAlchemy's over psycopg: in a revision of alembic, ``op.get_bind()``. You commit. The settings
    of the transaction stay as they were. Indexes on tables that may be large are built only by a fresh installation;
    after an upgrade, :func:`migrate` builds them concurrently, and until then queues are only slower.

    Raises:
        InvalidArgumentError: there is no connection, or it is not one over psycopg.
        TransactionRequiredError: the connection commits each statement by itself.
        SchemaVersionError: a newer version has migrated the database.
    """
    from pgqueue.schema import migration

    return migration.migrate_within(connection)


def script(conninfo: str | None = None, *, lock_timeout: timedelta = PATIENCE) -> str:
    """The migration of a database as SQL for psql, and nothing is changed; without one, of an empty database.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    from pgqueue.schema import sql_script

    return sql_script.script(None if conninfo is None else current(conninfo), lock_timeout)


def include_name(name: str | None, type_: str, parent_names: Mapping[str, Any]) -> bool:
    """Whether an object of the database is the application's own: False for the schemas of pgqueue and what is in them.

    For alembic: ``context.configure(…, include_schemas=True, include_name=pgqueue.schema.include_name)``. Otherwise
    ``alembic revision --autogenerate`` writes a revision that drops the tables of pgqueue.
    """
    return (name if type_ == "schema" else parent_names.get("schema_name")) not in (SCHEMA, HISTORY_SCHEMA)
