"""When an empty queue is worth another poll, and which steps notify the receivers that pause until then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    LOCK_DURATION,
    SECOND,
    Received,
    Session,
    Stage,
    passed,
    told,
    turns_until,
    until_awaited_are_over,
)

LONG = timedelta(hours=1)

SEQUENCE_WENT_BACK = "horizon = 1000000000"
CLOCK_WENT_BACK = "horizon_taken_at = pgqueue.clock() + interval '1 hour'"


def due_in(session: Session) -> float | None:
    found: float | None = session.call("_due_in", queue="q")
    return found


def settled(stage: Stage, session: Session) -> None:
    """Until nothing is left to find out about the queue."""

    def is_settled() -> bool:
        until_awaited_are_over(session)
        return due_in(session) != 1

    turns_until(stage, session, is_settled)


def test_nothing_is_known_to_come_to_an_empty_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        settled(stage, ann)
        assert due_in(ann) is None


def test_it_is_known_when_a_lock_runs_out(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann)
        settled(stage, ann)
        assert due_in(ann) == (received.locked_until - ann.call("clock")).total_seconds()


@pytest.mark.parametrize("verb", ["schedule", "abandon", "postpone"])
def test_it_is_known_when_a_message_is_due(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        time = ann.call("clock") + LONG
        if verb == "schedule":
            ann.call("schedule", queue="q", body=Jsonb(1), at=time)
        else:
            ann.send("a")
            ann.settle(verb, ann.receive()[0], delay=LONG)
        settled(stage, ann)
        assert due_in(ann) == (time - ann.call("clock")).total_seconds()


def test_the_earliest_counts(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        passed(stage, ann)
        ann.call("schedule", queue="q", body=Jsonb(1), at=ann.call("clock") + 40 * SECOND)
        ann.call("schedule", queue="q", body=Jsonb(1), at=ann.call("clock") + 50 * SECOND)
        settled(stage, ann)
        assert (
            due_in(ann)
            == (
                ann.value("select min(scheduled_enqueue_time) - pgqueue.clock() from pgqueue.scheduled_message")
            ).total_seconds()
        )


def test_while_a_lock_is_not_under_watch_it_is_looked_again_soon(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        settled(stage, ann)
        ann.send("a")
        ann.receive()
        assert due_in(ann) == 1


def test_the_queue_is_polled_again_soon_while_a_sender_is_awaited(database: Database) -> None:
    """A sender that sent before any receiver waited notifies none when it commits."""
    with Stage(database) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.begin()
        ann.send("late")
        passed(stage, ben)
        turns_until(stage, ben, lambda: ben.value("select awaited <> '{}' from pgqueue.progress where lane = 1"))
        assert due_in(ben) == 1
        ann.commit()


def test_the_queue_is_polled_again_soon_where_all_locks_are_short(database: Database) -> None:
    with Stage(database, lock_duration=4 * SECOND) as stage:
        assert due_in(stage.session("ann")) == 1


@pytest.mark.parametrize("change", [SEQUENCE_WENT_BACK, CLOCK_WENT_BACK])
def test_the_queue_is_polled_again_soon_while_a_repair_is_pending(database: Database, change: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        settled(stage, ann)
        ann.begin()
        ann.rows(f"update pgqueue.progress set {change}")
        assert due_in(ann) == 1
        ann.rollback()


def abandoned(session: Session, message: Received) -> None:
    session.abandon(message, delay=SECOND)


def abandoned_together(session: Session, message: Received) -> None:
    session.settle_batch("abandon_batch", [message], delay=SECOND)


def postponed(session: Session, message: Received) -> None:
    session.settle("postpone", message, delay=SECOND)


def scheduled(session: Session, message: Received) -> None:
    session.call("schedule", queue="q", body=Jsonb(1), at=session.call("clock") + SECOND)


def locked_for(session: Session, message: Received, *, time: timedelta | None) -> None:
    """Locks another message."""
    assert session.receive(lock_duration=time)


def renewed_for(session: Session, message: Received, *, time: timedelta | None) -> None:
    session.settle("renew_lock", message, lock_duration=time)


def renewed_together_for(session: Session, message: Received, *, time: timedelta | None) -> None:
    session.settle_batch("renew_lock_batch", [message], lock_duration=time)


def altered(session: Session, message: Received) -> None:
    session.call("alter_queue", queue="q", lock_duration=SECOND)


Step = Callable[[Session, Received], None]

SOON = [
    pytest.param(abandoned, id="abandon"),
    pytest.param(abandoned_together, id="abandon_batch"),
    pytest.param(postponed, id="postpone"),
    pytest.param(scheduled, id="schedule"),
    pytest.param(partial(locked_for, time=SECOND), id="receive"),
    pytest.param(partial(renewed_for, time=SECOND), id="renew_lock"),
    pytest.param(partial(renewed_together_for, time=SECOND), id="renew_lock_batch"),
    pytest.param(altered, id="alter_queue"),
]


@pytest.mark.parametrize("step", SOON)
@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "not awaited"])
def test_waiting_receivers_are_notified_of_an_earlier_due_time(database: Database, step: Step, awaited: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        (received,) = ann.receive()
        with told(stage, ann, times=int(awaited), awaited=awaited):
            step(ann, received)


@pytest.mark.parametrize("lock", [locked_for, renewed_for, renewed_together_for])
@pytest.mark.parametrize("time", [None, 5 * SECOND, LOCK_DURATION])
def test_a_lock_that_lasts_rings_no_bell(database: Database, lock: Callable[..., None], time: timedelta | None) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        (received,) = ann.receive()
        with told(stage, ann, times=0):
            lock(ann, received, time=time)


def test_where_all_locks_are_short_they_ring_no_bell(database: Database) -> None:
    with Stage(database, lock_duration=4 * SECOND) as stage:
        ann = stage.session("ann")
        ann.send("a")
        with told(stage, ann, times=0):
            (received,) = ann.receive(lock_duration=2 * SECOND)
            ann.settle("renew_lock", received, lock_duration=SECOND)
