"""The shape of the tables: alembic revisions, applied on a connection that somebody else opened and will commit."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from pgqueue.errors import SchemaVersionError
from pgqueue.schema import files

SCHEMA = "pgqueue"


def current(connection: Connection) -> str | None:
    """The revision the database is at; None where pgqueue was never installed."""
    return MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA}).get_current_revision()


def refuse_unknown(revision: str | None) -> None:
    """Refuse a revision that this version does not have.

    Raises:
        SchemaVersionError: a newer version has migrated the database.
    """
    known = {script.revision for script in _scripts().walk_revisions()}
    if revision is not None and revision not in known:
        raise SchemaVersionError(
            f"the database is at revision {revision!r}, which this pgqueue does not know: its newest is"
            f" {files.head()!r}. A newer pgqueue migrated the database; install that version here."
        )


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Create the schema if it is missing, and bring its tables to a revision."""
    # Not "if not exists": that wants the right to create a schema even where it is there.
    if connection.scalar(text("select to_regnamespace(:schema) is null"), {"schema": SCHEMA}):
        connection.execute(CreateSchema(SCHEMA))
    command.upgrade(_config(connection), revision)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
