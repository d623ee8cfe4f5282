"""The plugin as an application uses it: in a test run of its own."""

from __future__ import annotations

import psycopg
import pytest

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
    """Run the tests of an application and tell which server, template and database each of them had."""
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
