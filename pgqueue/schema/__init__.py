"""Migration of a database to this version of pgqueue: tables by revision, functions and views as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pgqueue.model.schemas import DEFAULT, check_schema, history_schema
from pgqueue.schema import installed
from pgqueue.schema.files import head as head
from pgqueue.schema.installed import current as current
from pgqueue.schema.installed import pending as pending

if TYPE_CHECKING:
    from sqlalchemy import Connection

PATIENCE = timedelta(seconds=5)


def migrate(conninfo: str, *, lock_timeout: timedelta = PATIENCE, attempts: int = 5, schema: str = DEFAULT) -> str:
    """Migrate the schema of a database to head; return its revision.

    The migration is one transaction. Indexes on tables that may be large are built after it, concurrently.

    Any number of processes may call this at once: one migrates, the others then find the schema current. If the
    migration cannot get its locks within ``lock_timeout``, it is rolled back, so that applications are not blocked, and
    retried: ``attempts`` times in all. It gives way to a transaction that it waits for and that waits for it.

    Raises:
        InvalidArgumentError: no instance can be in this ``schema``.
        SchemaVersionError: a newer version has migrated it.
        AccessDeniedError: the role may not migrate it.
        OperationTimeoutError: no attempt got its locks.
    """
    if installed.is_current(conninfo, check_schema(schema), lock_timeout):
        return head()
    from pgqueue.schema import migration

    return migration.migrate(conninfo, schema, lock_timeout, attempts)


def migrate_within(connection: Connection | None, *, schema: str = DEFAULT) -> str:
    """Migrate to head in a transaction of your own, such as that of a revision; return our revision.

    ``connection`` is SQLAlchemy's over psycopg: in a revision of alembic, ``op.get_bind()``. You commit. The settings
    of the transaction stay as they were. Indexes on tables that may be large are built only by a fresh installation;
    after an upgrade, :func:`migrate` builds them concurrently, and until then queues are only slower. Unlike
    :func:`migrate` this gives way to no transaction: PostgreSQL may end one of the two with a deadlock.

    Raises:
        InvalidArgumentError: there is no connection, or it is not one over psycopg, or no instance can be in this
            ``schema``.
        TransactionRequiredError: the connection commits each statement by itself.
        SchemaVersionError: a newer version has migrated the database.
    """
    from pgqueue.schema import migration

    return migration.migrate_within(connection, check_schema(schema))


def script(conninfo: str | None = None, *, lock_timeout: timedelta = PATIENCE, schema: str = DEFAULT) -> str:
    """The migration of a database as SQL for psql, and nothing is changed; without one, of an empty database.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    from pgqueue.schema import sql_script

    revision = None if conninfo is None else current(conninfo, schema=schema)
    return sql_script.script(revision, check_schema(schema), lock_timeout)


def include_name(name: str | None, type_: str, parent_names: Mapping[str, Any], *, schema: str = DEFAULT) -> bool:
    """Whether an object of the database is the application's own: False for the schemas of pgqueue and what is in them.

    For alembic: ``context.configure(…, include_schemas=True, include_name=pgqueue.schema.include_name)``. Otherwise
    ``alembic revision --autogenerate`` writes a revision that drops the tables of pgqueue. For an instance in another
    schema: ``functools.partial(pgqueue.schema.include_name, schema="jobs")``.
    """
    ours = (schema, history_schema(schema))
    return (name if type_ == "schema" else parent_names.get("schema_name")) not in ours
