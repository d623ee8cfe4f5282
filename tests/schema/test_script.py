"""`pgqueue migrate --sql`: psql does with it what migrate() does."""

from __future__ import annotations

import subprocess

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from pgqueue import schema
from pgqueue.embedded import wheel_binaries
from pgqueue.errors import SchemaVersionError
from pgqueue.schema import files, revisions
from pgqueue.testing import Database
from tests.schema.dumps import dump, fresh
from tests.schema.test_definitions import AN_OLDER_VERSION


def psql(database: Database, script: str) -> subprocess.CompletedProcess[str]:
    command = [str(wheel_binaries() / "psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", database.dsn]
    return subprocess.run(command, check=False, input=script, capture_output=True, text=True)


def run(database: Database, script: str) -> None:
    ended = psql(database, script)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.core
def test_an_empty_database_becomes_what_migrate_makes_of_one(
    empty_database: Database, another_empty_database: Database
) -> None:
    assert schema.script(empty_database.dsn) == schema.script()
    run(empty_database, schema.script())
    assert schema.pending(empty_database.dsn) == []
    assert dump(empty_database) == fresh(another_empty_database)


def test_an_older_database_is_upgraded(empty_database: Database, another_empty_database: Database) -> None:
    engine = create_engine(empty_database.url)
    with engine.begin() as connection:
        revisions.upgrade(connection, files.revisions()[0])
    engine.dispose()
    run(empty_database, schema.script(empty_database.dsn))
    assert schema.pending(empty_database.dsn) == []
    assert dump(empty_database) == fresh(another_empty_database)


def test_functions_of_an_older_version_are_replaced_or_dropped(empty_database: Database) -> None:
    expected = fresh(empty_database)
    with empty_database.connect() as connection:
        connection.execute(AN_OLDER_VERSION)
    run(empty_database, schema.script(empty_database.dsn))
    assert schema.pending(empty_database.dsn) == []
    assert dump(empty_database) == expected


def test_an_index_whose_build_was_interrupted_is_built_again(empty_database: Database) -> None:
    expected = fresh(empty_database)
    with empty_database.connect() as connection:
        connection.execute(
            "update pg_index set indisvalid = false where indexrelid = 'pgqueue.message_expiry'::regclass"
        )
    assert schema.pending(empty_database.dsn) != []
    run(empty_database, schema.script(empty_database.dsn))
    assert schema.pending(empty_database.dsn) == []
    assert dump(empty_database) == expected


def test_a_script_for_another_revision_changes_nothing(empty_database: Database) -> None:
    expected = fresh(empty_database)
    script = schema.script(empty_database.dsn)
    with empty_database.connect() as connection:
        connection.execute("update pgqueue.alembic_version set version_num = 'another'")
    ended = psql(empty_database, script)
    assert ended.returncode == 3
    assert "the database is not at revision" in ended.stderr
    assert dump(empty_database) == expected


def test_making_a_script_changes_nothing(empty_database: Database) -> None:
    schema.script(empty_database.dsn)
    with empty_database.connect() as connection:
        assert connection.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_a_schema_newer_than_the_code_has_no_script(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("update pgqueue.alembic_version set version_num = '9999_future'")
    for asked in (schema.script, schema.pending):
        with pytest.raises(SchemaVersionError, match="9999_future"):
            asked(database.dsn)


def test_revisions_are_numbered_in_the_order_in_which_alembic_chains_them() -> None:
    chain = ScriptDirectory(str(files.folder("migrations"))).walk_revisions()
    assert [script.revision for script in chain] == [*reversed(files.revisions())]
