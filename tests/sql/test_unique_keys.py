"""Unique keys: one message of a queue has a key at a time, whatever transactions send, receive and settle it."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.errors import DeadlockDetected
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import accept, accept_several, accepted, bodies, release, renew
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_DURATION,
    SECOND,
    SERIALIZATION_FAILURE,
    Received,
    Session,
    Stage,
    refused,
)
from tests.sql.test_misuse import ACCESS_DENIED, SENDER, as_a_login

DUPLICATE = "PQ012"
HOUR = 3600 * SECOND
SETTLED_WITH = {"dead_letter": {"reason": "Invalid"}}
KEYS = "select unique_key, sequence_number from pgqueue.unique_keys"
STORED = "select sequence_number, body from pgqueue.messages order by 1"
SCHEDULED = "select sequence_number, body from pgqueue.scheduled_messages order by 1"


def send(session: Session, body: Any, key: str = "k", **options: Any) -> int:
    (number,) = session.send(body, unique_key=key, **options)
    return int(number)


def send_batch(session: Session, *keys: str | None, **options: Any) -> list[int]:
    """Send a batch of messages with these keys, whose bodies are their places."""
    arguments = {"bodies": [Jsonb(place) for place in range(len(keys))], "unique_keys": list(keys), **options}
    return [number for (number,) in session.table("send_batch", queue="q", **arguments)]


def received(session: Session) -> Received:
    (message,) = session.receive()
    return message


def test_a_message_that_waits_is_the_only_one_with_its_key(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first")
        assert send(bob, "second") == first
        other = send(bob, "other", "l")
        assert ann.rows(STORED) == [(first, "first"), (other, "other")]
        assert ann.rows(KEYS) == [("k", first), ("l", other)]


def test_a_message_without_a_key_is_always_stored(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert len({*ann.send("a", "b"), send(ann, "c"), *ann.send("d")}) == 4
        assert ann.values("select count(*) from pgqueue.unique_keys") == [1]


def test_an_ignored_message_is_reported_by_a_notice_or_a_negative_number(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        notices: list[str | None] = []
        ann.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        first = send(ann, "a", "it's")
        send(ann, "b", "it's")
        assert notices == [
            f"message {first} has the unique key 'it''s', or was sent with this message id: nothing was stored"
        ]
        assert send(ann, "c", "it's", negate_duplicate=True) == -first
        assert len(notices) == 1


@pytest.mark.parametrize("settle", ["complete", "dead_letter", "defer"])
def test_the_key_is_free_when_its_message_is_received_and_when_it_is_settled(database: Database, settle: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        message = received(ann)
        second = send(ann, "second")
        assert second != first
        ann.settle(settle, message, **SETTLED_WITH.get(settle, {}))
        assert send(ann, "third") == second
        ann.settle(settle, received(ann), **SETTLED_WITH.get(settle, {}))
        assert send(ann, "fourth") not in (first, second)


@pytest.mark.parametrize(("settle", "is_free"), [("complete", True), ("dead_letter", True), ("defer", False)])
def test_until_it_is_settled_an_unsettled_message_has_its_key(database: Database, settle: str, is_free: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first", unique_scope="unsettled")
        message = received(ann)
        assert send(ann, "second", unique_scope="unsettled") == first
        ann.settle(settle, message, **SETTLED_WITH.get(settle, {}))
        assert (send(ann, "third", unique_scope="unsettled") != first) is is_free


def test_a_message_that_comes_back_waits_again_beside_the_one_that_was_sent_meanwhile(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        ann.abandon(received(ann))
        assert send(ann, "ignored") == first
        message = received(ann)
        second = send(ann, "second")
        ann.abandon(message)
        assert [number for number, _ in ann.rows(STORED)] == [first, second]


def test_a_message_whose_lock_has_expired_may_still_be_completed_so_it_does_not_wait(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        message = received(ann)
        stage.passes(LOCK_DURATION)
        second = send(ann, "second")
        assert second != first
        ann.complete(message)
        assert ann.numbers() == [second]


def test_a_message_of_a_session_whose_lock_was_renewed_is_in_work(database: Database) -> None:
    with Stage(database, requires_session=True, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first", session_id="a")
        held = accepted(bob)
        assert bodies(bob, held) == ["first"]
        stage.passes(LOCK_DURATION / 2)
        renew(bob, held)
        stage.passes(LOCK_DURATION * 3 / 4)
        assert send(ann, "unsettled", session_id="a", unique_scope="unsettled") == first
        assert send(ann, "second", session_id="a", on_conflict="replace") != first


@pytest.mark.parametrize("unique_scope", ["waiting", "unsettled"])
def test_a_message_that_will_not_be_delivered_has_no_key(database: Database, unique_scope: str) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        expiring = send(ann, "expiring", time_to_live=SECOND)
        later = ann.call("clock") + SECOND
        scheduled = send(ann, "scheduled", "l", scheduled_enqueue_time=later, time_to_live=SECOND)
        stage.passes(2 * SECOND)
        assert send(ann, "next", unique_scope=unique_scope) != expiring
        assert send(ann, "next", "l", unique_scope=unique_scope) != scheduled
        exhausted = send(ann, "exhausted", "m", priority=-1)
        ann.abandon(received(ann))
        assert send(ann, "next", "m", unique_scope=unique_scope) != exhausted


def test_a_deferred_message_that_is_abandoned_with_a_delay_does_not_wait(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        ann.settle("defer", received(ann))
        (message,) = ann.receive_deferred(first)
        ann.abandon(message, delay=SECOND)
        assert send(ann, "second") != first
        assert send(ann, "third", unique_scope="unsettled") != first


def test_an_unsettled_message_that_waits_is_not_received_before_the_sender_commits(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first")
        ann.begin()
        assert send(ann, "ignored", unique_scope="unsettled") == first
        assert bob.receive() == []
        ann.commit()


def test_an_older_snapshot_does_not_rely_on_a_message_that_is_settled(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        send(bob, "first")
        message = received(bob)
        ann.begin("repeatable read")
        ann.rows("select 1 from pgqueue.queue")
        bob.complete(message)
        with refused(SERIALIZATION_FAILURE):
            send(ann, "second", unique_scope="unsettled")
        ann.rollback()


def test_an_older_snapshot_does_not_wait_for_a_message_that_is_being_settled(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(bob, "first")
        message = received(bob)
        ann.begin("repeatable read")
        ann.rows("select 1 from pgqueue.queue")
        bob.begin()
        bob.complete(message)
        assert send(ann, "second", unique_scope="unsettled") != first
        ann.commit()
        bob.commit()


def test_a_sender_does_not_replace_a_message_that_was_delivered(database: Database) -> None:
    with Stage(database) as stage:
        ann, eve = stage.sessions("ann", "eve")
        first = send(ann, "first")
        with as_a_login(eve, SENDER):
            assert send(eve, "second", on_conflict="replace") == first
            ann.abandon(received(ann))
            with refused(ACCESS_DENIED):
                send(eve, "third", on_conflict="replace")
            ann.abandon(received(ann), delay=SECOND)
            with refused(ACCESS_DENIED):
                send(eve, "fourth", on_conflict="replace")
            assert send(eve, "ignored") == first


def test_a_sender_replaces_what_it_has_scheduled_as_often_as_it_likes(database: Database) -> None:
    with Stage(database) as stage:
        ann, eve = stage.sessions("ann", "eve")
        at = ann.call("clock") + HOUR
        with as_a_login(eve, SENDER):
            first = send(eve, 1, scheduled_enqueue_time=at)
            for body in (2, 3):
                assert send(eve, body, scheduled_enqueue_time=at, on_conflict="replace") == first
            eve.call("reschedule", queue="q", sequence_number=first, at=at + HOUR)
            assert ann.rows("select * from pgqueue.broken_invariants()") == []
            assert eve.value("select pgqueue.cancel_scheduled('q', %(numbers)s)", numbers=[first]) == 1


def test_a_message_of_a_priority_that_is_new_is_replaced(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.begin()
        first = send(bob, "old", priority=5)
        second = ann.starts(lambda: send(ann, "new", on_conflict="replace"))
        bob.commit()
        assert second.result() == first
        assert ann.rows(STORED) == [(first, "new")]


def test_the_receiver_that_fires_a_schedule_gets_no_notice_of_its_messages(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_schedule", schedule="s", queue="q", body=Jsonb("tick"), every=SECOND, unique_key="secret")
        send(ann, "waits", "secret")
        notices: list[str | None] = []
        ann.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        stage.passes(SECOND)
        ann.call("take_turn", queue="q")
        assert notices == []


def test_in_a_batch_a_repeated_id_has_the_number_that_its_first_message_was_merged_into(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        assert send_batch(ann, "k", "k", message_ids=["a", "a"]) == [first, first]


def test_the_scope_of_a_batch_is_found_whatever_the_bounds_of_its_array(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        received(ann)
        batch = """select pgqueue.send_batch('q', array['1']::jsonb[], unique_keys => '[0:0]={k}',
                                             unique_scopes => '[0:0]={unsettled}')"""
        assert ann.values(batch) == [first]


def test_scheduled_messages_wait_too_also_after_a_delay(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        later = send(ann, "later", scheduled_enqueue_time=ann.call("clock") + HOUR)
        assert send(ann, "now") == later
        stage.passes(HOUR)
        assert send(ann, "due") == later
        message = received(ann)
        assert message.sequence_number == later
        ann.abandon(message, delay=HOUR)
        assert send(ann, "delayed") == later


def test_a_replacement_takes_number_and_place_and_has_its_own_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first", subject="a", message_id="m")
        assert send(ann, "second", on_conflict="replace", time_to_live=SECOND) == first
        row = "select body, subject, message_id, expires_at > pgqueue.clock() from pgqueue.messages"
        assert ann.rows(row) == [("second", None, None, True)]
        at = ann.call("clock") + HOUR
        assert send(ann, "later", on_conflict="replace", scheduled_enqueue_time=at) == first
        assert (ann.rows(STORED), ann.rows(SCHEDULED)) == ([], [(first, "later")])
        assert send(ann, "still later", on_conflict="replace", scheduled_enqueue_time=at + HOUR) == first
        stage.passes(HOUR)
        assert ann.receive() == []
        assert send(ann, "now", on_conflict="replace", priority=5) == first
        assert ann.rows(SCHEDULED) == []
        message = received(ann)
        assert (message.sequence_number, message.body, message.delivery_count) == (first, "now", 1)
        assert send(ann, "next", on_conflict="replace") != first
        ann.complete(message)


def test_a_replacement_of_a_message_that_has_failed_is_a_new_one(database: Database) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        ann.abandon(received(ann), error=Jsonb({"type": "ValueError", "text": "no"}))
        assert send(ann, "second", on_conflict="replace") == first
        assert ann.rows("select delivery_count, last_error from pgqueue.messages") == [(0, None)]


def test_a_replacement_in_a_session_goes_to_its_own_session(database: Database) -> None:
    with Stage(database, requires_session=True) as stage:
        ann = stage.session("ann")
        first = send(ann, "first", session_id="a")
        assert send(ann, "second", session_id="b", on_conflict="replace") == first
        sessions = "select session_id from pgqueue.accept_session('q', max_sessions => 9)"
        assert ann.values(sessions) == ["b"]


def test_a_replacement_of_a_delayed_message_lets_its_successors_pass(database: Database) -> None:
    with Stage(database, requires_session=True) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first", session_id="a")
        ann.send("second", session_id="a")
        held = accepted(bob)
        ((number, token),) = bob.rows(
            "select sequence_number, lock_token from pgqueue.receive_from_session('q', %(id)s, %(token)s)",
            id=held.session_id,
            token=held.lock_token,
        )
        bob.call("abandon", queue="q", sequence_number=number, lock_token=token, delay=HOUR)
        assert release(bob, held)
        assert accept(bob) is None
        assert send(ann, "third", session_id="b", on_conflict="replace") == first
        assert [other.session_id for other in accept_several(bob, max_sessions=2)] == ["a", "b"]


def test_raise_stores_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "first")
        with refused(DUPLICATE):
            send_batch(ann, None, "l", "k", on_conflict="raise")
        assert ann.rows(STORED) == [(first, "first")]
        with refused(DUPLICATE):
            send_batch(ann, "l", "l", on_conflict="raise")
        assert send_batch(ann, "l", on_conflict="raise") != [first]


def test_of_a_batch_the_first_counts_and_of_replacements_the_last(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        first, free, again, other = send_batch(ann, "k", None, "k", "l")
        assert again == first
        assert ann.rows(STORED) == [(first, 0), (free, 1), (other, 3)]
        assert send_batch(ann, "m", "k", "k", "m", on_conflict="replace")[1:3] == [first, first]
        assert [body for _, body in ann.rows(STORED)] == [2, 1, 3, 3]


def test_a_sender_waits_for_another_one_of_the_same_key(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        first = send(ann, "first")
        second = bob.starts(lambda: send(bob, "second"))
        ann.commit()
        assert second.result() == first
        ann.begin()
        send(ann, "third", "l")
        fourth = bob.starts(lambda: send(bob, "fourth", "l"))
        ann.rollback()
        assert fourth.result() > first
        assert [body for _, body in ann.rows(STORED)] == ["first", "fourth"]


def test_two_senders_that_find_a_key_free_do_not_both_take_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        send(ann, "first")
        ann.complete(received(ann))
        look = "    if pgqueue._holds_unique_key("
        stage.rewrite("_hold_unique_key", look, f"    perform pg_advisory_xact_lock_shared(7);\n{look}")
        gate.rows("select pg_advisory_lock(7)")
        second = ann.starts(lambda: send(ann, "second"))
        third = bob.starts(lambda: send(bob, "third"))
        gate.rows("select pg_advisory_unlock(7)")
        assert second.result() == third.result()


def test_batches_with_the_same_keys_in_opposite_order_do_not_deadlock(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        # Ann has the key she takes first, and stops at the one in the middle.
        gate.begin()
        send(gate, "gate", "m")
        anns = ann.starts(lambda: send_batch(ann, "b", "m", "a"))
        bobs = bob.starts(lambda: send_batch(bob, "a", "b"))
        gate.commit()
        try:
            b, _, a = anns.result()
            assert bobs.result() == [a, b]
        except DeadlockDetected as error:
            raise AssertionError("two batches wait for each other") from error


def test_a_message_that_a_sender_relies_on_is_not_received_before_its_commit(database: Database) -> None:
    """Otherwise a handler might read what the sender is about to change, and nothing would come after it."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first")
        ann.begin()
        assert send(ann, "ignored") == first
        assert bob.receive() == []
        ann.commit()
        assert bob.numbers() == [first]


