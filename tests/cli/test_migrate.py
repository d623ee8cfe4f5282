from __future__ import annotations

from pathlib import Path

import pytest

from pgqueue import QueueClient
from pgqueue.schema import head
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine


@pytest.fixture
def fresh(empty_database: Database, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, PGQUEUE_DSN=empty_database.dsn)


def test_migrate_installs_the_schema_once(fresh: CommandLine) -> None:
    assert fresh("migrate", "--json").document == {"revision": head(), "revision_before": None}
    assert fresh("migrate", "--json").document == {"revision": head(), "revision_before": head()}
    assert head() in fresh("migrate").out


def test_without_a_schema_a_command_says_how_to_get_one(fresh: CommandLine, empty_database: Database) -> None:
    for command in (("queue", "list"), ("send", "orders", "1"), ("receive", "orders"), ("stats",)):
        ended = fresh(*command)
        assert ended.code == 1
        assert ended.only_error.endswith("run `pgqueue migrate`")
    with empty_database.connect() as connection:
        assert connection.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_a_schema_of_the_future_is_left_alone(fresh: CommandLine, empty_database: Database) -> None:
    with QueueClient(empty_database.dsn) as client:
        client.migrate()
    with empty_database.connect() as connection:
        connection.execute("update pgqueue.alembic_version set version_num = '9999_future'")
    ended = fresh("migrate")
    assert ended.code == 1
    assert "9999_future" in ended.only_error
