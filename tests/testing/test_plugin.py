"""The plugin as an application uses it: in a test run of its own."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import psycopg
import pytest

import pgqueue.testing
from pgqueue.testing import Database
from pgqueue.testing.database import dsn
from pgqueue.testing.plugin import SharedServer

CONFTEST = """
pytest_plugins = ["pgqueue.testing"]
"""

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_a_queue_of_its_own(database, database_server, number):
    with open({seen!r}, "a") as seen:
        print(database_server.dsn, database_server.template, database.name, file=seen)
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('orders')")

def test_that_fails(database):
    with database.connect() as connection:
        connection.execute("select pgqueue.send('no such queue', '1')")
"""


def run(pytester: pytest.Pytester, *arguments: str) -> list[list[str]]:
    """Run the tests of an application and return which server, template and database each of them had."""
    seen = pytester.path / "seen"
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS.format(seen=str(seen)))
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    outcome.assert_outcomes(passed=4, failed=1)
    return [line.split() for line in seen.read_text().splitlines()]


def test_an_application_has_a_database_per_test_on_one_server_and_nothing_is_left(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQUEUE_TEST_DSN", raising=False)
    tests = run(pytester, "-n", "2")
    assert len({(server, template) for server, template, _ in tests}) == 1
    assert len({database for _, _, database in tests}) == 4
    server = tests[0][0]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server, connect_timeout=2)


def test_a_server_that_is_given_is_used_and_left_as_it_was(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, database_server: SharedServer
) -> None:
    monkeypatch.setenv("PGQUEUE_TEST_DSN", database_server.dsn)
    tests = run(pytester, "-n", "0")
    (template,) = {template for _, template, _ in tests}
    assert template != database_server.template
    with psycopg.connect(database_server.dsn) as connection:
        names = {name for (name,) in connection.execute("select datname from pg_database").fetchall()}
    assert database_server.template in names
    assert not names & {template, *(database for _, _, database in tests)}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("postgresql://postgres@/postgres?host=/run", "postgresql://postgres@/orders?host=%2Frun"),
        ("host=db port=6432 user=me password=p@ss dbname=x", "postgresql://me:p%40ss@db:6432/orders"),
        ("host=/run port=6432 dbname=x sslmode=disable", "postgresql:///orders?host=%2Frun&port=6432&sslmode=disable"),
    ],
)
def test_the_dsn_of_another_database_keeps_everything_else(server: str, expected: str) -> None:
    assert dsn(server, "orders") == expected
    assert Database(expected).name == "orders"


def test_the_extra_brings_what_the_fixtures_import() -> None:
    """Beside what pgqueue needs itself, and what its own packages bring: docker comes with testcontainers."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = {name(each) for each in (*project["dependencies"], *project["optional-dependencies"]["testing"])}
    brought = declared | {name(each) for package in declared for each in requires(package) or ()}
    distributions = packages_distributions()
    imported = {
        module
        for path in Path(pgqueue.testing.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for module in modules(node)
        if module not in sys.stdlib_module_names and module != "pgqueue"
    }
    assert {"psycopg", "pytest", "testcontainers"} <= imported
    assert {module for module in imported if not brought & {*map(str.lower, distributions[module])}} == set()


def modules(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {each.name.partition(".")[0] for each in names}
        case ast.ImportFrom(module=str(module)):
            return {module.partition(".")[0]}
    return set()


def name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower()
