"""The histories of messages that the model of a message's life is asked about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.chaos.histories import Event, add, load
from tests.chaos.under_fire.stories import Story, dead, waiting

DELIVERED = Event("deliver", "1", count=1)
COMPLETED = Event("settle", "1", "gone", has_effect=True, after=(1,))


def received() -> Story:
    story = Story()
    story.send()
    story.receive("t")
    return story


def test_a_message_is_delivered_completed_and_gone() -> None:
    story = received()
    done = story.settle("t")
    gone = Event("find", places=("gone",), effects=1, after=(1, 2))
    assert story.history(effects=[done]) == (DELIVERED, COMPLETED, gone)


def test_a_settlement_that_was_not_done_is_no_event() -> None:
    story = received()
    story.settle("t", outcome="fail", state="received")
    story.settle("t", outcome="unknown")
    done = story.settle("t", outcome="unknown")
    story.settle("t", "renew", outcome="unknown", effect=False)
    gone = Event("find", places=("gone",), effects=1, after=(1, 2))
    assert story.history(effects=[done]) == (DELIVERED, COMPLETED, gone)


def test_a_settlement_without_an_effect_may_be_in_doubt_and_comes_before_nothing() -> None:
    story = received()
    story.settle("t", "abandon", outcome="unknown", effect=False)
    story.receive("u", count=2)
    story.settle("u", "dead_letter", effect=False)
    assert story.history(dead()) == (
        DELIVERED,
        Event("deliver", "2", count=2),  # it may have been locked ahead
        Event("settle", "1", "ready", is_in_doubt=True, after=(1,)),
        Event("settle", "2", "dead", after=(1, 2)),
        Event("find", places=("dead",), after=(1, 2, 3, 4)),
    )


def test_a_lock_may_be_lost_and_the_delivery_of_another_unknown() -> None:
    story = received()
    story.settle("t", "renew", effect=False)
    story.settle("t", outcome="ok", state="lost")
    story.settle("u", "defer", effect=False)
    assert story.history(waiting()) == (
        Event("deliver", "2"),
        DELIVERED,
        Event("renew", "1", after=(2,)),
        Event("lose", "1", after=(2, 3)),
        Event("settle", "2", "deferred", after=(1, 2, 3, 4)),
        Event("find", places=("ready", "scheduled", "deferred"), after=(1, 2, 3, 4, 5)),
    )


def test_the_model_is_not_asked_about_what_it_does_not_have() -> None:
    for verb, given in (("wipe", []), ("rewind", []), ("forget", []), ("take", ["m"])):
        story = received()
        done = story.settle("t")
        assert story.history(effects=[done]) is not None
        getattr(story, verb)(*given)
        assert story.history(effects=[done]) is None
    story = received()
    story.settle("t")
    assert story.history(effects=["another"]) is None
    assert received().history(waiting()) is None


def test_a_file_has_one_history_of_each_course(tmp_path: Path) -> None:
    path = tmp_path / "histories.jsonl"
    one = (DELIVERED, COMPLETED, Event("find", places=("gone",), effects=1, after=(1, 2)))
    other = (DELIVERED, Event("find", places=("dead",), after=(1,)))
    add(path, [one, one])
    add(path, [other, (DELIVERED, replace(COMPLETED, after=()), one[-1])])
    assert sorted(load(path), key=len) == [other, one]
