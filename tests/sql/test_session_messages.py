"""Verbs on the messages of sessions: delay, defer, dead-letter, expire, schedule, purge and show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import SESSION_LOST, accept, accepted, bodies, received, release, renew, stage_of, waiting
from tests.sql.stage import DEAD, LOCK_DURATION, MESSAGE_NOT_FOUND, SECOND, refused

pytestmark = pytest.mark.core

MINUTE = timedelta(minutes=1)
DELAY = timedelta(minutes=10)

SEND_MANY = """
select pgqueue.send_batch('q', array_fill('6'::jsonb, array[{0}]), session_ids => array_fill('a'::text, array[{0}]))
"""


def test_a_message_that_was_abandoned_with_a_delay_holds_its_successors_up(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        (first,) = received(ann, held)
        ann.abandon(first, delay=DELAY)
        assert bodies(ann, held) == []
        assert release(ann, held)
        assert accept(bob) is None
        assert "rests after a delivery until" in bob.call("explain_message", queue="q", sequence_number=1)
        stage.passes(DELAY)
        assert bodies(bob, accepted(bob)) == [1, 2]


def test_a_session_whose_first_message_rests_beyond_its_expiry_waits_for_the_end_of_the_delay(
    database: Database,
) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a", time_to_live=MINUTE)
        ann.send(2, session_id="a")
        held = accepted(ann)
        ann.abandon(received(ann, held)[0], delay=DELAY)
        assert release(ann, held)
        for _ in range(2):
            assert accept(bob) is None
            stage.passes(2 * MINUTE)
        stage.passes(DELAY)
        assert bodies(bob, accepted(bob)) == [2]


def test_postponed_at_once_a_message_keeps_its_place_and_its_count(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        first, _ = received(ann, held, 2)
        ann.settle("postpone", first, delay=timedelta(0))
        (again,) = received(ann, held, 9)
        assert (again.body, again.delivery_count) == (1, 1)


def test_a_deferred_message_steps_aside_and_is_settled_under_the_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        first, second = received(ann, held, 2)
        ann.settle("defer", first)
        ann.complete(second)
        arguments: dict[str, Any] = {"session_id": "a", "lock_token": held.lock_token}
        with refused(MESSAGE_NOT_FOUND):
            ann.receive_deferred(second.sequence_number, **arguments)
        (again,) = ann.receive_deferred(first.sequence_number, **arguments)
        assert again.lock_token == held.lock_token
        assert ann.receive_deferred(first.sequence_number, **arguments) == []  # it has it already
        stage.passes(LOCK_DURATION)
        taken = accepted(bob, "a")
        with refused(SESSION_LOST):
            ann.complete(again)
        (once_more,) = bob.receive_deferred(first.sequence_number, session_id="a", lock_token=taken.lock_token)
        bob.complete(once_more)


def test_a_dead_letter_lets_the_next_pass_and_returns_to_the_end(database: Database) -> None:
    with stage_of(database, max_delivery_count=2) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, 2, 3, session_id="a")
        held = accepted(ann)
        first, second = received(ann, held, 2)
        ann.settle("dead_letter", first, reason="Odd")
        ann.abandon(second)
        (second,) = received(ann, held)
        ann.abandon(second)  # as often as the queue allows
        assert bodies(ann, held) == [3]
        dead = ann.values("select session_id from pgqueue.receive(%(queue)s, 9)", queue=DEAD)
        assert dead == ["a", "a"]
        ann.rows("update pgqueue.dead_letter set locked_until = null, lock_token = null, locked_by = null")
        assert ann.values("select pgqueue.resubmit('q')") == [1, 2]
        assert bodies(ann, held) == [1, 2]


def test_a_resubmitted_message_makes_its_session_available(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        ann.settle("dead_letter", received(ann, held)[0], reason="Odd")
        assert release(ann, held)
        assert waiting(ann) == []
        ann.values("select pgqueue.resubmit('q')")
        assert bodies(bob, accepted(bob)) == [1]


def test_a_message_that_is_delivered_too_often_is_dead_lettered_by_a_receive(
    database: Database,
) -> None:
    with stage_of(database, max_delivery_count=1) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, 2, session_id="a")
        received(ann, accepted(ann))
        stage.passes(LOCK_DURATION)
        assert bodies(ann, accepted(ann)) == [2]
        assert ann.values("select dead_letter_reason from pgqueue.dead_letters") == ["MaxDeliveryCountExceeded"]


def test_an_expired_message_is_passed_over_and_a_held_one_does_not_expire(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a", time_to_live=LOCK_DURATION / 2)
        ann.send(2, session_id="a")
        held = accepted(ann, lock_duration=2 * LOCK_DURATION)
        (first,) = received(ann, held)
        stage.passes(LOCK_DURATION)
        assert bob.values("select expired from pgqueue.sweep() where expired > 0") == []
        ann.abandon(first)
        assert bodies(ann, held) == [2]


def test_a_scheduled_message_comes_to_its_session_when_it_is_due(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        at = ann.value("select pgqueue.clock()") + MINUTE
        ann.call("schedule", queue="q", body=Jsonb("later"), at=at, session_id="a")
        assert waiting(ann) == []
        assert accept(bob) is None
        ann.send("sooner", session_id="a")
        stage.passes(MINUTE)
        assert bodies(bob, accepted(bob)) == ["sooner", "later"]


def test_a_schedule_sends_to_its_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for options, why in ({}, "session_id"), ({"session_id": "a"}, None):
            arguments = {"schedule": "s", "queue": "q", "every": MINUTE, "body": Jsonb(1), **options}
            if why is not None:
                with refused("PQ007", why):
                    ann.call("create_schedule", **arguments)
            else:
                ann.call("create_schedule", **arguments)
        stage.passes(MINUTE)
        assert accepted(bob).session_id == "a"


def test_purged_and_sent_to_again_a_session_is_available(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        ann.abandon(received(ann, held)[0], delay=DELAY)
        assert release(ann, held)
        assert accept(bob) is None  # moves it to the end of the delay
        assert ann.call("purge_queue", queue="q") == 1
        ann.send(2, session_id="a")
        assert bodies(bob, accepted(bob)) == [2]


def test_views_and_counts_show_sessions_and_who_holds_their_messages(database: Database) -> None:
    with stage_of(database, retain_history=timedelta(days=1)) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        ann.send(3, session_id="b")
        stage.passes(SECOND)
        held = accepted(ann)
        (first,) = received(ann, held)
        sessions = "select session_id, is_locked, messages, oldest_age, locked_by ~ 'ann' from pgqueue.sessions"
        assert bob.rows(sessions) == [("a", True, 2, SECOND, True), ("b", False, 1, SECOND, None)]
        assert bob.rows("select session_id, state from pgqueue.messages order by sequence_number") == [
            ("a", "LOCKED"), ("a", "READY"), ("b", "READY"),
        ]  # fmt: skip
        assert bob.rows("select ready, locked from pgqueue.queue_counts('q')") == [(2, 1)]
        assert bob.values("select sequence_number from pgqueue.locked_messages") == [first.sequence_number]
        assert ", the holder of its session 'a'" in bob.call("explain_message", queue="q", sequence_number=1)
        assert bob.values("select session_id from pgqueue.peek('q', 9)") == ["a", "a", "b"]
        assert release(ann, held)
        assert bob.rows("select ready, locked from pgqueue.queue_counts('q')") == [(3, 0)]
        assert bob.values("select sequence_number from pgqueue.locked_messages") == []
        held = accepted(ann, "a")
        ann.complete(received(ann, held)[0])
        assert bob.values("select session_id from pgqueue.history") == ["a"]


def test_unlocked_by_an_administrator_a_message_comes_again(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        received(ann, held, 2)
        ann.call("unlock", queue="q", sequence_number=1)
        assert bodies(ann, held) == [1]


@pytest.mark.parametrize("more", [0, 5_000])
def test_a_session_is_peeked_page_by_page_by_the_numbers(database: Database, more: int) -> None:
    """Also where messages came back: these have the numbers that they had, and later places in the session."""
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, 3, 4, session_id="a")
        ann.send(5, session_id="b")
        ann.values(SEND_MANY.format(more))
        held = accepted(ann)
        for message in received(ann, held, 2):
            ann.settle("dead_letter", message, reason="Odd")
        assert release(ann, held)
        ann.values("select pgqueue.resubmit('q')")
        page = "select sequence_number from pgqueue.peek_session('q', 'a', null, 3, {})"
        assert [bob.values(page.format(first)) for first in (0, 2, 4)] == [
            [1, 2, 3], [2, 3, 4], [4, 6, 7][: None if more else 1],
        ]  # fmt: skip


def test_a_sweep_forgets_sessions_without_a_holder(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        accepted(ann, "a")
        stage.passes(timedelta(hours=2))
        ann.table("sweep")
        assert ann.values("select session_id from pgqueue.session") == []


def test_dropping_the_queue_drops_its_sessions(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, session_id="a")
        accepted(ann)
        ann.call("drop_queue", queue="q")
        assert ann.values("select 1 from pgqueue.session union all select 1 from pgqueue.waiting_session") == []


def test_a_scheduled_message_alone_makes_its_session_available(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        at = ann.value("select pgqueue.clock()") + MINUTE
        ann.call("schedule", queue="q", body=Jsonb("later"), at=at, session_id="a")
        stage.passes(MINUTE)
        assert bodies(bob, accepted(bob)) == ["later"]


def test_a_sweep_leaves_a_deferred_message_to_the_holder_of_a_renewed_session(database: Database) -> None:
    with stage_of(database, max_delivery_count=1) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        ann.settle("defer", message)
        (again,) = ann.receive_deferred(message.sequence_number, session_id="a", lock_token=held.lock_token)
        renew(ann, held, lock_duration=10 * LOCK_DURATION)
        stage.passes(2 * LOCK_DURATION)
        for dry_run in (True, False):
            assert ann.values("select dead_lettered from pgqueue.sweep(dry_run => %(dry_run)s)", dry_run=dry_run) == []
        ann.complete(again)


def test_a_deferred_message_of_another_session_is_not_received(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, session_id="a")
        held, other = accepted(ann), accepted(ann, "b")
        (message,) = received(ann, held)
        ann.settle("defer", message)
        with refused(MESSAGE_NOT_FOUND):
            ann.receive_deferred(message.sequence_number, session_id="b", lock_token=other.lock_token)


def test_a_message_of_a_renewed_session_does_not_expire(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a", time_to_live=LOCK_DURATION)
        held = accepted(ann)
        (message,) = received(ann, held)
        stage.passes(LOCK_DURATION / 2)
        ann.call("renew_session_lock", queue="q", session_id="a", lock_token=held.lock_token)
        stage.passes(LOCK_DURATION / 2)
        for dry_run in (True, False):
            assert bob.values("select expired from pgqueue.sweep(dry_run => %(dry_run)s)", dry_run=dry_run) == []
        ann.complete(message)


def test_a_deferred_message_is_shown_as_locked_for_as_long_as_its_session_is(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        ann.settle("defer", message)
        ann.receive_deferred(message.sequence_number, session_id="a", lock_token=held.lock_token)
        renew(ann, held, lock_duration=10 * LOCK_DURATION)

        def shown() -> tuple[Any, ...]:
            return (
                bob.values("select sequence_number from pgqueue.locked_messages"),
                bob.values("select sequence_number from pgqueue.expired_locks"),
                bob.value("select state from pgqueue.deferred_messages"),
                bob.value("select state from pgqueue.messages"),
                bob.values("select locked from pgqueue.queue_counts('q')"),
                ", the holder of its session 'a'" in bob.call("explain_message", queue="q", sequence_number=1),
            )

        stage.passes(2 * LOCK_DURATION)
        assert shown() == ([1], [], "LOCKED", "LOCKED", [1], True)
        stage.passes(9 * LOCK_DURATION)
        assert shown() == ([], [1], "DEFERRED", "DEFERRED", [0], False)
