"""Deferred messages: set aside, received by their numbers only, and deferred again when they are given back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    MESSAGE_NOT_FOUND,
    QUEUE_DISABLED,
    SECOND,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    passed,
    refused,
)

STATES = "select sequence_number, state, delivery_count from pgqueue.messages"


def test_a_deferred_message_is_received_by_its_number_only(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        deferred, fresh = ann.send("a", "b")
        ann.settle("defer", ann.receive()[0])
        stage.passes(LOCK_DURATION)
        assert bob.numbers(9) == [fresh]
        assert bob.values("select sequence_number from pgqueue.receive_and_delete('q', 9)") == []
        (received,) = bob.receive_deferred(deferred)
        assert (received.sequence_number, received.body) == (deferred, "a")
        assert received.locked_until == bob.call("clock") + LOCK_DURATION
        bob.complete(received)
        assert bob.values("select sequence_number from pgqueue.messages") == [fresh]


def test_a_deferral_is_not_counted_and_a_delivery_is(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann)
        assert ann.rows(STATES) == [(number, "DEFERRED", 0)]
        for _ in range(3):
            (received,) = ann.receive_deferred(number)
            assert received.delivery_count == 1
            ann.settle("defer", received)
        assert ann.rows(STATES) == [(number, "DEFERRED", 0)]


def test_a_deferral_ends_the_lock(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        ann.settle("defer", received)
        assert ann.rows("select locked_until, locked_by from pgqueue.deferred_messages") == [(None, None)]
        assert ann.value("select count(*) from pgqueue.expired_locks") == 0
        with refused(LOCK_LOST):
            ann.complete(received)
        with refused(LOCK_LOST):
            ann.settle("defer", received)


def test_a_deferral_is_undone_with_its_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.settle("defer", received)
        with refused(MESSAGE_NOT_FOUND):
            bob.receive_deferred(number)
        ann.rollback()
        with refused(MESSAGE_NOT_FOUND):
            bob.receive_deferred(number)
        ann.complete(received)


def test_a_deferral_returns_its_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        transaction = ann.settle("defer", received)
        assert ann.settle("resolve", received, transaction_id=transaction) == "committed"


def test_abandoned_it_is_deferred_still(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann)
        ann.abandon(ann.receive_deferred(number)[0])
        assert ann.receive(9) == []
        assert ann.rows(STATES) == [(number, "DEFERRED", 1)]
        assert ann.receive_deferred(number)[0].delivery_count == 2


def test_released_it_is_deferred_still_and_not_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann)
        assert ann.settle_batch("release_batch", ann.receive_deferred(number)) == [(number, None)]
        assert ann.receive(9) == []
        assert ann.rows(STATES) == [(number, "DEFERRED", 0)]


def test_abandoned_with_a_delay_it_is_deferred_again_after_that(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann)
        ann.abandon(ann.receive_deferred(number)[0], delay=SECOND)
        with refused(MESSAGE_NOT_FOUND):
            ann.receive_deferred(number)
        stage.passes(SECOND)
        assert ann.receive(9) == []
        assert ann.receive_deferred(number)[0].delivery_count == 2


def test_when_its_lock_expires_it_is_deferred_still(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = deferred(ann)
        (late,) = ann.receive_deferred(number)
        assert ann.rows(STATES) == [(number, "LOCKED", 1)]
        for _ in range(5):
            stage.passes(LOCK_DURATION)
            assert bob.receive(9) == []
        assert ann.rows(STATES) == [(number, "DEFERRED", 1)]
        (redelivered,) = bob.receive_deferred(number)
        assert redelivered.delivery_count == 2
        with refused(LOCK_LOST):
            ann.complete(late)
        bob.complete(redelivered)


def test_the_token_is_valid_until_the_deferred_message_is_received_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (received,) = ann.receive_deferred(deferred(ann))
        stage.passes(2 * LOCK_DURATION)
        assert ann.settle("renew_lock", received) == ann.call("clock") + LOCK_DURATION
        ann.settle("pin", received)
        ann.complete(received)


def test_a_message_that_the_cursors_have_passed_is_deferred_like_any_other(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann)
        ann.settle("defer", received)
        for _ in range(3):
            stage.passes(LOCK_DURATION)
            assert ann.receive(9) == []
        assert ann.value("select count(*) from pgqueue.watch") == 0
        assert len(ann.receive_deferred(received.sequence_number)) == 1


def test_a_locked_deferred_message_is_not_received_and_not_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        locked, held, free = deferred(ann), deferred(ann), deferred(ann)
        ann.receive_deferred(locked)
        ann.begin()
        ann.complete(ann.receive_deferred(held)[0])
        assert received(bob, locked, held, free) == [free]
        ann.rollback()


def test_many_are_received_at_once_in_the_order_they_were_sent(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(30)
        for message in ann.receive(30)[::-1]:
            ann.settle("defer", message)
        assert received(ann, *numbers[::-1], numbers[3]) == numbers


def test_a_number_that_is_not_deferred_is_refused_and_no_message_is_received(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        (elsewhere,) = ann.send("a", queue="other")
        number = deferred(ann)
        returned, fresh = ann.send("returned", "fresh")
        ann.abandon(ann.receive()[0])
        for wrong in (returned, fresh, elsewhere, 999, None):
            with refused(MESSAGE_NOT_FOUND, wrong):
                ann.table("receive_deferred", queue="q", sequence_numbers=[number, wrong])
        with pytest.raises(psycopg.Error, match="queue q has no deferred message 999"):
            ann.receive_deferred(999)
        assert received(ann, number) == [number]


def test_nothing_is_asked_for_and_nothing_received(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        deferred(ann)
        assert ann.rows("select * from pgqueue.receive_deferred('q', '{}')") == []


def test_a_message_resubmitted_during_a_receive_of_its_number_is_not_taken(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        number = deferred(ann)
        (held,) = ann.receive_deferred(number)
        # Bob has made sure that the message is deferred, and stops before he locks its row.
        stage.rewrite(
            "receive_deferred", "places := array(", "perform pg_advisory_xact_lock_shared(1); places := array("
        )
        gate.value("select pg_advisory_lock(1)")
        receiving = bob.starts(lambda: bob.receive_deferred(number))
        ann.settle("dead_letter", held, reason="r")
        ann.table("resubmit", queue="q")
        gate.value("select pg_advisory_unlock(1)")
        assert receiving.result() == []
        assert ann.numbers() == [number]


def test_the_delivery_limit_holds(database: Database) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        poison, sound = deferred(ann), deferred(ann)
        ann.abandon(ann.receive_deferred(poison)[0])
        ann.receive_deferred(poison)
        stage.passes(LOCK_DURATION)
        assert received(ann, poison, sound) == [sound]
        assert ann.rows("select sequence_number, dead_letter_reason from pgqueue.dead_letters") == [
            (poison, "MaxDeliveryCountExceeded")
        ]


def test_an_expired_deferred_message_is_not_received(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (mortal,) = ann.send("a", time_to_live=SECOND)
        ann.settle("defer", ann.receive()[0])
        sound = deferred(ann)
        stage.passes(SECOND)
        assert received(ann, mortal, sound) == [sound]
        assert ann.values("select sequence_number from pgqueue.message") == [sound]


def test_dead_lettered_and_resubmitted_it_is_an_ordinary_message_of_its_priority(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann, priority=-3)
        ann.settle("dead_letter", ann.receive_deferred(number)[0], reason="r")
        assert ann.value("select priority from pgqueue.dead_letters") == -3
        ann.table("resubmit", queue="q")
        with refused(MESSAGE_NOT_FOUND):
            ann.receive_deferred(number)
        assert ann.rows("select sequence_number, priority, state from pgqueue.messages") == [(number, -3, "READY")]
        assert ann.numbers(9) == [number]


@pytest.mark.parametrize("priority", [-100, -1, 0, 100])
def test_a_deferred_message_keeps_its_priority(database: Database, priority: int) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann, priority=priority)
        assert ann.rows("select sequence_number, priority from pgqueue.deferred_messages") == [(number, priority)]
        (held,) = ann.receive_deferred(number)
        ann.abandon(held)
        assert ann.rows("select sequence_number, priority from pgqueue.deferred_messages") == [(number, priority)]


def test_deferred_messages_are_seen_and_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first, second = deferred(ann), deferred(ann)
        (fresh,) = ann.send("a")
        ann.receive_deferred(second)
        assert ann.values("select sequence_number from pgqueue.peek('q', 9)") == [first, second, fresh]
        assert ann.rows("select sequence_number, state from pgqueue.deferred_messages") == [
            (first, "DEFERRED"),
            (second, "LOCKED"),
        ]
        assert ann.values("select sequence_number from pgqueue.locked_messages") == [second]
        assert ann.rows("select ready, locked, deferred from pgqueue.queues") == [(1, 1, 1)]


def test_properties_given_when_deferring_are_merged(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", application_properties=Jsonb({"kept": 1, "changed": 1}))
        ann.send("b")
        ann.settle("defer", ann.receive()[0], properties=Jsonb({"changed": 2, "new": 3}))
        ann.settle("defer", ann.receive()[0], properties=Jsonb({"new": 3}))
        assert ann.values("select application_properties from pgqueue.deferred_messages") == [
            {"kept": 1, "changed": 2, "new": 3},
            {"new": 3},
        ]


def test_a_batch_returns_the_outcome_of_each_message(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        first, second = ann.receive(2)
        stale = replace(second, lock_token=uuid4())
        assert ann.settle_batch("defer_batch", [stale, first]) == [
            (second.sequence_number, LOCK_LOST),
            (first.sequence_number, None),
        ]
        assert ann.values("select sequence_number from pgqueue.deferred_messages") == [first.sequence_number]
        ann.complete(second)


def test_an_atomic_batch_with_a_lost_lock_defers_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        messages = ann.receive(2)
        with refused(LOCK_LOST):
            ann.settle_batch("defer_batch", [messages[0], replace(messages[1], lock_token=uuid4())], atomic=True)
        assert ann.values("select sequence_number from pgqueue.deferred_messages") == []
        assert [code for _, code in ann.settle_batch("defer_batch", messages, atomic=True)] == [None, None]


WRONG: list[tuple[str, dict[str, Any]]] = [
    (INVALID_ARGUMENT, {"queue": "q", "lock_duration": timedelta(0)}),
    (INVALID_ARGUMENT, {"queue": DEAD}),
    (UNKNOWN_QUEUE, {"queue": "nowhere"}),
    (QUEUE_DISABLED, {"queue": "disabled"}),
]


@pytest.mark.parametrize(("sqlstate", "options"), WRONG, ids=str)
def test_a_wrong_argument_is_refused(database: Database, sqlstate: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="disabled", status="RECEIVE_DISABLED")
        number = deferred(ann)
        with refused(sqlstate):
            ann.table("receive_deferred", sequence_numbers=[number], **options)
        (held,) = ann.receive_deferred(number)
        with refused(INVALID_ARGUMENT):
            ann.settle("defer", held, properties=Jsonb([]))


def test_the_holder_of_a_deferred_message_is_named(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = deferred(ann)
        ann.receive_deferred(number, locked_by="worker 7", lock_duration=SECOND)
        held = "select sequence_number, locked_by, remaining from pgqueue.locked_messages"
        assert ann.rows(held) == [(number, "worker 7", SECOND)]


def deferred(session: Session, **options: Any) -> int:
    """A message that was received once and deferred."""
    (number,) = session.send("deferred", **options)
    (message,) = session.receive()
    assert message.sequence_number == number
    session.settle("defer", message)
    return number


def received(session: Session, *numbers: int) -> list[int]:
    return [message.sequence_number for message in session.receive_deferred(*numbers)]
