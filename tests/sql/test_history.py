"""Outcomes of settled messages, in queues that retain history, for as long as they do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import DEAD, LOCK_DURATION, LOCK_LOST, SECOND, Session, Stage, refused

DAY = timedelta(days=1)
OUTCOMES = "select sequence_number, outcome, reason from pgqueue.history order by sequence_number"
ROWS = "select count(*) from pgqueue.settled_message"
RECLAIMED = (None, 0, 0, 0, 0, 0, 1, 0, 0, True)


def retaining(database: Database, retain_history: timedelta = 7 * DAY, **settings: Any) -> Stage:
    return Stage(database, retain_history=retain_history, **settings)


def test_a_completed_message_is_written_down_with_its_times_its_count_and_its_holder(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send(
            "a", message_id="m", correlation_id="c", subject="s", content_type="t", priority=-2, queue="q"
        )
        stage.passes(SECOND)
        ann.abandon(ann.receive()[0])
        stage.passes(2 * SECOND)
        (received,) = ann.receive(locked_by="worker 7")
        stage.passes(4 * SECOND)
        transaction = ann.complete(received)
        carried = (True, "m", "c", "s", "t")
        assert ann.rows(
            "select queue, sequence_number, outcome, reason, first_locked_at - enqueued_time,"
            " settled_at - first_locked_at, pgqueue.clock() - settled_at, delivery_count, locked_by, priority,"
            " body_size > 0, message_id, correlation_id, subject, content_type, transaction_id::text"
            " from pgqueue.history"
        ) == [
            (
                "q",
                number,
                "COMPLETED",
                None,
                SECOND,
                6 * SECOND,
                0 * SECOND,
                2,
                "worker 7",
                -2,
                *carried,
                str(transaction),
            )
        ]


def test_a_fresh_message_is_written_down_when_it_is_completed(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        ann.complete(ann.receive()[0])
        assert ann.rows(OUTCOMES) == [(number, "COMPLETED", None)]


@pytest.mark.parametrize("came_back", [False, True], ids=["fresh", "came back"])
def test_a_batch_is_written_down_message_by_message(database: Database, came_back: bool) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(150)
        if came_back:
            ann.settle_batch("abandon_batch", ann.receive(150))
        messages = ann.receive(150)
        for some in (messages[:50], messages[50:]):
            assert {code for _, code in ann.settle_batch("complete_batch", some)} == {None}
        assert ann.rows(OUTCOMES) == [(number, "COMPLETED", None) for number in numbers]
        with refused(LOCK_LOST):
            ann.settle_batch("complete_batch", messages, atomic=True)
        assert ann.value(ROWS) == 150


def test_dead_lettering_is_written_down_with_the_reason(database: Database) -> None:
    with retaining(database, max_delivery_count=1, dead_lettering_on_message_expiration=True) as stage:
        ann = stage.session("ann")
        numbers = ann.send("own reason", "met", "swept")
        numbers += ann.send("expired", time_to_live=SECOND)
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        ann.abandon(ann.receive()[0])
        assert ann.numbers(2) == numbers[2:]
        stage.passes(LOCK_DURATION)
        ann.table("sweep")
        assert ann.rows(OUTCOMES) == [
            (numbers[0], "DEAD_LETTERED", "r"),
            (numbers[1], "DEAD_LETTERED", "MaxDeliveryCountExceeded"),
            (numbers[2], "DEAD_LETTERED", "MaxDeliveryCountExceeded"),
            (numbers[3], "DEAD_LETTERED", "TTLExpiredException"),
        ]


def test_expired_messages_are_in_the_history_whichever_verb_removes_them(database: Database) -> None:
    with retaining(database, default_message_time_to_live=SECOND) as stage:
        ann = stage.session("ann")
        first, deferred, second = ann.send("received", "deferred", "swept")
        ann.abandon(ann.receive()[0])
        _, message = ann.receive(2)
        ann.settle("defer", message)
        stage.passes(LOCK_DURATION)
        assert ann.receive_deferred(deferred) == []
        assert ann.rows(OUTCOMES) == [(deferred, "EXPIRED", None)]
        assert ann.receive(take_turn=False) == []
        ann.table("sweep")
        assert ann.rows(OUTCOMES) == [(number, "EXPIRED", None) for number in (first, deferred, second)]


def test_messages_received_and_deleted_are_in_the_history(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        first, second = ann.send("a", "b")
        ann.abandon(ann.receive()[0])
        stage.passes(SECOND)
        ann.rows("select from pgqueue.receive_and_delete('q', 9)")
        assert ann.rows(
            "select sequence_number, outcome, delivery_count, settled_at - first_locked_at, locked_by is not null"
            " from pgqueue.history order by sequence_number"
        ) == [
            (first, "RECEIVED_AND_DELETED", 2, SECOND, True),
            (second, "RECEIVED_AND_DELETED", 1, 0 * SECOND, True),
        ]


def test_purged_or_cancelled_messages_are_in_the_history(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        (waiting,) = ann.send("a")
        at = ann.call("clock") + SECOND
        purged, cancelled = (ann.call("schedule", queue="q", body=Jsonb("a"), at=at) for _ in range(2))
        ann.call("cancel_scheduled", queue="q", sequence_numbers=[cancelled])
        ann.call("purge_queue", queue="q")
        assert ann.rows(OUTCOMES) == [
            (waiting, "PURGED", None),
            (purged, "PURGED", None),
            (cancelled, "CANCELLED", None),
        ]
        assert ann.values("select first_locked_at from pgqueue.history") == [None] * 3


def test_the_first_lock_is_remembered_through_delays_and_deferrals(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        first_locked = ann.call("clock")
        ann.abandon(ann.receive()[0], delay=SECOND)
        stage.passes(SECOND)
        ann.settle("defer", ann.receive()[0])
        stage.passes(SECOND)
        ann.complete(ann.receive_deferred(number)[0])
        assert ann.rows("select first_locked_at, priority from pgqueue.history") == [(first_locked, 0)]


def test_a_settlement_that_is_rolled_back_is_not_written_down(database: Database) -> None:
    with retaining(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        assert bob.value(ROWS) == 0
        ann.rollback()
        assert ann.value(ROWS) == 0
        ann.complete(received)
        assert bob.value(ROWS) == 1


def test_unsettled_messages_are_not_in_the_history(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        for verb in ("abandon", "renew_lock", "defer"):
            (received,) = ann.receive()
            ann.settle(verb, received)
            if verb == "renew_lock":
                ann.settle_batch("release_batch", [received])
        assert ann.value(ROWS) == 0


def test_a_message_that_is_resubmitted_is_written_down_again(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        ann.table("resubmit", queue="q")
        stage.passes(SECOND)
        ann.complete(ann.receive()[0])
        assert ann.values("select outcome from pgqueue.history order by settled_at") == ["DEAD_LETTERED", "COMPLETED"]


def test_the_end_of_a_dead_letter_is_not_in_the_history(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        ann.settle_batch("dead_letter_batch", ann.receive(2), reason="r")
        ann.complete(ann.receive(queue=DEAD)[0], queue=DEAD)
        ann.rows(f"select from pgqueue.receive_and_delete('{DEAD}')")
        assert [outcome for _, outcome, _ in ann.rows(OUTCOMES)] == ["DEAD_LETTERED"] * 2


def test_a_queue_that_retains_nothing_writes_nothing_down(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("completed", "in a batch", "dead", "often", "purged")
        ann.send("expired", time_to_live=SECOND)
        completed, batch, dead, often = ann.receive(4)
        ann.complete(completed)
        ann.settle_batch("complete_batch", [batch])
        ann.settle("dead_letter", dead, reason="r")
        ann.abandon(often)
        number = ann.call("schedule", queue="q", body=Jsonb("a"), at=ann.call("clock") + SECOND)
        ann.call("cancel_scheduled", queue="q", sequence_numbers=[number])
        ann.rows("select from pgqueue.receive_and_delete('q')")
        stage.passes(SECOND)
        ann.table("sweep")
        ann.send("purged")
        ann.call("purge_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.message") == 0
        assert ann.value(ROWS) == 0


def test_rows_vanish_when_their_queue_retains_them_no_longer(database: Database) -> None:
    with retaining(database, 2 * DAY) as stage:
        ann = stage.session("ann")
        settled(ann)
        stage.passes(2 * DAY - SECOND)
        assert len(ann.rows(OUTCOMES)) == 1
        stage.passes(SECOND)
        assert ann.rows(OUTCOMES) == []


def test_the_history_of_a_queue_that_stops_retaining_vanishes(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        settled(ann)
        ann.call("alter_queue", queue="q", retain_history=timedelta(0))
        assert ann.rows(OUTCOMES) == []


def test_the_history_of_a_dropped_queue_vanishes(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        settled(ann)
        ann.call("drop_queue", queue="q")
        ann.call("create_queue", queue="q", retain_history=DAY)
        assert ann.rows(OUTCOMES) == []


@pytest.mark.parametrize("retain_history", [timedelta(minutes=1), DAY, timedelta(days=1, seconds=1), 60 * DAY], ids=str)
def test_a_sweep_reclaims_a_day_when_no_row_of_it_is_retained_and_not_before(
    database: Database, retain_history: timedelta
) -> None:
    with retaining(database, retain_history) as stage:
        ann = stage.session("ann")
        stage.passes(DAY - SECOND)
        settled(ann)
        while ann.rows(OUTCOMES):
            assert ann.table("sweep") == []
            stage.passes(min(DAY, retain_history) / 2)
        stage.passes(DAY)
        assert ann.value(ROWS) == 1
        assert ann.table("sweep", dry_run=True) == [(*RECLAIMED[:-1], False)]
        assert ann.value(ROWS) == 1
        assert ann.table("sweep") == [RECLAIMED]
        assert ann.value(ROWS) == 0
        assert ann.table("sweep") == []


def test_a_day_that_another_queue_retains_is_not_reclaimed(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other", retain_history=10 * DAY)
        settled(ann)
        stage.passes(10 * DAY)
        assert ann.table("sweep") == []
        stage.passes(DAY)
        assert ann.table("sweep") == [RECLAIMED]


def test_each_day_is_reclaimed_in_a_sweep_of_its_own(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann = stage.session("ann")
        for _ in range(4):
            settled(ann)
            stage.passes(DAY)
        assert [len(ann.table("sweep")) for _ in range(4)] == [1, 1, 1, 0]
        assert ann.value(ROWS) == 1
        stage.passes(DAY)
        assert ann.table("sweep") == [RECLAIMED]


def test_a_day_of_the_ring_that_is_in_use_again_is_not_reclaimed(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann = stage.session("ann")
        settled(ann)
        stage.passes(64 * DAY)
        number = settled(ann)
        assert ann.value("select count(distinct slot) from pgqueue.settled_message") == 1
        assert ann.table("sweep") == []
        assert ann.rows(OUTCOMES) == [(number, "COMPLETED", None)]


def test_a_clock_that_goes_back_over_midnight_reclaims_nothing_fresh(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        stage.passes(SECOND)
        settled(ann)
        stage.passes(-2 * SECOND)
        ann.table("sweep")
        assert ann.value(ROWS) == 1


def test_after_a_year_without_a_sweep_everything_outdated_is_reclaimed(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann = stage.session("ann")
        for _ in range(5):
            settled(ann)
            stage.passes(73 * DAY)
        while rows := ann.table("sweep"):
            assert rows == [RECLAIMED]
        assert ann.value(ROWS) == 0


def test_a_day_that_is_being_read_is_left_and_the_next_is_reclaimed(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann, bob = stage.sessions("ann", "bob")
        settled(ann)
        slot = ann.value("select distinct slot from pgqueue.settled_message")
        stage.passes(DAY)
        settled(ann)
        stage.passes(5 * DAY)
        bob.begin()
        bob.rows(f"select * from pgqueue_history.settled_message_{slot:02}")
        assert ann.table("sweep") == [RECLAIMED]
        assert ann.table("sweep") == []
        assert ann.values("select slot from pgqueue.settled_message") == [slot]
        bob.commit()
        assert ann.table("sweep") == [RECLAIMED]
        assert ann.value(ROWS) == 0


def test_a_sweep_that_reclaims_leaves_the_settings_of_its_session_alone(database: Database) -> None:
    with retaining(database, DAY) as stage:
        ann = stage.session("ann")
        settled(ann)
        stage.passes(5 * DAY)
        ann.begin()
        assert ann.table("sweep") == [RECLAIMED]
        assert ann.value("show lock_timeout") == "1s"
        ann.commit()


def test_a_day_is_a_day_of_the_same_length_everywhere(database: Database) -> None:
    with retaining(database) as stage:
        ann = stage.session("ann")
        ann.rows("set timezone = 'Pacific/Kiritimati'")
        there = ann.value("select pgqueue._history_slot(pgqueue.clock())")
        ann.rows("set timezone = 'Pacific/Pago_Pago'")
        assert ann.value("select pgqueue._history_slot(pgqueue.clock())") == there


def settled(session: Session) -> int:
    """A message that was sent, received and completed now."""
    (number,) = session.send("a")
    session.complete(session.receive()[0])
    return number
