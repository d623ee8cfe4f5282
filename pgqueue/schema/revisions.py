"""The shape of the tables: alembic revisions, applied on a connection that the caller opened and will commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, quoted_name, text
from sqlalchemy.schema import CreateSchema

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.schemas import DEFAULT, plain
from pgqueue.schema import files

#: How many things are in the schema already, and another instance whose roles and history would have the same names.
HINDRANCES = """
select (select count(*) from pg_class where relnamespace = oid_of_it)
       + (select count(*) from pg_proc where pronamespace = oid_of_it),
       (select min(nspname)
          from pg_namespace
          join pg_class on relnamespace = pg_namespace.oid and relname = 'alembic_version'
         where lower(translate(nspname, ' -', '__')) = :plain and nspname <> :schema)
  from coalesce((select oid from pg_namespace where nspname = :schema), 0) as oid_of_it
"""


def current(connection: Connection, schema: str) -> str | None:
    """The revision the schema is at; None where pgqueue was never installed."""
    return _context(connection, schema).get_current_revision()


def upgrade(connection: Connection, revision: str = "head", schema: str = DEFAULT) -> None:
    """Create the schema if it is missing, and bring its tables to a revision."""
    scripts, context = _scripts(), _context(connection, schema)
    if context.get_current_revision() is None:
        _refuse_hindrances(connection, schema)
    # Not "if not exists": that wants the right to create a schema even where it is there.
    if connection.scalar(text("select count(*) = 0 from pg_namespace where nspname = :schema"), {"schema": schema}):
        connection.execute(CreateSchema(quoted_name(schema, quote=True)))
    pending = list(scripts.iterate_revisions(revision, context.get_current_revision() or "base"))
    with _operations(context):
        for script in reversed(pending):
            script.module.upgrade()
            context.stamp(scripts, script.revision)


def _refuse_hindrances(connection: Connection, schema: str) -> None:
    things, other = connection.execute(text(HINDRANCES), {"schema": schema, "plain": plain(schema)}).one()
    if things:
        raise InvalidArgumentError(
            f"the schema {schema!r} has {things} tables and functions that are not pgqueue's: choose another name"
        )
    if other is not None:
        raise InvalidArgumentError(
            f"the roles of the schema {schema!r} would be those of {other!r}, where pgqueue is installed in this"
            " database: choose a name that differs in letters or digits"
        )


@contextmanager
def _operations(context: MigrationContext) -> Iterator[None]:
    """Let ``op`` of our revisions stand for this connection, and afterwards for that of a host's revision again."""
    host: Operations | None = getattr(op, "_proxy", None)
    try:
        with Operations.context(context):
            yield
    finally:
        if host is not None:
            host._install_proxy()  # noqa: SLF001 - alembic removes a proxy, and does not bring back the one before it


def _context(connection: Connection, schema: str) -> MigrationContext:
    # Quoted: the names in its statements are not replaced.
    return MigrationContext.configure(connection, opts={"version_table_schema": quoted_name(schema, quote=True)})


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(files.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)
