from __future__ import annotations

import json
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from pgqueue import QueueClient
from pgqueue.schema import head
from pgqueue.schema.files import revisions
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine


@pytest.fixture
def fresh(empty_database: Database, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, PGQUEUE_DSN=empty_database.dsn)


def test_migrate_installs_the_schema_once(fresh: CommandLine) -> None:
    assert fresh("migrate", "--json").document == {"revision": head(), "revision_before": None}
    assert fresh("migrate", "--json").document == {"revision": head(), "revision_before": head()}
    assert head() in fresh("migrate").out


def test_a_command_without_a_schema_names_the_command_that_creates_it(
    fresh: CommandLine, empty_database: Database
) -> None:
    for command in (("queue", "list"), ("send", "orders", "1"), ("receive", "orders"), ("stats",)):
        ended = fresh(*command)
        assert ended.code == 1
        assert ended.only_error.endswith("run `pgqueue migrate`")
    with empty_database.connect() as connection:
        assert connection.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_migrate_without_privileges_names_the_privileges_it_needs(fresh: CommandLine, empty_database: Database) -> None:
    role = f"visitor_of_{empty_database.name}"
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        ended = fresh("migrate", "--dsn", make_conninfo(empty_database.dsn, options=f"-c role={role}"))
        connection.execute(f"drop role {role}".encode())
    assert ended.code == 1
    assert "permission denied for database" in ended.only_error
    assert "the first time, this takes CREATE on the database" in ended.only_error


def test_a_schema_of_the_future_is_left_alone(fresh: CommandLine, empty_database: Database) -> None:
    with QueueClient(empty_database.dsn) as client:
        client.migrate()
    with empty_database.connect() as connection:
        connection.execute("update pgqueue.alembic_version set version_num = '9999_future'")
    ended = fresh("migrate")
    assert ended.code == 1
    assert "9999_future" in ended.only_error


def test_check_lists_what_is_left_and_changes_nothing(fresh: CommandLine, empty_database: Database) -> None:
    ended = fresh("migrate", "--check")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        *(f"revision {revision} is not applied" for revision in revisions()),
        "functions and views are not those of this version",
        "index dead_letter_position is not built",
        "index message_expiry is not built",
        "index message_session is not built",
    ]
    assert "pgqueue migrate" in ended.err
    with empty_database.connect() as connection:
        assert connection.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_check_of_a_current_schema_succeeds(fresh: CommandLine, empty_database: Database) -> None:
    fresh("migrate")
    assert head() in fresh("migrate", "--check").out
    assert fresh("migrate", "--check", "--json").document == {"revision": head(), "head": head(), "pending": []}
    with empty_database.connect() as connection:
        connection.execute("drop index pgqueue.message_expiry")
    ended = fresh("migrate", "--check", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["pending"] == ["index message_expiry is not built"]


def test_sql_prints_a_script_with_or_without_a_database(fresh: CommandLine, tmp_path: Path) -> None:
    unnamed = CommandLine(tmp_path)("migrate", "--sql")
    assert unnamed.out == fresh("migrate", "--sql").out
    assert unnamed.out.startswith("-- pgqueue: from nothing to revision ")
    fresh("migrate")
    assert fresh("migrate", "--sql").out.startswith(f"-- pgqueue: from {head()} to revision {head()}")


def test_sql_and_check_are_two_questions(fresh: CommandLine) -> None:
    ended = fresh("migrate", "--sql", "--check")
    assert ended.code == 2
    assert "--sql" in ended.only_error
