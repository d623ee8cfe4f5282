"""With priority_ageing a message rises by one priority for every so long that it waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, SECOND, Session, Stage, refused

AGEING = timedelta(seconds=80)


def wait(stage: Stage, session: Session, time: timedelta) -> None:
    """Time passes, and turns are taken as receives would take them."""
    for _ in range(16):
        stage.passes(time / 16)
        session.call("take_turn", queue="q")


def priorities(session: Session) -> list[int]:
    """In the order of the sequence numbers."""
    return session.values("select priority from pgqueue.messages order by sequence_number")


def test_a_waiting_message_rises_past_the_urgent_ones(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("urgent", priority=-1)
        (old,) = ann.send("old")
        wait(stage, ann, AGEING * 0.9)
        assert priorities(ann) == [-1, 0]
        wait(stage, ann, AGEING * 0.3)
        assert priorities(ann) == [-1, -1]
        assert ann.numbers() == [old]


def test_it_rises_to_the_next_priority_in_use_after_as_many_times_as_there_are_between(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("a", priority=-5)
        ann.send("b", priority=-2)
        ann.send("c")
        wait(stage, ann, AGEING * 1.8)
        assert priorities(ann) == [-5, -2, 0]
        wait(stage, ann, AGEING * 0.8)
        assert priorities(ann) == [-5, -2, -2]
        wait(stage, ann, AGEING * 1)
        assert priorities(ann) == [-5, -5, -2]
        wait(stage, ann, AGEING * 2.4)
        assert priorities(ann) == [-5, -5, -5]


def test_those_that_rise_keep_their_order_and_come_before_fresh_ones(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        urgent = ann.send("a", priority=-1)
        old = ann.send_many(120)
        wait(stage, ann, AGEING * 1.2)
        assert ann.numbers(200) == old + urgent


def test_locked_and_deferred_messages_do_not_rise(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("locked", "deferred", "urgent")
        locked, deferred = ann.receive(2, lock_duration=20 * AGEING)
        ann.settle("defer", deferred)
        ann.send("a", priority=-1)
        wait(stage, ann, AGEING * 3)
        assert priorities(ann) == [0, 0, -1, -1]
        ann.complete(locked)


def test_a_returned_message_ages_from_the_start(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        ann.send("urgent", priority=-1)
        wait(stage, ann, AGEING / 2)
        ann.abandon(received)
        wait(stage, ann, AGEING * 0.9)
        assert priorities(ann) == [0, -1]
        wait(stage, ann, AGEING * 0.3)
        assert priorities(ann) == [-1, -1]


def nearly_due(stage: Stage, session: Session) -> None:
    """Half a second before the messages rise; the recorded cursor stays where it is until then."""
    session.send("a", "b")
    session.send("urgent", priority=-1)
    session.call("take_turn", queue="q")
    stage.passes(AGEING - SECOND / 2)
    session.call("take_turn", queue="q")


def test_a_message_that_has_just_been_locked_does_not_rise(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        nearly_due(stage, ann)
        ann.receive(2, take_turn=False)
        stage.passes(SECOND / 2)
        ann.call("take_turn", queue="q")
        assert priorities(ann) == [0, -1, -1]


def test_a_turn_does_not_wait_for_a_message_that_is_being_received(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann, ben = stage.sessions("ann", "ben")
        nearly_due(stage, ann)
        ben.begin()
        ben.receive(2, take_turn=False)
        stage.passes(SECOND / 2)
        ann.call("take_turn", queue="q")
        ben.rollback()
        assert priorities(ann) == [0, -1, -1]


def test_two_turns_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.send("a")
        ann.send("urgent", priority=-1)
        ben.begin()
        ben.call("take_turn", queue="q")
        ann.call("take_turn", queue="q")
        ben.commit()


def test_at_most_a_hundred_rise_in_a_turn(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("urgent", priority=-1)
        ann.send_many(150)
        ann.call("take_turn", queue="q")
        stage.passes(AGEING)
        for risen in (100, 150):
            ann.call("take_turn", queue="q")
            assert priorities(ann).count(-1) == risen + 1


def test_without_the_setting_nothing_rises_and_nothing_is_recorded(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.send("urgent", priority=-1)
        wait(stage, ann, 100 * AGEING)
        assert priorities(ann) == [0, -1]
        assert ann.values("select mark_times from pgqueue.progress where mark_times is not null") == []


def test_a_queue_with_one_priority_records_nothing(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("a")
        wait(stage, ann, 2 * AGEING)
        assert ann.values("select mark_times from pgqueue.progress where mark_times is not null") == []


def test_a_clock_that_goes_back_does_not_stop_the_ageing(database: Database) -> None:
    with Stage(database, priority_ageing=AGEING) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.send("urgent", priority=-1)
        wait(stage, ann, AGEING / 2)
        stage.passes(-10 * AGEING)
        wait(stage, ann, AGEING * 1.3)
        assert priorities(ann) == [-1, -1]


@pytest.mark.parametrize("ageing", [SECOND * 0.9, timedelta(days=31)])
def test_ageing_takes_a_second_at_least(database: Database, ageing: timedelta) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.call("alter_queue", queue="q", priority_ageing=ageing)
