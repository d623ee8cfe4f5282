"""How much a worker claims, and when it looks again."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pgqueue.worker.pace import AHEAD, LONGEST_PAUSE, Pace


def at_rate(rate: float, concurrency: int = 4, most_ahead: int = 1000) -> Pace:
    pace = Pace(concurrency, most_ahead)
    for tick in range(30):
        pace.finished(int(rate * AHEAD) if tick else 0, tick * AHEAD)
    return pace


def test_slow_handlers_get_as_many_as_there_are_idle_slots() -> None:
    pace = at_rate(10)
    assert [pace.demand(running, 0) for running in (0, 1, 4)] == [4, 3, 0]


def test_fast_handlers_get_half_of_what_they_will_have_handled_meanwhile() -> None:
    pace = at_rate(5_000)
    assert pace.ahead in range(95, 101)
    assert pace.demand(4, 0) == pace.ahead // 2


@pytest.mark.parametrize(
    ("running", "most_ahead", "claims"),
    [
        (4, 0, [0]),
        (0, 0, [4, 0]),
        (4, 1, [1, 0]),
        (3, 1, [1, 1, 0]),
        (4, 50, [25, 25, 0]),
        (0, 50, [27, 27, 0]),
        (0, 49, [26, 26, 0]),
    ],
)
def test_the_other_half_is_claimed_at_once_and_no_more(running: int, most_ahead: int, claims: list[int]) -> None:
    pace = at_rate(5_000, most_ahead=most_ahead)
    waiting = 0
    for claim in claims:
        assert pace.demand(running, waiting) == claim
        waiting += claim
    assert waiting <= most_ahead + pace.concurrency - running


def test_nothing_is_claimed_while_half_of_it_lies_ready() -> None:
    pace = at_rate(5_000)
    assert pace.demand(4, 60) == 0
    assert pace.demand(4, 40) > 0


def test_the_number_of_messages_ahead_is_bounded() -> None:
    assert at_rate(1_000_000, most_ahead=50).ahead == 50
    assert at_rate(1_000_000, most_ahead=0).demand(0, 0) == 4


def test_a_burst_that_is_over_is_forgotten() -> None:
    pace = at_rate(5_000)
    for tick in range(30, 60):
        pace.finished(0, tick * AHEAD)
    assert pace.ahead == 0


def test_a_full_claim_is_followed_by_another_at_once() -> None:
    assert Pace(4, 0).pause(found=4, wanted=4) is None


def test_empty_claims_are_further_and_further_apart_until_one_finds_a_message() -> None:
    pace = Pace(4, 0)
    pauses = [pace.pause(found=0, wanted=4) or 0 for _ in range(30)]
    assert all(before <= after for before, after in pairwise(pauses))
    assert (pauses[0] <= 0.01, pauses[-1]) == (True, LONGEST_PAUSE)
    assert pace.pause(found=1, wanted=4) == pauses[0]
