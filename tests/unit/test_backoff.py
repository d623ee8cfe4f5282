"""Pauses that grow, and all that are made of them."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.flows.processing import RESTS
from pgqueue.model.backoff import AFTER_FAILURES, Backoff, polls_within
from pgqueue.worker import processes

QUARTER = timedelta(milliseconds=250)
NOTHING = timedelta(0)


def test_pauses_grow_by_a_factor_up_to_the_longest() -> None:
    assert list(islice(Backoff(1.0, 20.0, factor=3), 5)) == [1, 3, 9, 20, 20]
    assert list(islice(Backoff(1.0, 20.0, factor=1), 3)) == [1, 1, 1]


def test_jitter_picks_a_share_of_each_pause() -> None:
    backoff = Backoff(1.0, 10.0, jitter=(0.5, 1.5))
    assert [backoff.pause(2, share) for share in (0, 0.5, 1)] == [1, 2, 3]
    assert backoff.pause(9, 1) == 15


@pytest.mark.parametrize(
    "backoff",
    [Backoff(timedelta(1), timedelta(7)), Backoff(timedelta(1), timedelta(7), factor=1e300)],
    ids=["of a time", "of a number"],
)
def test_a_pause_longer_than_any_timedelta_is_the_longest(backoff: Backoff[timedelta]) -> None:
    assert backoff.pause(1) == timedelta(1)
    assert backoff.pause(1_000_000) == timedelta(7)


def test_nothing_stays_nothing() -> None:
    assert Backoff(NOTHING, QUARTER).pause(1_000_000) == NOTHING


@given(st.timedeltas(min_value=NOTHING, max_value=timedelta(minutes=10)))
def test_the_pauses_between_polls_add_up_to_the_budget(budget: timedelta) -> None:
    taken = list(polls_within(budget))
    assert sum(taken, NOTHING) == budget
    assert all(NOTHING < pause <= QUARTER for pause in taken)


def test_polls_are_frequent_at_first_and_four_times_a_second_later() -> None:
    taken = list(polls_within(timedelta(seconds=5)))[:-1]
    assert taken[0] == timedelta(milliseconds=5)
    assert all(following == min(pause * 2, QUARTER) for pause, following in pairwise(taken))


@pytest.mark.parametrize("budget", [NOTHING, timedelta(seconds=-1)])
def test_without_a_budget_there_is_no_pause(budget: timedelta) -> None:
    assert list(polls_within(budget)) == []


def test_a_message_is_delayed_from_a_second_to_five_minutes() -> None:
    seconds = [RESTS.pause(count).total_seconds() for count in range(1, 12)]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert RESTS.pause(0) == timedelta(seconds=1)
    assert RESTS.pause(1_000) == timedelta(minutes=5)


def test_failures_in_a_row_are_answered_with_longer_pauses_up_to_a_bound() -> None:
    assert [AFTER_FAILURES.pause(number, 1) for number in (1, 2, 3, 8, 9, 1_000)] == [0.1, 0.2, 0.4, 12.8, 15, 15]
    assert AFTER_FAILURES.pause(1, 0) == 0.05


def test_a_process_that_dies_at_once_again_and_again_is_replaced_later_each_time() -> None:
    place = processes.Place(1)
    assert [place.died(lived=0.1) for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert place.died(lived=processes.LONG_ENOUGH) == 0.5
