"""Django's own test runner on a project: its tests meet neither each other nor the development database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SUITE = "tests.django.parcels.suite"


class Project:
    """A project whose two development databases hold a message each."""

    def __init__(self, *databases: Database) -> None:
        self._databases = databases
        dsns = zip(("PGQUEUE_DSN", "PGQUEUE_OTHER_DSN"), (each.direct for each in databases), strict=True)
        self._environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.django.parcels.settings", **dict(dsns)}

    def manage(self, *words: str, **environment: str) -> tuple[int, str]:
        """Run a command of ``manage.py``; return its exit code and its output."""
        ran = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-m", "django", *words],
            cwd=ROOT,
            env=self._environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
            text=True,
        )
        return ran.returncode, ran.stdout

    def leftover_databases(self) -> list[str]:
        """The databases that the runner has left behind."""
        with self._databases[0].connect() as connection:
            names = [f"test_{each.name}" for each in self._databases]
            found = "select datname from pg_database where datname ~ any (%s) order by datname"
            return [name for (name,) in connection.execute(found, [[f"^{name}" for name in names]])]

    def drop(self, names: list[str]) -> None:
        with self._databases[0].connect(autocommit=True) as connection:
            for name in names:
                connection.execute(f'drop database "{name}"'.encode())

    def bodies(self) -> list[list[object]]:
        """The messages of development."""
        found = []
        for each in self._databases:
            with QueueClient(each.dsn) as client:
                found.append([message.body for message in client.queue("parcels").peek(max_messages=99)])
        return found


@pytest.fixture
def project(empty_database: Database, another_empty_database: Database) -> Iterator[Project]:
    project = Project(empty_database, another_empty_database)
    for alias, database in (("default", empty_database), ("other", another_empty_database)):
        code, output = project.manage("migrate", "--database", alias, "-v", "0")
        assert code == 0, output
        with QueueClient(database.dsn) as client:
            client.queue("parcels").send(Message("of the development"))
    yield project
    assert project.bodies() == [["of the development"]] * 2
    project.drop(project.leftover_databases())


@pytest.mark.parametrize("options", [[], ["--parallel", "2"], ["--reverse"]], ids=str)
def test_the_runner_works_on_test_databases_and_drops_them(project: Project, options: list[str]) -> None:
    code, output = project.manage("test", SUITE, *options)
    assert code == 0, output
    assert "OK" in output
    assert project.leftover_databases() == [], output


def test_kept_databases_are_used_again(project: Project) -> None:
    for _ in range(2):
        code, output = project.manage("test", SUITE, "--keepdb")
        assert code == 0, output
        assert len(project.leftover_databases()) == 2


def test_the_schema_is_there_without_migrations(project: Project) -> None:
    code, output = project.manage("test", SUITE, PGQUEUE_NO_MIGRATIONS="yes")
    assert code == 0, output
    assert project.leftover_databases() == []
