"""Django's own test runner on a project: its tests meet neither each other nor the development database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SUITE = "tests.django.parcels.suite"


class Project:
    """A project whose two development databases hold a message each."""

    def __init__(self, *databases: Database, schema: str = "pgqueue") -> None:
        self._databases = databases
        self._schema = schema
        dsns = zip(("PGQUEUE_DSN", "PGQUEUE_OTHER_DSN"), (each.direct for each in databases), strict=True)
        settings = {"DJANGO_SETTINGS_MODULE": "tests.django.parcels.settings", "PARCELS_SCHEMA": schema}
        self._environment = os.environ | settings | dict(dsns)

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

    def client(self, database: Database) -> QueueClient:
        return QueueClient(database.dsn, schema=self._schema)

    def bodies(self) -> list[list[object]]:
        """The messages of development."""
        found = []
        for each in self._databases:
            with self.client(each) as client:
                found.append([message.body for message in client.queue("parcels").peek(max_messages=99)])
        return found


@pytest.fixture
def schema() -> str:
    return "pgqueue"


@pytest.fixture
def project(empty_database: Database, another_empty_database: Database, schema: str) -> Iterator[Project]:
    project = Project(empty_database, another_empty_database, schema=schema)
    for alias, database in (("default", empty_database), ("other", another_empty_database)):
        code, output = project.manage("migrate", "--database", alias, "-v", "0")
        assert code == 0, output
        with project.client(database) as client:
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


@pytest.mark.parametrize("schema", ["Jobs of Acme"])
def test_the_project_works_in_another_schema(project: Project, empty_database: Database) -> None:
    code, output = project.manage("test", SUITE, "--parallel", "2")
    assert code == 0, output
    assert project.leftover_databases() == []
    with psycopg.connect(empty_database.direct) as connection:
        found = "select nspname from pg_namespace where nspname ~* 'pgqueue|jobs' order by nspname collate \"C\""
        assert connection.execute(found).fetchall() == [("Jobs of Acme",), ("jobs_of_acme_history",)]


@pytest.mark.parametrize("schema", ["Jobs of Acme"])
def test_commands_work_in_another_schema(project: Project) -> None:
    code, output = project.manage("pgqueue", "peek", "parcels", "--json")
    assert (code, "of the development" in output) == (0, True), output
    code, output = project.manage("pgqueue_tasks", "default")
    assert (code, 'queue "default" does not exist' in output) == (1, True), output
    code, output = project.manage("makemigrations", "pgqueue", "--check", "--dry-run")
    assert code == 0, output


def test_a_schema_that_cannot_be_is_refused(project: Project) -> None:
    code, output = project.manage("check", PARCELS_SCHEMA="public")
    assert code == 1
    assert "ImproperlyConfigured: PGQUEUE_SCHEMA: schema cannot be 'public'" in output
