"""The histories of two messages of a session that the model of a session's life is asked about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.chaos.histories import Event
from tests.chaos.under_fire.stories import Story, dead, waiting

DELIVERED = Event("deliver", "1", message=1)
COMPLETED = Event("settle", "1", "gone", message=1, has_effect=True, after=(1,))


def received() -> Story:
    """Two messages were sent to a session, and the first was received from it."""
    story = Story()
    story.send_to_session("a")
    story.send_to_session("b")
    story.receive("t", message="a")
    return story


def gone(message: int, events: int) -> Event:
    return Event("find", message=message, places=("gone",), effects=1, after=tuple(range(1, events + 1)))


def test_neighbours_are_delivered_completed_and_gone() -> None:
    story = received()
    first = story.settle("t", message="a")
    story.release("t")
    story.receive("u", message="b")
    second = story.settle("u", message="b")
    assert story.pairs(effects={"a": [first], "b": [second]}) == [
        (
            DELIVERED,
            COMPLETED,
            Event("release", "1", after=(1, 2)),
            Event("deliver", "2", message=2, after=(1, 2, 3)),
            Event("settle", "2", "gone", message=2, has_effect=True, after=(1, 2, 3, 4)),
            gone(1, 5),
            gone(2, 5),
        )
    ]


def test_a_message_may_wait_and_a_settlement_be_in_doubt() -> None:
    story = received()
    story.settle("t", "abandon", outcome="unknown", effect=False, message="a")
    story.release("t", outcome="unknown")
    story.settle("u", outcome="ok", state="lost", message="a")
    [history] = story.pairs(waiting("a"), waiting("b"), effects={})
    assert history == (
        Event("deliver", "2", message=1),
        DELIVERED,
        Event("settle", "1", "ready", message=1, is_in_doubt=True, after=(2,)),
        Event("release", "1", is_in_doubt=True, after=(2,)),
        Event("lose", "2", message=1, after=(1, 2)),
        *(
            Event("find", message=number, places=("ready", "delayed", "deferred"), after=(1, 2, 3, 4, 5))
            for number in (1, 2)
        ),
    )


def test_messages_that_were_sent_at_the_same_time_are_no_neighbours() -> None:
    story = Story()
    story.send_to_session("a", began=0, took=2)
    story.send_to_session("b", began=1, took=2)
    assert story.pairs(waiting("a"), waiting("b"), effects={}) == []


def test_a_sequence_that_goes_back_decides_what_is_sent_later() -> None:
    story = received()
    story.rewind()
    story.send_to_session("c")
    [history] = story.pairs(*map(waiting, "abc"), effects={})
    assert history[0] == DELIVERED


@pytest.mark.parametrize(
    "happen",
    [
        lambda story: story.forget(),
        lambda story: story.take("a"),
        lambda story: story.settle("t", "dead_letter", effect=False, message="a"),
        lambda story: story.receive("t", message="a"),
        lambda story: [story.receive(str(number), message="a") for number in range(20)],
    ],
    ids=["failover", "taken", "dead-lettered", "delivered twice under a lock", "many deliveries"],
)
def test_the_model_is_not_asked_about_what_it_does_not_have(happen: Callable[[Story], object]) -> None:
    story = received()
    assert len(story.pairs(waiting("a"), waiting("b"), effects={})) == 1
    happen(story)
    assert story.pairs(waiting("a"), waiting("b"), effects={}) == []


def test_dead_letters_and_unknown_effects_are_left_out() -> None:
    assert received().pairs(dead("a"), waiting("b"), effects={}) == []
    assert received().pairs(waiting("b"), effects={"a": ["another"]}) == []


def test_a_settlement_that_was_refused_is_a_lock_that_is_lost() -> None:
    story = received()
    story.settle("t", outcome="fail", message="a", error="SessionLockLostError: the lock is lost")
    story.receive("u", message="a")
    done = story.settle("u", message="a")
    [history] = story.pairs(waiting("b"), effects={"a": [done]})
    assert [event.verb for event in history] == ["deliver", "lose", "deliver", "settle", "find", "find"]
