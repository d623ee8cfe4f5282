"""An application with migrations of its own: its alembic leaves us alone, and can run our migration within its."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, create_engine, text
from sqlalchemy.exc import SAWarning
from sqlalchemy.ext.asyncio import create_async_engine

from pgqueue import schema
from pgqueue.errors import InvalidArgumentError, SchemaVersionError, TransactionRequiredError
from pgqueue.testing import Database
from tests.schema.dumps import dump, fresh

ENV = """
from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
"""

REVISION = """
import sqlalchemy
from alembic import op
from pgqueue import schema

revision, down_revision = "first", None

def upgrade():
    op.execute("set local search_path = shop, public")
    op.create_table("customer", sqlalchemy.Column("id", sqlalchemy.Integer))
    schema.migrate_within(op.get_bind())
    op.create_table("orders", sqlalchemy.Column("id", sqlalchemy.Integer))
    op.execute("select pgqueue.create_queue('orders')")
    {last}
"""


@pytest.fixture
def engine(empty_database: Database) -> Iterator[Engine]:
    engine = create_engine(empty_database.url)
    with engine.begin() as connection:
        connection.execute(text("create schema shop"))
    yield engine
    engine.dispose()


def project(directory: Path, last: str = "pass", env: str = ENV) -> Config:
    """A host's project with one revision."""
    (directory / "versions").mkdir(exist_ok=True)
    (directory / "env.py").write_text(env)
    (directory / "versions" / "first.py").write_text(REVISION.format(last=last))
    config = Config()
    config.set_main_option("script_location", str(directory))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(engine: Engine, directory: Path, last: str = "pass") -> None:
    """Does the same as `alembic upgrade head` in a host's project."""
    config = project(directory, last)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


OFFLINE = """
from alembic import context

context.configure(url="postgresql+psycopg://", literal_binds=True)
with context.begin_transaction():
    context.run_migrations()
"""


def test_offline_mode_is_refused_with_its_remedy(tmp_path: Path) -> None:
    config = project(tmp_path, env=OFFLINE)
    with pytest.raises(InvalidArgumentError, match=r"offline mode.*pgqueue migrate --sql"):
        command.upgrade(config, "head", sql=True)


def tables(connection: Connection, within: str) -> set[str]:
    query = text("select relname from pg_class where relkind = 'r' and relnamespace = to_regnamespace(:name)")
    return set(connection.scalars(query, {"name": within}))


@pytest.mark.core
def test_our_migration_runs_within_a_revision_of_the_host(
    engine: Engine, empty_database: Database, another_empty_database: Database, tmp_path: Path
) -> None:
    upgrade(engine, tmp_path)
    with engine.connect() as connection:
        assert tables(connection, "shop") == {"customer", "orders"}
        assert connection.scalar(text("select version_num from alembic_version")) == "first"
        assert connection.scalar(text("select name from pgqueue.queues")) == "orders"
    assert schema.pending(empty_database.dsn) == []
    assert dump(empty_database) == fresh(another_empty_database)


def test_it_is_part_of_the_transaction_of_the_host(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        upgrade(engine, tmp_path, last="1 / 0")
    with engine.connect() as connection:
        assert tables(connection, "shop") == set()
        assert connection.scalar(text("select to_regnamespace('pgqueue')")) is None


def test_the_settings_of_the_transaction_stay_as_they_were(engine: Engine) -> None:
    asked = text("select current_setting('search_path'), current_setting('check_function_bodies')")
    with engine.begin() as connection:
        connection.execute(text("set local search_path = shop"))
        before = connection.execute(asked).one()
        assert schema.migrate_within(connection) == schema.head()
        assert connection.execute(asked).one() == before
        assert schema.migrate_within(connection) == schema.head()
        assert connection.execute(asked).one() == before


async def test_an_asynchronous_engine_runs_it_too(empty_database: Database) -> None:
    engine = create_async_engine(empty_database.url)
    async with engine.begin() as connection:
        await connection.run_sync(schema.migrate_within)
    await engine.dispose()
    assert schema.pending(empty_database.dsn) == []


def test_a_connection_in_autocommit_is_refused(engine: Engine) -> None:
    with (
        engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection,
        pytest.raises(TransactionRequiredError, match="this connection commits by itself"),
    ):
        schema.migrate_within(connection)


def test_a_missing_connection_or_another_driver_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="pgqueue migrate --sql"):
        schema.migrate_within(None)
    sqlite = create_engine("sqlite://")
    with sqlite.connect() as connection, pytest.raises(InvalidArgumentError, match=r"not over pysqlite: .*\+psycopg:"):
        schema.migrate_within(connection)
    sqlite.dispose()


def test_a_schema_newer_than_the_code_is_refused(engine: Engine) -> None:
    with engine.begin() as connection:
        schema.migrate_within(connection)
        connection.execute(text("update pgqueue.alembic_version set version_num = '9999_future'"))
    with engine.begin() as connection, pytest.raises(SchemaVersionError, match="9999_future"):
        schema.migrate_within(connection)


def application_only(name: str | None, type_: str, parent_names: Mapping[str, Any]) -> bool:
    return schema.include_name(name, type_, parent_names) and name != "spatial_ref_sys"


@pytest.mark.parametrize("include_name", [schema.include_name, application_only])
def test_autogenerate_with_our_helper_wants_to_drop_nothing_of_ours(engine: Engine, include_name: Any) -> None:
    metadata = MetaData(schema="shop")
    Table("customer", metadata, Column("id", Integer))
    with engine.begin() as connection:
        schema.migrate_within(connection)
        metadata.create_all(connection)
        connection.execute(text("create table shop.old (id int)"))

        def wanted(**options: Any) -> list[tuple[str, str]]:
            context = MigrationContext.configure(connection, opts={"include_schemas": True, **options})
            found = compare_metadata(context, metadata)
            return [(each[0], str(each[1])) for each in found if each[0] == "remove_table"]

        with pytest.warns(SAWarning, match="Did not recognize type '(xid8|jsonpath)'"):
            assert ("remove_table", "pgqueue.message") in wanted()
        assert wanted(include_name=include_name) == [("remove_table", "shop.old")]
