"""Several commands in one round trip: what counts is the first that fails, and whether the caller needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgqueue.testing import Database
from pgqueue.transports.cursors import run

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