def test_a_message_that_is_being_received_is_not_relied_on(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "first")
        bob.begin()
        assert bob.numbers() == [first]
        assert send(ann, "second") != first
        bob.commit()


def test_a_message_that_a_turn_activates_is_still_relied_on(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        later = send(ann, "later", scheduled_enqueue_time=ann.call("clock") + SECOND)
        stage.passes(SECOND)
        bob.begin()
        assert bob.call("take_turn", queue="q")
        second = ann.starts(lambda: send(ann, "second"))
        bob.commit()
        assert second.result() == later


def test_a_cancelled_message_leaves_its_key(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        later = send(ann, "later", scheduled_enqueue_time=ann.call("clock") + HOUR)
        bob.begin()
        bob.call("cancel_scheduled", queue="q", sequence_numbers=[later])
        second = ann.starts(lambda: send(ann, "second"))
        bob.commit()
        assert second.result() != later


@pytest.mark.parametrize("verb", ["reschedule", "cancel_scheduled"])
def test_a_replacement_that_a_verb_waits_for_is_found(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        at = ann.call("clock") + HOUR
        number = send(ann, "first", scheduled_enqueue_time=at)
        given: dict[str, Any] = {
            "reschedule": {"sequence_number": number, "at": at + HOUR},
            "cancel_scheduled": {"sequence_numbers": [number]},
        }
        ann.begin()
        assert send(ann, "second", scheduled_enqueue_time=at, on_conflict="replace") == number
        waiting = bob.starts(lambda: bob.call(verb, queue="q", **given[verb]))
        ann.commit()
        waiting.result()
        left = ann.values("select scheduled_enqueue_time from pgqueue.scheduled_message")
        assert left == ([at + HOUR] if verb == "reschedule" else [])


def test_an_older_snapshot_fails_where_it_would_have_to_guess(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin("repeatable read")
        ann.rows("select 1 from pgqueue.queue")
        send(bob, "first")
        with refused(SERIALIZATION_FAILURE):
            send(ann, "second")
        ann.rollback()


def test_a_retry_by_its_message_id_is_a_duplicate_of_what_it_was_merged_into(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        first = send(ann, "first", message_id="a")
        assert send(ann, "second", message_id="b") == first
        ann.complete(received(ann))
        assert send(ann, "second", message_id="b") == first
        assert send(ann, "second", message_id="b", on_conflict="raise") == first
        assert ann.receive() == []
        third = send(ann, "third", message_id="c")
        assert send(ann, "fourth", message_id="d", on_conflict="replace") == third
        assert send(ann, "fourth", message_id="d", on_conflict="replace") == third
        assert ann.rows(STORED) == [(third, "fourth")]


def test_each_subscription_of_a_topic_ignores_what_it_has_already(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_topic", topic="t")
        for name in ("x", "y"):
            ann.call("create_subscription", topic="t", subscription=name)
        publish = "select pgqueue.publish_to_topic('t', %(body)s, unique_key => 'k')"
        assert ann.value(publish, body=Jsonb(1)) == 2
        ann.receive(queue="t/Subscriptions/x")
        ann.value(publish, body=Jsonb(2))
        waiting = ann.rows("select queue, body from pgqueue.messages where locked_until is null order by 1")
        assert waiting == [("t/Subscriptions/x", 2), ("t/Subscriptions/y", 1)]


def test_a_schedule_with_a_key_does_not_pile_up(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call(
            "create_schedule", schedule="s", queue="q", body=Jsonb("tick"), every=SECOND, unique_key="k", catch_up="all"
        )
        for _ in range(3):
            stage.passes(SECOND)
            ann.call("take_turn", queue="q")
        assert ann.values("select body from pgqueue.messages") == ["tick"]


def test_a_sweep_deletes_the_keys_of_messages_that_are_gone(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        send(ann, "first")
        later = send(ann, "later", "l", scheduled_enqueue_time=ann.call("clock") + HOUR)
        kept = send(ann, "kept", "m")
        ann.complete(received(ann))
        (preview,) = ann.values("select forgotten from pgqueue.sweep(dry_run => true)")
        assert (preview, ann.values("select forgotten from pgqueue.sweep(thorough => true)")) == (1, [1])
        assert ann.rows(KEYS) == [("l", later), ("m", kept)]


def test_sweeps_of_one_session_go_on_behind_the_last_key(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for key in "abcde":
            send(ann, key, key)
        ann.call("purge_queue", queue="q")
        sweep = "select forgotten from pgqueue.sweep(2, thorough => true)"
        assert [ann.values(sweep) for _ in range(4)] == [[2], [2], [1], []]
        assert ann.rows(KEYS) == []


def test_a_key_that_a_sender_takes_is_not_swept(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        send(ann, "first")
        ann.complete(received(ann))
        ann.begin()
        second = send(ann, "second")
        assert bob.values("select forgotten from pgqueue.sweep(thorough => true)") in ([], [0])
        ann.commit()
        assert ann.rows(KEYS) == [("k", second)]
        assert send(bob, "third") == second


def test_the_key_of_a_message_of_a_priority_that_is_new_is_not_swept(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        begin = "    returned  := 0;"
        stage.rewrite("_sweep_queue", begin, f"    perform pg_advisory_xact_lock_shared(7);\n{begin}")
        gate.rows("select pg_advisory_lock(7)")
        swept = ann.starts(lambda: ann.rows("select from pgqueue.sweep(thorough => true)"))
        first = send(bob, "first", priority=5)
        gate.rows("select pg_advisory_unlock(7)")
        swept.result()
        assert ann.rows(KEYS) == [("k", first)]


def test_keys_go_with_their_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        send(ann, "first")
        ann.call("drop_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.unique_key") == 0


@pytest.mark.parametrize(
    "options",
    [
        {"unique_key": ""},
        {"unique_key": "x" * 129},
        {"unique_key": "k", "unique_scope": "never"},
        {"unique_key": "k", "on_conflict": "merge"},
        {"unique_key": "k", "on_conflict": None},
        {"unique_key": "k", "unique_scope": "unsettled", "on_conflict": "replace"},
    ],
)
def test_wrong_arguments_are_refused(database: Database, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT, options):
            ann.send("a", **options)
        assert ann.rows(KEYS) == []
