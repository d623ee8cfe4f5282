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
from pgqueue.model.schemas import DEFAULT, history_schema, plain
from pgqueue.schema import files

#: How much of others is in the schema and in that of the history, a role of these names that is more than a group, and
#: another instance whose roles and history would have the same names.
HINDRANCES = """
select (select count(*)
          from (select relnamespace as place from pg_class where relkind <> 'c'
                 union all
                select pronamespace from pg_proc
                 union all
                select typnamespace from pg_type where typrelid = 0 and typelem = 0
                 union all
                select collnamespace from pg_collation) as thing
          join pg_namespace on oid = place
         where nspname in (:schema, :history)),
       (select min(rolname)
          from pg_roles
          join unnest('{owner,admin,sender,receiver,monitor}'::text[]) as kind on rolname = :plain || '_' || kind
         where rolcanlogin or rolsuper),
       (select min(nspname)
          from pg_namespace
          join pg_class on relnamespace = pg_namespace.oid and relname = 'installation'
         where lower(translate(nspname, ' -', '__')) = :plain and nspname <> :schema)
"""

INSTALLED = "select count(*) > 0 from pg_tables where schemaname = :schema and tablename = 'installation'"


def current(connection: Connection, schema: str) -> str | None:
    """The revision the schema is at; None where pgqueue was never installed."""
    return _context(connection, schema).get_current_revision()


def upgrade(connection: Connection, revision: str = "head", schema: str = DEFAULT) -> None:
    """Create the schema if it is missing, and bring its tables to a revision."""
    # Not "if not exists": that wants the right to create a schema even where it is there.
    if connection.scalar(text("select count(*) = 0 from pg_namespace where nspname = :schema"), {"schema": schema}):
        connection.execute(CreateSchema(quoted_name(schema, quote=True)))
    scripts, context = _scripts(), _context(connection, schema)
    pending = list(scripts.iterate_revisions(revision, context.get_current_revision() or "base"))
    with _operations(context):
        for script in reversed(pending):
            script.module.upgrade()
            context.stamp(scripts, script.revision)


def refuse_hindrances(connection: Connection, schema: str) -> None:
    """Refuse to install where something of others would become pgqueue's.

    Raises:
        InvalidArgumentError: there is such a thing, which the text names.
    """
    if connection.scalar(text(INSTALLED), {"schema": schema}):
        return
    names = {"schema": schema, "plain": plain(schema), "history": history_schema(schema)}
    things, role, other = connection.execute(text(HINDRANCES), names).one()
    if other is not None:
        raise InvalidArgumentError(
            f"the roles of the schema {schema!r} would be those of {other!r}, where pgqueue is installed in this"
            " database: choose a name that differs in letters or digits"
        )
    if things:
        raise InvalidArgumentError(
            f"the schemas {schema!r} and {names['history']!r} must be empty, and have {things} tables, functions or"
            " types that are not pgqueue's: choose another name"
        )
    if role is not None:
        raise InvalidArgumentError(
            f"the role {role!r} would become a group of pgqueue's, and it can log in or is a superuser: choose another"
            " name for the schema"
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
