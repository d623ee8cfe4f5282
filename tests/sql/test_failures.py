"""The errors of failed deliveries: how much of them is kept, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import DEAD, INVALID_ARGUMENT, LOCK_DURATION, SECOND, Session, Stage, passed, refused

ERROR = Jsonb({"type": "ValueError", "text": "no such street\nin town", "traceback": "at line 7"})
KEPT = "select sequence_number, last_error ->> 'type', delivery_log from pgqueue.failed_message"
DIED = "select dead_letter_error_description from pgqueue.dead_letters"


def failed(session: Session, **options: Any) -> int:
    """The number of a new message that was abandoned with an error."""
    session.send("a")
    (received,) = session.receive()
    session.abandon(received, error=ERROR, **options)
    return received.sequence_number


def completed(ann: Session) -> None:
    ann.complete(ann.receive()[0])


def purged(ann: Session) -> None:
    ann.call("purge_queue", queue="q")


def taken(ann: Session) -> None:
    assert ann.table("receive_and_delete", queue="q")


def dead_and_completed(ann: Session) -> None:
    ann.settle("dead_letter", ann.receive()[0], reason="r")
    ann.complete(ann.receive(queue=DEAD)[0], queue=DEAD)


def dead_and_purged(ann: Session) -> None:
    ann.settle("dead_letter", ann.receive()[0], reason="r")
    ann.call("purge_queue", queue=DEAD)


def cancelled(ann: Session) -> None:
    ann.abandon(ann.receive()[0], delay=SECOND)
    ann.call("cancel_scheduled", queue="q", sequence_numbers=[1])


def rested_and_purged(ann: Session) -> None:
    ann.abandon(ann.receive()[0], delay=SECOND)
    ann.call("purge_queue", queue="q")


def dropped(ann: Session) -> None:
    ann.call("drop_queue", queue="q")


ENDS = [completed, purged, taken, dead_and_completed, dead_and_purged, cancelled, rested_and_purged, dropped]


def errors_are_deleted_with_their_message(database: Database, end: Callable[[Session], None]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        failed(ann)
        assert ann.rows(KEPT) == [(1, "ValueError", None)]
        end(ann)
        assert ann.rows(KEPT) == []


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_the_errors_are_deleted_with_their_message(database: Database, end: Callable[[Session], None]) -> None:
    errors_are_deleted_with_their_message(database, end)


def test_the_last_error_is_kept_apart_from_the_message(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        failed(ann)
        assert ann.rows("select last_error from pgqueue.messages") == [("ValueError: no such street",)]
        assert ann.rows("select delivery_count, error_type, error_text, traceback from pgqueue.delivery_log") == [
            (1, "ValueError", "no such street\nin town", "at line 7")
        ]
        ann.abandon(ann.receive()[0])
        assert ann.value("select delivery_count from pgqueue.delivery_log") == 1


def test_a_queue_retains_as_many_errors_as_it_was_asked_to(database: Database) -> None:
    with Stage(database, retain_errors=2) as stage:
        ann = stage.session("ann")
        ann.send("a")
        for _ in range(3):
            ann.abandon(ann.receive()[0], error=ERROR)
        assert ann.values("select delivery_count from pgqueue.delivery_log") == [2, 3]


@pytest.mark.parametrize(
    "error",
    ["text", {}, {"text": "no type"}, {"type": None}, {"type": "T", "traceback": 7}, {"type": "T", "more": ""}],
    ids=str,
)
def test_an_error_that_is_none_is_refused(database: Database, error: Any) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        for verb, options in (("abandon", {}), ("dead_letter", {"reason": "r"})):
            with refused(INVALID_ARGUMENT, verb):
                ann.settle(verb, received, error=Jsonb(error), **options)
        ann.complete(received)


def test_long_texts_are_cut(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        error = Jsonb({"type": "T" * 9_999, "text": "t" * 9_999, "traceback": "x" * 9_999 + "end"})
        ann.abandon(ann.receive()[0], error=error)
        lengths = "length(error_type), length(error_text), length(traceback), right(traceback, 3)"
        assert ann.rows(f"select {lengths} from pgqueue.delivery_log") == [(200, 2000, 8000, "end")]


def test_an_expired_lock_is_reported_with_the_previous_failure(database: Database) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        failed(ann)
        ann.receive()
        stage.passes(LOCK_DURATION)
        assert ann.receive() == []
        holder = ann.connection.info.backend_pid
        assert ann.value(DIED) == (
            f"the queue allows 2 deliveries; the lock of delivery 2, held by ann:{holder}, expired;"
            " delivery 1 failed with ValueError: no such street"
        )


def test_errors_without_a_message_are_reported(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        failed(ann)
        ann.rows("delete from pgqueue.message")
        said = "queue 1 has kept the errors of message 1, which is not there or was never delivered"
        assert ann.values("select pgqueue.broken_invariants()") == [said]
        ann.rows("delete from pgqueue.failed_message")


def test_errors_of_a_dropped_queue_are_swept_with_what_else_belongs_to_none(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("drop_queue", queue="q")
        ann.rows("insert into pgqueue.failed_message (queue_id, sequence_number) values (1, 1)")
        assert len(ann.table("sweep")) == 1
        assert ann.rows(KEPT) == []


def states(session: Session) -> list[str]:
    return session.values("select state from pgqueue.messages order by sequence_number")


def test_a_message_is_dead_lettered_when_its_last_delivery_is_abandoned(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        first, second, third = ann.receive(3)
        ann.abandon(first)
        ann.abandon(second, delay=SECOND, error=ERROR)
        ann.settle_batch("abandon_batch", [third])
        assert states(ann) == []
        assert ann.values(DIED) == [
            "the queue allows 1 deliveries; delivery 1 was abandoned",
            "the queue allows 1 deliveries; delivery 1 failed with ValueError: no such street",
            "the queue allows 1 deliveries; delivery 1 was abandoned",
        ]


def test_a_message_that_may_be_delivered_again_is_not_dead_lettered(database: Database) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        first, second = ann.receive(2)
        ann.abandon(first)
        ann.settle_batch("abandon_batch", [second])
        assert states(ann) == ["READY", "READY"]


def test_an_exhausted_message_is_shown_as_such_until_its_lock_is_found_expired(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passed(stage, ann)
        assert states(bob) == ["LOCKED"]
        stage.passes(LOCK_DURATION)
        assert states(bob) == ["EXHAUSTED"]
        assert bob.rows("select ready, exhausted from pgqueue.queues") == [(0, 1)]
        assert not bob.call("take_turn", queue="q")
        assert states(bob) == []
        assert "expired" in bob.value(DIED)


def test_an_exhausted_message_that_has_expired_is_expired(database: Database) -> None:
    with Stage(database, max_delivery_count=1, default_message_time_to_live=SECOND) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        ann.abandon(received)
        assert states(ann) == ["EXPIRED"]
        assert ann.receive() == []
        assert ann.values(DIED) == []


def test_a_message_delivered_too_often_for_a_lowered_bound_is_exhausted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.settle("defer", ann.receive()[0])
        ann.abandon(ann.receive_deferred(1)[0])
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        assert states(ann) == ["EXHAUSTED"]
        assert ann.values("select state from pgqueue.deferred_messages") == ["EXHAUSTED"]


def test_a_resubmitted_message_keeps_what_it_died_of(database: Database) -> None:
    with Stage(database, retain_errors=5) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.settle("dead_letter", ann.receive()[0], reason="Bad", description="d", error=ERROR)
        ann.call("resubmit", queue="q")
        origin = ann.value("select resubmitted_from from pgqueue.messages")
        assert (origin["queue"], origin["reason"], origin["description"], origin["times"]) == (DEAD, "Bad", "d", 1)
        assert origin["last_error"]["type"] == "ValueError"
        assert ann.rows("select last_error from pgqueue.messages") == [(None,)]
        assert ann.value("select error_type from pgqueue.delivery_log") == "ValueError"


def test_a_message_delivered_too_often_for_a_lowered_bound_is_not_received(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        ann.abandon(ann.receive()[0])
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        assert ann.numbers(9, take_turn=False) == [2]
