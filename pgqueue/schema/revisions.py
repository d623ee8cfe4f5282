"""The shape of the tables: alembic revisions, applied on a connection that the caller opened and will commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from pgqueue.schema import files
from pgqueue.schema.files import SCHEMA


def current(connection: Connection) -> str | None:
    """The revision the database is at; None where pgqueue was never installed."""
    return _context(connection).get_current_revision()


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Create the schema if it is missing, and bring its tables to a revision."""
    # Not "if not exists": that wants the right to create a schema even where it is there.
    if connection.scalar(text("select to_regnamespace(:schema) is null"), {"schema": SCHEMA}):
        connection.execute(CreateSchema(SCHEMA))
    scripts, context = _scripts(), _context(connection)
    pending = list(scripts.iterate_revisions(revision, context.get_current_revision() or "base"))
    with _operations(context):
        for script in reversed(pending):
            script.module.upgrade()
            context.stamp(scripts, script.revision)


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


def _context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(files.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)
