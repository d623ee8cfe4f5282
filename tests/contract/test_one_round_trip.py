"""Several commands in one round trip: what counts is the first that fails, and whether the caller needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgqueue.testing import Database
from pgqueue.transports.cursors import run

PREPARED = "select statement from pg_prepared_statements where statement !~ 'pg_prepared' order by 1"
END_THIS_CONNECTION = "select pg_terminate_backend(pg_backend_pid())"


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with database.connect(autocommit=True) as connection:
        yield connection


def test_the_rows_are_those_of_the_last_command_needed(connection: psycopg.Connection[Any]) -> None:
    assert run(connection, ["select 1", "select 2, 'b'"]) == [(2, "b")]
    assert run(connection, ["select 1", "select 2"], needed=1) == [(1,)]
    assert not connection.closed


def test_a_failure_among_those_needed_is_raised(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(connection, ["select 1", "select 1 / 0", "select 2"], needed=2)
    assert not connection.closed


@pytest.mark.parametrize("last", ["select 1 / 0", END_THIS_CONNECTION])
def test_a_later_failure_closes_the_connection_and_keeps_the_rows(
    connection: psycopg.Connection[Any], last: str
) -> None:
    assert run(connection, ["select 1", last, "select 2"], needed=1) == [(1,)]
    assert connection.closed


@pytest.mark.parametrize(("threshold", "prepared"), [(0, ["select 1", "select 2"]), (2, []), (None, [])])
def test_commands_are_prepared_when_psycopg_prepares(
    connection: psycopg.Connection[Any], threshold: int | None, prepared: list[str]
) -> None:
    connection.prepare_threshold = threshold
    for _ in range(2):
        run(connection, ["select 1", "select 2"])
    assert run(connection, [PREPARED]) == [(statement,) for statement in prepared]


def test_commands_are_prepared_again_after_the_application_has_dropped_them(
    connection: psycopg.Connection[Any],
) -> None:
    connection.prepare_threshold = 0
    run(connection, ["select 1"])
    connection.execute("deallocate all")
    assert run(connection, ["select 1"]) == [(1,)]


@pytest.mark.parametrize("last", ["select no_such_column", "select 1 / 0"])
def test_a_command_that_fails_is_not_taken_for_prepared(connection: psycopg.Connection[Any], last: str) -> None:
    connection.prepare_threshold = 0
    for _ in range(2):
        with pytest.raises(psycopg.Error, match=r"no_such_column|division by zero"):
            run(connection, ["select 1", last, "select 2"])
    assert run(connection, ["select 2"]) == [(2,)]


def test_a_connection_that_ends_raises_why(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.AdminShutdown):
        run(connection, ["select 1", END_THIS_CONNECTION, "select 2"])
    assert connection.closed
