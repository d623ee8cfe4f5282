"""The effects of each settlement, one by one and in batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg.errors import FeatureNotSupported
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    UNKNOWN_QUEUE,
    Received,
    Session,
    Stage,
    put_back,
    refused,
)

pytestmark = pytest.mark.core

BATCHES = [
    pytest.param("complete_batch", {}, id="complete"),
    pytest.param("abandon_batch", {}, id="abandon"),
    pytest.param("abandon_batch", {"delay": SECOND}, id="abandon with a delay"),
    pytest.param("dead_letter_batch", {"reason": "r"}, id="dead_letter"),
    pytest.param("renew_lock_batch", {}, id="renew_lock"),
]
RELEASE = pytest.param("release_batch", {}, id="release")
PIN = pytest.param("pin_batch", {}, id="pin")


def test_an_abandoned_message_is_delivered_again_before_the_fresh_ones(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first, second = ann.send("a", "b")
        ann.abandon(ann.receive()[0])
        assert ann.numbers(2) == [first, second]


@pytest.mark.parametrize("verb", ["abandon", "abandon_batch"])
def test_waiting_consumers_are_notified_of_an_abandoned_message(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann, listener = stage.sessions("ann", "listener")
        ann.send("a")
        (received,) = ann.receive()
        ((channel, _),) = listener.table("_subscribe", queues=["q"], lasts=SECOND * 60)
        listener.rows(f"listen {channel}")
        if verb == "abandon":
            ann.abandon(received)
        else:
            ann.settle_batch(verb, [received])
        assert [told.payload for told in listener.connection.notifies(timeout=5, stop_after=1)] == ["q"]


def test_messages_abandoned_together_come_back_in_the_order_they_were_sent(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(20)
        ann.settle_batch("abandon_batch", ann.receive(20)[::-1])
        assert ann.numbers(20) == numbers


def test_a_message_abandoned_with_a_delay_comes_when_its_time_has_come(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        delayed, fresh = ann.send("a", "b")
        ann.abandon(ann.receive()[0], delay=timedelta(minutes=5))
        due = ann.value("select scheduled_enqueue_time from pgqueue.scheduled_messages")
        assert due == ann.call("clock") + timedelta(minutes=5)
        stage.passes(timedelta(minutes=5) - SECOND)
        assert ann.numbers(9) == [fresh]
        stage.passes(SECOND)
        (received,) = ann.receive(9)
        assert (received.sequence_number, received.delivery_count) == (delayed, 2)


def test_a_due_message_does_not_wait_until_a_busy_queue_is_empty(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        delayed, *_ = ann.send_many(50)
        ann.abandon(ann.receive()[0], delay=SECOND)
        ann.receive()
        stage.passes(3 * SECOND)
        assert delayed in ann.numbers() + ann.numbers()


def test_due_messages_come_in_the_order_of_their_times(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        first, second, third = ann.receive(3)
        ann.abandon(first, delay=3 * SECOND)
        ann.abandon(second, delay=SECOND)
        ann.abandon(third, delay=2 * SECOND)
        stage.passes(5 * SECOND)
        expected = [message.sequence_number for message in (second, third, first)]
        assert ann.numbers(3) == expected


def test_properties_given_when_abandoning_are_merged(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("send", queue="q", body=Jsonb("a"), application_properties=Jsonb({"kept": 1, "changed": 1}))
        ann.abandon(ann.receive()[0], properties=Jsonb({"changed": 2, "new": [3]}))
        properties = "select application_properties from pgqueue.messages"
        assert ann.value(properties) == {"kept": 1, "changed": 2, "new": [3]}
        ann.abandon(ann.receive()[0], properties=Jsonb({"late": True}), delay=SECOND)
        stage.passes(SECOND)
        ann.receive()
        assert ann.value(properties) == {"kept": 1, "changed": 2, "new": [3], "late": True}


def test_released_messages_are_not_counted_and_come_before_fresh_ones(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send_many(5)
        ann.settle_batch("release_batch", ann.receive(4)[:0:-1])
        received = bob.receive(4)
        assert [message.sequence_number for message in received] == numbers[1:]
        assert [message.delivery_count for message in received] == [1, 1, 1, 1]


def test_giving_back_counts_no_delivery_of_a_message_that_was_delivered_before(database: Database) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0])
        for _ in range(5):
            (received,) = ann.receive()
            assert (received.sequence_number, received.delivery_count) == (number, 2)
            ann.settle_batch("release_batch", [received])
        assert ann.value("select delivery_count from pgqueue.messages") == 1


def test_a_released_message_has_no_holder(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        ann.settle_batch("release_batch", [received])
        assert ann.rows("select state, locked_until, locked_by from pgqueue.messages") == [("READY", None, None)]
        assert ann.value("select count(*) from pgqueue.expired_locks") == 0
        with refused(LOCK_LOST):
            ann.complete(received)


def test_a_message_received_by_another_meanwhile_is_not_released(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (redelivered,) = bob.receive(take_turn=False)
        assert ann.settle_batch("release_batch", [late]) == [(late.sequence_number, LOCK_LOST)]
        assert ann.rows("select state, delivery_count from pgqueue.messages") == [("LOCKED", 2)]
        bob.complete(redelivered)


def test_an_expired_lock_that_was_put_back_can_still_be_given_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = put_back(stage, ann)
        assert bob.settle_batch("release_batch", [received]) == [(received.sequence_number, None)]
        assert bob.receive()[0].delivery_count == 1


def test_a_dead_letter_keeps_what_it_was_and_why(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send({"id": 7}, subject="s", message_id="m", priority=-2)
        (received,) = ann.receive()
        ann.settle("dead_letter", received, reason="unreadable", description="no such airport")
        assert ann.rows(
            "select queue, sequence_number, body, subject, message_id, priority, delivery_count, dead_letter_reason,"
            " dead_letter_error_description, dead_lettered_at = pgqueue.clock() from pgqueue.dead_letters"
        ) == [("q", number, {"id": 7}, "s", "m", -2, 1, "unreadable", "no such airport", True)]
        assert ann.receive() == []


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, RELEASE, PIN])
def test_a_lock_that_is_lost_neither_hides_nor_undoes_the_others(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", "c", "d")
        returned, lost, *fresh = ann.receive(4)
        ann.abandon(returned)
        (returned,) = ann.receive()
        stage.passes(LOCK_DURATION / 2)
        ann.settle_batch("renew_lock_batch", [returned, *fresh])
        stage.passes(LOCK_DURATION / 2)
        bob.receive()
        stranger = replace(lost, sequence_number=999)
        outcomes = [
            row[:2] for row in ann.settle_batch(verb, [stranger, fresh[1], lost, returned, fresh[0]], **options)
        ]
        assert outcomes == [
            (999, LOCK_LOST),
            (fresh[1].sequence_number, None),
            (lost.sequence_number, LOCK_LOST),
            (returned.sequence_number, None),
            (fresh[0].sequence_number, None),
        ]
        if verb not in {"renew_lock_batch", "pin_batch"}:
            assert [code for _, code, *_ in ann.settle_batch(verb, [returned, *fresh], **options)] == [LOCK_LOST] * 3


@pytest.mark.parametrize(("verb", "options"), BATCHES)
def test_an_atomic_batch_with_a_lost_lock_changes_nothing(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        messages = ann.receive(2)
        everything = "select message from pgqueue.message order by sequence_number"
        before = ann.values(everything)
        with refused(LOCK_LOST):
            ann.settle_batch(verb, [messages[0], replace(messages[1], lock_token=uuid4())], atomic=True, **options)
        assert ann.values(everything) == before
        assert [code for _, code, *_ in ann.settle_batch(verb, messages, atomic=True, **options)] == [None, None]


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, RELEASE, PIN])
def test_a_message_that_was_received_twice_is_settled_for_its_last_holder_only(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (received,) = ann.receive()
        outcomes = ann.settle_batch(verb, [late, received], **options)
        assert [row[:2] for row in outcomes] == [(number, LOCK_LOST), (number, None)]


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, RELEASE, PIN])
def test_an_empty_batch_is_answered_by_nothing(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        assert stage.session("ann").settle_batch(verb, [], **options) == []


UNPAIRED: list[tuple[Any, Any]] = [
    ([1], []),
    ([], [uuid4()]),
    ([1], [uuid4(), uuid4()]),
    (None, [uuid4()]),
    ([1], None),
    (None, None),
]


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, RELEASE, PIN])
def test_locks_and_tokens_that_do_not_pair_are_refused(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for numbers, tokens in UNPAIRED:
            with refused(INVALID_ARGUMENT, (numbers, tokens)):
                ann.table(verb, queue="q", sequence_numbers=numbers, lock_tokens=tokens, **options)


@pytest.mark.parametrize("verb", ["complete_batch", "renew_lock_batch", "pin_batch"])
def test_a_token_too_many_is_refused_even_when_all_are_found(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        tokens = [received.lock_token, uuid4()]
        with refused(INVALID_ARGUMENT):
            ann.table(verb, queue="q", sequence_numbers=[received.sequence_number], lock_tokens=tokens)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("abandon", {"delay": -SECOND}),
    ("abandon", {"properties": Jsonb([])}),
    ("abandon", {"properties": Jsonb("a")}),
    ("dead_letter", {"reason": None}),
    ("dead_letter", {"reason": ""}),
    ("renew_lock", {"lock_duration": timedelta(0)}),
    ("renew_lock", {"lock_duration": -SECOND}),
]


def test_a_wrong_argument_is_refused_and_the_lock_is_still_held(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        for verb, options in WRONG:
            with refused(INVALID_ARGUMENT, (verb, options)):
                ann.settle(verb, received, **options)
        ann.complete(received)


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, RELEASE, PIN])
def test_an_unknown_queue_is_refused(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(UNKNOWN_QUEUE):
            ann.table(verb, queue="nowhere", sequence_numbers=[1], lock_tokens=[uuid4()], **options)


def test_a_settlement_without_a_known_transaction_is_resolved_by_the_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        assert resolved(bob, received, None) == "aborted"
        ann.begin()
        ann.complete(received)
        assert resolved(bob, received, None) == "in progress"
        ann.rollback()
        assert resolved(bob, received, None) == "aborted"
        stage.passes(2 * LOCK_DURATION)
        (again,) = bob.receive()
        assert resolved(ann, received, None) == "gone"
        bob.complete(again)
        assert resolved(ann, received, None) == "gone"


@pytest.mark.parametrize("is_pinned", [False, True], ids=["", "pinned"])
@pytest.mark.parametrize("retain_history", [None, "1 day"], ids=["", "history"])
@pytest.mark.parametrize(("verb", "options"), [("complete", {}), ("dead_letter", {"reason": "Bad"}), ("defer", {})])
def test_the_result_of_a_settlement_shows_whether_its_savepoint_was_undone(
    database: Database, verb: str, options: dict[str, Any], retain_history: str | None, *, is_pinned: bool
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("alter_queue", queue="q", retain_history=retain_history)
        ann.send("undone", "kept", "released", "whole")
        undone, kept, released, whole = ann.receive(4)
        ann.begin()
        if is_pinned:
            for each in (undone, kept, released, whole):
                ann.settle("pin", each)
        top = ann.value("select pg_current_xact_id()")
        assert ann.settle(verb, whole, **options) == top
        transactions = {}
        for name, message in {"s": undone, "k": kept}.items():
            ann.rows(f"savepoint {name}")
            transactions[message] = ann.settle(verb, message, **options)
            assert transactions[message] != top
            ann.rows(f"{'rollback to' if message is undone else 'release'} {name}")
        ann.rows("savepoint outside")
        ann.rows("savepoint inside")
        transactions[released] = ann.settle(verb, released, **options)
        ann.rows("release inside")
        assert {resolved(bob, each, transactions[each]) for each in (kept, released)} == {"in progress"}
        ann.rows("rollback to outside")
        assert resolved(bob, undone, transactions[undone]) == "aborted"
        ann.commit()
        stage.passes(2 * LOCK_DURATION)
        for again in bob.receive(10):
            bob.complete(again)
        assert resolved(bob, undone, transactions[undone]) == "aborted"
        assert resolved(bob, released, transactions[released]) == "aborted"
        assert resolved(bob, kept, transactions[kept]) == "committed"
        assert resolved(bob, whole, top) == "committed"


def test_a_transaction_without_notifications_can_be_prepared(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.table("_subscribe", queues=["q"], lasts=timedelta(hours=1))
        ann.begin()
        ann.rows("set local pgqueue.notify = off")
        ann.send("a")
        ann.send_many(2)
        refusal = None
        try:
            ann.rows("prepare transaction 'sent'")
        except FeatureNotSupported as error:
            refusal = error
        assert refusal is None
        ann.rows("commit prepared 'sent'")
        assert len(ann.receive(9)) == 3


def test_ten_thousand_locks_are_settled_in_one_call(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send_many(10_000)
        half = received(ann, 10_000)
        ann.settle_batch("abandon_batch", half)
        again = received(ann, 10_000)
        stranger = replace(again[0], sequence_number=999_999)
        outcomes = ann.settle_batch("complete_batch", [*again, stranger])
        assert [code for _, code in outcomes] == [None] * 10_000 + [LOCK_LOST]


def received(session: Session, count: int) -> list[Any]:
    messages = session.receive(count)
    assert len(messages) == count
    return messages


def resolved(session: Session, message: Received, transaction: Any) -> str:
    return str(session.settle("resolve", message, transaction_id=transaction))
