"""The short leg: two rounds of everything against everything; ``make chaos`` is the long one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos.__main__ import Arena, arena
from benchmarks.chaos.draining import Drain
from benchmarks.chaos.kinds import RECEIVERS
from benchmarks.chaos.plan import FAILOVERS, FAULTS, draw
from benchmarks.chaos.round import Moment
from pgqueue.testing.database import created

#: Seconds of a round in which faults happen.
FIRE = 8.0
#: Found by trying: no two come by more faults in so short a time.
SEEDS = (137, 853)


@pytest.fixture(scope="module")
def place() -> Iterator[Arena]:
    with arena() as place:
        yield place


@pytest.mark.chaos
@pytest.mark.timeout(900)  # a slow machine takes long to drain; what is stuck is found sooner than that
@pytest.mark.parametrize("seed", SEEDS)
def test_the_books_balance_under_all_faults(place: Arena, tmp_path: Path, seed: int) -> None:
    result = place.play(seed, FIRE, (), tmp_path / "books", watch=_look_away)
    assert result.violations == (), "\n".join(map(str, result.violations[:5]))
    assert result.acknowledged > 0
    assert result.evidence.sessions
    assert result.faults.total() > 0


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FAILOVERS)
def test_no_operation_is_lost_or_repeated_when_a_standby_is_promoted(place: Arena, tmp_path: Path, name: str) -> None:
    result = place.play(1, FIRE, (name, "two-phase"), tmp_path / "books", watch=_look_away)
    assert result.violations == (), "\n".join(map(str, result.violations[:5]))
    assert result.acknowledged > 0
    assert result.faults[name] == 1


def test_a_prepared_send_is_decided_before_a_round_is_over(place: Arena) -> None:
    with created(place.server.dsn(), place.template) as database:
        with database.connect() as connection:
            connection.execute("select pgqueue.create_queue('orders')")
            connection.execute("select pgqueue.send('orders', '1')")
            connection.execute("prepare transaction 'left'")
        assert Drain(database, {}, tick=lambda: None).run() == ()
        with database.connect() as connection:
            assert connection.execute("select from pg_prepared_xacts").fetchall() == []


def test_the_short_leg_comes_by_nearly_all_faults() -> None:
    plans = [draw(seed, FIRE, list(RECEIVERS), [], ()) for seed in SEEDS]
    assert FAULTS.keys() - {fault.name for plan in plans for fault in plan.faults} == {"crash", "exhaust"}


def _look_away(moment: Moment) -> None: ...
