from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.errors import InvalidArgumentError
from pgqueue.testing import Clock, Database


@pytest.mark.core
def test_a_moved_clock_is_moved_for_every_connection_even_one_with_an_old_snapshot(
    database: Database, clock: Clock
) -> None:
    with database.connect() as connection:
        connection.execute("set transaction isolation level repeatable read")
        before = connection.execute("select pgqueue.clock()").fetchone()
        clock.move(timedelta(hours=3))
        after = connection.execute("select pgqueue.clock()").fetchone()
    assert before is not None
    assert after is not None
    assert timedelta(hours=3) <= after[0] - before[0] < timedelta(hours=3, minutes=1)


def test_a_clock_moves_backward_too_and_only_in_its_own_database(database: Database, empty_database: Database) -> None:
    start = database.clock.now()
    database.move_clock(timedelta(days=-1))
    database.move_clock(timedelta(microseconds=-1))
    assert start - database.clock.now() < timedelta(days=1, microseconds=1)
    assert start - database.clock.now() > timedelta(hours=23)


@pytest.mark.parametrize("by", [3, 0.5, None])
def test_a_clock_moves_by_timedeltas_only(clock: Clock, by: object) -> None:
    with pytest.raises(InvalidArgumentError, match="moves by a timedelta"):
        clock.move(by)  # type: ignore[arg-type]
