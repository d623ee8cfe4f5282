"""Scheduled messages: not before their time, noticed when it has come, and cancelled until then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import identifier
from pgqueue.testing import Database
from tests.fields import TEXT_VALUES
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_DURATION,
    MESSAGE_NOT_FOUND,
    SECOND,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)

pytestmark = pytest.mark.core

WAITING = "select sequence_number from pgqueue.scheduled_messages"


def test_a_scheduled_message_is_not_received_before_its_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = scheduled(ann, 2 * SECOND)
        assert ann.receive(9) == []
        assert taken(ann) == []
        stage.passes(2 * SECOND - timedelta(microseconds=1))
        assert ann.receive(9) == []
        stage.passes(timedelta(microseconds=1))
        (received,) = ann.receive(9)
        assert (received.sequence_number, received.delivery_count) == (number, 1)


def test_a_due_message_is_noticed_by_receivers_within_a_second_and_without_a_sweep(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        fresh = ann.send_many(9)
        number = scheduled(ann, SECOND)
        assert ann.numbers() == fresh[:1]
        stage.passes(2 * SECOND)
        assert number in ann.numbers() + ann.numbers()


def test_a_receiver_that_deletes_finds_a_due_message_after_a_turn(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = scheduled(ann, SECOND)
        stage.passes(SECOND)
        assert taken(ann) == []
        assert ann.call("take_turn", queue="q")
        assert taken(ann) == [number]


def test_a_message_that_is_not_due_stays_when_another_is_due(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        later, sooner = scheduled(ann, 2 * SECOND), scheduled(ann, SECOND)
        stage.passes(SECOND)
        assert ann.numbers(9) == [sooner]
        assert ann.values(WAITING) == [later]


def test_due_messages_come_in_the_order_of_their_times_and_before_fresh_ones(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (fresh,) = ann.send("fresh")
        second, third, first = (scheduled(ann, seconds * SECOND) for seconds in (2, 3, 1))
        stage.passes(3 * SECOND)
        assert ann.numbers(9) == [first, second, third, fresh]


def test_a_scheduled_message_keeps_its_priority(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        less = scheduled(ann, SECOND, priority=1)
        more = scheduled(ann, 2 * SECOND, priority=-1)
        (usual,) = ann.send("a")
        assert ann.rows("select sequence_number, priority from pgqueue.scheduled_messages") == [(less, 1), (more, -1)]
        stage.passes(2 * SECOND)
        assert ann.numbers(9) == [more, usual, less]


def test_a_message_is_enqueued_when_its_time_comes(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        due = ann.call("clock") + LOCK_DURATION
        scheduled(ann, LOCK_DURATION)
        assert ann.value("select scheduled_enqueue_time from pgqueue.scheduled_messages") == due
        stage.passes(3 * LOCK_DURATION)
        ann.receive()
        assert ann.value("select enqueued_time from pgqueue.messages") == due


def test_a_message_scheduled_for_a_past_time_is_sent_at_once(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        past = scheduled(ann, -LOCK_DURATION)
        now = scheduled(ann, 0 * SECOND)
        assert ann.values(WAITING) == []
        assert ann.values("select distinct enqueued_time from pgqueue.messages") == [ann.call("clock")]
        assert ann.numbers(9) == [past, now]


def test_a_batch_may_hold_both_what_is_sent_now_and_what_is_scheduled(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        times = [ann.call("clock") + SECOND, None, ann.call("clock") - SECOND]
        later, now, past = batch(ann, 3, scheduled_enqueue_times=times)
        assert ann.numbers(9) == [now, past]
        stage.passes(SECOND)
        assert ann.numbers(9) == [later]


def test_a_scheduled_message_carries_all_that_was_given_with_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        given: dict[str, Any] = {
            **TEXT_VALUES,
            "application_properties": Jsonb({"a": 1}),
        }
        scheduled(ann, SECOND, **given)
        stage.passes(SECOND)
        columns = ", ".join(map(identifier, given))
        assert ann.rows(f"select {columns}, body from pgqueue.receive('q')") == [
            (*TEXT_VALUES.values(), {"a": 1}, "later")
        ]


def test_scheduling_is_undone_with_its_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.begin()
        number = scheduled(ann, SECOND)
        ann.rollback()
        stage.passes(SECOND)
        assert ann.receive() == []
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, number)


def test_a_cancelled_message_never_comes(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = [scheduled(ann, SECOND) for _ in range(3)]
        assert cancel(bob, numbers[0], numbers[2]) == 2
        stage.passes(LOCK_DURATION)
        assert ann.numbers(9) == numbers[1:2]
        assert ann.value("select count(*) from pgqueue.message") == 1


def test_an_unscheduled_message_cannot_be_cancelled_and_then_none_is(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        waiting = scheduled(ann, LOCK_DURATION)
        elsewhere = scheduled(ann, LOCK_DURATION, queue="other")
        due = scheduled(ann, SECOND)
        stage.passes(SECOND)
        ann.receive()
        (sent,) = ann.send("a")
        for wrong in (sent, due, elsewhere, 999, -waiting, None):
            with refused(MESSAGE_NOT_FOUND, wrong):
                cancel(ann, waiting, wrong)
        assert ann.values(f"{WAITING} where queue = 'q'") == [waiting]
        assert cancel(ann, waiting) == 1
        with refused(MESSAGE_NOT_FOUND):
            cancel(ann, waiting)


def test_the_number_that_is_not_scheduled_is_named(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = scheduled(ann, SECOND)
        with pytest.raises(psycopg.Error, match="queue q has no scheduled message 999"):
            cancel(ann, number, 999)


def test_a_cancellation_of_nothing_cancels_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        scheduled(ann, SECOND)
        assert cancel(ann) == 0
        assert cancel(ann, number := ann.value(WAITING), number) == 1


def test_a_message_can_be_cancelled_after_its_time_until_it_is_activated(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = scheduled(ann, SECOND)
        stage.passes(2 * SECOND)
        assert cancel(ann, number) == 1
        assert ann.receive() == []


def test_a_cancellation_is_undone_with_its_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = scheduled(ann, SECOND)
        ann.begin()
        cancel(ann, number)
        stage.passes(SECOND)
        assert bob.receive() == []
        ann.rollback()
        stage.passes(SECOND)
        assert bob.numbers() == [number]


def test_the_second_of_two_concurrent_cancels_waits_and_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = scheduled(ann, SECOND)
        ann.begin()
        cancel(ann, number)
        second = bob.starts(lambda: cancel(bob, number))
        ann.commit()
        with refused(MESSAGE_NOT_FOUND):
            second.result()


def test_a_cancellation_waits_for_the_activation_of_the_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = scheduled(ann, SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert ann.call("take_turn", queue="q")
        cancellation = bob.starts(lambda: cancel(bob, number))
        ann.commit()
        with refused(MESSAGE_NOT_FOUND):
            cancellation.result()
        assert ann.numbers() == [number]


def test_a_message_that_was_abandoned_with_a_delay_can_be_cancelled_too(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0], delay=SECOND)
        assert cancel(ann, number) == 1
        stage.passes(SECOND)
        assert ann.receive() == []


def test_peek_shows_a_scheduled_message_with_its_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (sent,) = ann.send("a")
        number = scheduled(ann, SECOND)
        due = ann.call("clock") + SECOND
        peek = "select sequence_number, scheduled_enqueue_time from pgqueue.peek('q', 9)"
        assert ann.rows(peek) == [(sent, None), (number, due)]
        stage.passes(SECOND)
        ann.call("take_turn", queue="q")
        assert ann.rows(peek) == [(sent, None), (number, None)]


def test_a_time_that_is_none_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for at in ("null", "'infinity'", "'-infinity'"):
            with refused(INVALID_ARGUMENT, at):
                ann.rows(f"select pgqueue.schedule('q', '1', {at})")
        with refused(INVALID_ARGUMENT):
            ann.rows("select pgqueue.schedule('q', null, pgqueue.clock())")
        for call in ("schedule('nowhere', '1', pgqueue.clock())", "cancel_scheduled('nowhere', '{1}')"):
            with refused(UNKNOWN_QUEUE, call):
                ann.rows(f"select pgqueue.{call}")


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
def test_a_send_that_would_never_come_is_refused(database: Database, at: str) -> None:
    with Stage(database) as stage, refused(INVALID_ARGUMENT):
        stage.session("ann").rows("select pgqueue.send('q', '1', scheduled_enqueue_time => %(at)s)", at=at)


def test_a_purge_and_a_drop_take_scheduled_messages_with_them(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        scheduled(ann, SECOND)
        assert ann.call("purge_queue", queue="q") == 1
        scheduled(ann, SECOND)
        ann.call("drop_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.scheduled_message") == 0


def scheduled(session: Session, delay: timedelta, queue: str = "q", **options: Any) -> int:
    at = session.call("clock") + delay
    return int(session.call("schedule", queue=queue, body=Jsonb("later"), at=at, **options))


def cancel(session: Session, *numbers: int | None) -> Any:
    statement = "select pgqueue.cancel_scheduled('q', %(numbers)s::bigint[])"
    return session.value(statement, numbers=list(numbers))


def batch(session: Session, count: int, **options: Any) -> list[int]:
    bodies = [Jsonb(number) for number in range(count)]
    return [number for (number,) in session.table("send_batch", queue="q", bodies=bodies, **options)]


def taken(session: Session) -> list[int]:
    return session.values("select sequence_number from pgqueue.receive_and_delete('q', 9)")
