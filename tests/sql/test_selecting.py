"""Messages are deleted, cancelled and moved by their numbers, or by what matches, whatever their state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.house import house_in
from tests.sql.sessions import accept, accepted, received, release, stage_of
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    QUEUE_DISABLED,
    QUEUE_FULL,
    SECOND,
    TOO_LARGE,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
)

pytestmark = pytest.mark.core

ACCESS_DENIED = "42501"
HOUR = timedelta(hours=1)
STATES = "select sequence_number, state from pgqueue.find_messages(%(queue)s)"
DIED = "select sequence_number, dead_letter_reason, dead_letter_error_description from pgqueue.dead_letters"
HISTORY = "select sequence_number, outcome, reason from pgqueue.history order by sequence_number"


def states(session: Session, queue: str = "q") -> dict[int, str]:
    return dict(session.rows(STATES, queue=queue))


def delete(session: Session, *numbers: int, queue: str = "q") -> int:
    return int(session.call("delete_messages", queue=queue, sequence_numbers=list(numbers)))


def delete_matching(session: Session, **filters: Any) -> int:
    return int(session.call("delete_matching", queue="q", **filters))


def cancel(session: Session, number: int, **options: Any) -> bool:
    return bool(session.call("cancel", queue="q", sequence_number=number, **options))


def move(session: Session, *numbers: int, to: str = "other", queue: str = "q") -> int:
    return int(session.call("move_messages", queue=queue, sequence_numbers=list(numbers), to=to))


def one_of_each(session: Session, queue: str = "q", **options: Any) -> dict[str, int]:
    """Free messages in each state and place, one of them of another priority."""
    at = session.value("select pgqueue.clock() + interval '1 hour'")
    session.send("late", priority=1, queue=queue, **options)
    came_back, deferred, rests = (session.send(name, queue=queue, **options)[0] for name in ("back", "defer", "rest"))
    first, second, third = session.receive(3, queue=queue)
    assert [first.sequence_number, second.sequence_number, third.sequence_number] == [came_back, deferred, rests]
    session.abandon(first, queue=queue)
    session.settle("defer", second, queue=queue)
    session.abandon(third, queue=queue, delay=HOUR)
    return {
        "came back": came_back,
        "deferred": deferred,
        "rests": rests,
        "scheduled": session.send("later", queue=queue, scheduled_enqueue_time=at, **options)[0],
        "fresh": session.send("fresh", queue=queue, **options)[0],
        "urgent": session.send("urgent", queue=queue, priority=-1, **options)[0],
    }


KINDS = ("came back", "deferred", "rests", "scheduled", "fresh", "urgent")


@pytest.mark.parametrize("kind", KINDS)
def test_a_free_message_is_deleted_by_its_number(database: Database, kind: str) -> None:
    with Stage(database, retain_history="1 day") as stage:
        ann = stage.session("ann")
        number = one_of_each(ann)[kind]
        before = states(ann)
        assert delete(ann, number, number, 999) == 1
        assert states(ann) == {other: state for other, state in before.items() if other != number}
        assert ann.rows(HISTORY) == [(number, "DELETED", None)]
        assert delete(ann, number) == 0


def test_all_kinds_are_deleted_together(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = one_of_each(ann).values()
        assert delete(ann, *numbers) == 6
        assert list(states(ann).values()) == ["READY"]
        assert ann.values("select count(*) from pgqueue.failed_message") == [0]


def test_a_locked_message_stays_and_is_not_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", "c")
        ann.abandon(ann.receive()[0])
        back, fresh = ann.receive(2)
        assert delete(bob, 1, 2, 3) == 1
        ann.complete(back)
        ann.complete(fresh)


def test_a_message_whose_lock_has_expired_is_deleted_and_its_holder_has_lost_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        stage.passes(LOCK_DURATION)
        assert delete(bob, 1) == 1
        with refused(LOCK_LOST):
            ann.complete(message)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_an_open_transaction_holds_is_left_to_it(database: Database, kind: str) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = one_of_each(ann)[kind]
        ann.begin()
        assert delete(ann, number) == 1
        assert delete(bob, number) == 0
        assert move(bob, number, to=other(stage)) == 0
        assert not cancel(bob, number)
        assert not cancel(bob, number, reason="r")
        assert delete_matching(bob) == 6
        ann.rollback()
        assert delete(bob, number) == 1


def other(stage: Stage, **settings: Any) -> str:
    stage.prompter.call("create_queue", queue="other", **settings)
    return "other"


def test_a_message_being_worked_on_in_a_transaction_is_neither_cancelled_nor_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        ann.begin()
        ann.settle("pin", message)
        assert not cancel(bob, 1, reason="too late")
        ann.complete(message)
        assert not cancel(bob, 1, reason="too late")
        ann.commit()
        assert not cancel(bob, 1, reason="too late")
        assert bob.rows(DIED) == []


def test_a_killed_transaction_holds_its_message_no_longer(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        ann.begin()
        ann.complete(message)
        pid = ann.connection.info.backend_pid
        assert bob.value(f"select pg_terminate_backend({pid}, 20000)")
        assert cancel(bob, 1)
        assert states(bob) == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", [None, "sent by mistake"])
def test_a_waiting_message_is_cancelled(database: Database, kind: str, reason: str | None) -> None:
    with Stage(database, retain_history="1 day") as stage:
        ann = stage.session("ann")
        number = one_of_each(ann)[kind]
        assert cancel(ann, number, reason=reason)
        assert number not in states(ann)
        assert ann.rows(DIED) == ([(number, "Cancelled", reason)] if reason else [])
        outcome = ("DEAD_LETTERED", "Cancelled") if reason else ("CANCELLED", None)
        assert ann.rows(HISTORY) == [(number, *outcome)]
        assert not cancel(ann, number, reason=reason)


@pytest.mark.parametrize("reason", [None, "stuck"])
@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("has_expired", [False, True])
def test_the_holder_of_a_cancelled_message_has_lost_it(
    database: Database, reason: str | None, priority: int, has_expired: bool
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", priority=priority)
        (message,) = ann.receive()
        if has_expired:
            stage.passes(LOCK_DURATION)
        assert cancel(bob, 1, reason=reason)
        for verb in ("renew_lock", "complete", "abandon", "pin"):
            with refused(LOCK_LOST):
                ann.settle(verb, message)
        stage.passes(2 * LOCK_DURATION)
        assert ann.receive() == []
        assert ann.rows(DIED) == ([(1, "Cancelled", "stuck")] if reason else [])


def test_a_cancellation_that_is_rolled_back_leaves_the_lock(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        bob.begin()
        assert cancel(bob, 1)
        bob.rollback()
        ann.complete(message)


def losses(listener: Session, notifier: Session) -> list[str]:
    """The locks that the listener was notified about until now."""
    notifier.rows("select pg_notify('pgqueue_lock_lost', 'the end')")
    payloads = (notify.payload for notify in listener.connection.notifies())
    return list(iter(payloads.__next__, "the end"))


def test_the_holder_of_a_cancelled_message_is_notified(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows("listen pgqueue_lock_lost")
        ann.send("a", "b", "c")
        ann.receive(2)
        assert cancel(bob, 1)
        bob.call("unlock", queue="q", sequence_number=2)
        assert cancel(bob, 3)  # it is not locked
        assert losses(ann, bob) == ["1 q", "2 q"]


def test_a_cancellation_to_be_prepared_sends_no_notification(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows("listen pgqueue_lock_lost")
        ann.send("a")
        ann.receive()
        bob.rows("set pgqueue.notify = off")
        assert cancel(bob, 1)
        assert losses(ann, bob) == []


def test_a_cancelled_message_is_forwarded_like_any_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to=other(stage))
        at = ann.value("select pgqueue.clock() + interval '1 hour'")
        ann.send("a", scheduled_enqueue_time=at)
        ann.send("b")
        assert cancel(ann, 1, reason="r")
        assert cancel(ann, 2, reason="r")
        assert ann.rows(DIED) == []
        assert sorted(ann.numbers(9, queue="other")) == [1, 2]


def test_messages_match_by_state_and_properties(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = one_of_each(ann)
        assert delete_matching(ann, state="DEFERRED") == 1
        assert delete_matching(ann, state="SCHEDULED") == 2
        assert set(states(ann).values()) == {"READY"}
        ann.send("mail", subject="mail", application_properties=Jsonb({"a": 1, "tags": ["x", "y"]}))
        for properties in ({"a": 2}, {"a": 1, "b": 1}, {"tags": ["x"]}, {"b": None}):
            assert delete_matching(ann, application_properties=Jsonb(properties)) == 0
        assert delete_matching(ann, subject="letter") == 0
        assert delete_matching(ann, subject="mail", application_properties=Jsonb({"a": 1}), state="READY") == 1
        stage.passes(HOUR)
        fresh = ann.send("new")
        assert delete_matching(ann, older_than=HOUR) == 4
        assert [*states(ann)] == fresh
        assert numbers


@pytest.mark.parametrize("state", ["EXPIRED", "EXHAUSTED"])
def test_messages_that_are_not_delivered_any_more_match(database: Database, state: str) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.send("b", time_to_live=SECOND)
        ann.abandon(ann.receive()[0])
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        stage.passes(SECOND)
        assert states(ann) == {1: "EXHAUSTED", 2: "EXPIRED"}
        assert delete_matching(ann, state=state) == 1
        assert state not in states(ann).values()


def test_no_more_are_deleted_than_wanted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        one_of_each(ann)
        assert [delete_matching(ann, max_messages=3) for _ in range(4)] == [3, 3, 1, 0]


def test_locked_messages_match_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b")
        (message,) = ann.receive()
        assert delete_matching(bob) == 1
        with refused(INVALID_ARGUMENT):
            delete_matching(bob, state="LOCKED")
        ann.complete(message)


@contextmanager
def stopped(stage: Stage, function: str, at: str) -> Iterator[None]:
    """Sessions wait at this condition of the function until the block ends, with the snapshot of their statement."""
    stage.rewrite(function, at, f"pg_advisory_xact_lock(77)::text is not null and {at}")
    stage.prompter.rows("select pg_advisory_lock(77)")
    yield
    stage.prompter.rows("select pg_advisory_unlock(77)")


def test_a_message_that_was_locked_meanwhile_matches_no_more(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b")
        with stopped(stage, "delete_matching", "not pgqueue._is_locked(found, source.requires_session, moment)"):
            deleting = bob.starts(lambda: delete_matching(bob))
            (message,) = ann.receive(take_turn=False)
        assert deleting.result() == 1
        ann.complete(message)


def test_a_message_that_becomes_due_meanwhile_is_found_where_it_is_then(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        at = ann.value("select pgqueue.clock() + interval '1 hour'")
        (number,) = ann.send("a", scheduled_enqueue_time=at)
        with stopped(stage, "_lock_by_number", "sequence_number between number and number\n                    order"):
            deleting = bob.starts(lambda: delete(bob, number))
            stage.passes(HOUR)
            assert ann.call("take_turn", queue="q")
        assert deleting.result() == 1


def test_a_message_that_its_session_hands_out_meanwhile_stays(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        with stopped(stage, "_lock_by_number", "lane % 2 = 0 and sequence_number between number and number"):
            deleting = bob.starts(lambda: delete(bob, 1))
            (message,) = received(ann, accepted(ann))
        assert deleting.result() == 0
        ann.complete(message)


def test_the_messages_that_are_found_are_those_deleted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", subject="s", application_properties=Jsonb({"n": 1}), session_id="x")
        ann.send("b", subject="s", application_properties=Jsonb({"n": 2}))
        stage.passes(HOUR)
        ann.send("c", subject="s", application_properties=Jsonb({"n": 1}), session_id="x")
        for filters, numbers in (
            ({"application_properties": Jsonb({"n": 1})}, [1, 3]),
            ({"older_than": HOUR}, [1, 2]),
            ({"session_id": "x"}, [1, 3]),
            ({"session_id": "x", "older_than": HOUR}, [1]),
        ):
            found = ann.table("find_messages", queue="q", **filters)
            assert [number for number, *_ in found] == numbers
            ann.begin()
            assert delete_matching(ann, **filters) == len(numbers)
            ann.rollback()


@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_message_keeps_what_it_is(database: Database, kind: str) -> None:
    with Stage(database, retain_history="1 day") as stage:
        ann = stage.session("ann")
        number = one_of_each(ann, subject="s", correlation_id="c")[kind]
        known = "select state, delivery_count, subject, correlation_id, body, enqueued_time, scheduled_enqueue_time"
        found = f"{known} from pgqueue.find_messages(%(queue)s) where sequence_number = {number}"
        before = ann.rows(found, queue="q")
        assert move(ann, number, 999, to=other(stage)) == 1
        assert ann.rows(found, queue="other") == before
        assert number not in states(ann)
        assert ann.rows(HISTORY) == [(number, "MOVED", "other")]


def test_moved_messages_are_delivered_in_their_order_behind_any_cursor(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="other")
        numbers = one_of_each(ann)
        bob.send_many(300, queue="other")
        for _ in range(4):
            stage.passes(2 * SECOND)
            for message in bob.receive(300, queue="other"):
                bob.complete(message, queue="other")
            bob.rows("select pgqueue._advance_cursors(queue) from pgqueue.queue where name = 'other'")
        cursor = "select max(cursor) from pgqueue.progress join pgqueue.queue on id = queue_id where name = 'other'"
        reached = bob.value(cursor)
        assert reached > max(numbers.values())
        (fresh,) = bob.send("fresh", queue="other")
        assert move(ann, *numbers.values()) == 6
        expected = [numbers["urgent"], numbers["came back"], numbers["fresh"], fresh]
        assert bob.numbers(9, queue="other") == expected
        deferred = bob._receive("receive_deferred", {"queue": "other", "sequence_numbers": [numbers["deferred"]]})
        assert [message.delivery_count for message in deferred] == [1]
        stage.passes(HOUR)
        again = set(bob.numbers(9, queue="other"))
        assert {numbers["scheduled"], numbers["rests"]} <= again


def test_a_moved_message_keeps_its_errors(database: Database) -> None:
    with Stage(database, retain_errors=3) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.abandon(ann.receive()[0], error=Jsonb({"type": "Odd"}))
        assert move(ann, 1, to=other(stage)) == 1
        assert ann.values("select last_error from pgqueue.find_messages('other')") == ["Odd"]
        assert move(ann, 1, to="q", queue="other") == 1
        assert ann.values("select last_error from pgqueue.find_messages('q')") == ["Odd"]


def test_a_late_sender_and_a_held_snapshot_hide_no_moved_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, cid, dan = stage.sessions("ann", "bob", "cid", "dan")
        ann.call("create_queue", queue="other")
        ann.send("a")
        dan.begin("repeatable read")
        dan.rows("select from pgqueue.message")
        bob.begin()
        assert move(bob, 1) == 1
        for _ in range(5):
            cid.send_many(200, queue="other")
            stage.passes(2 * SECOND)
            for message in cid.receive(300, queue="other"):
                cid.complete(message, queue="other")
        bob.commit()
        stage.passes(2 * SECOND)
        assert cid.numbers(queue="other") == [1]
        dan.rollback()


def test_a_locked_message_is_not_moved(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b")
        (message,) = ann.receive()
        assert move(bob, 1, 2, to=other(stage)) == 1
        ann.complete(message)
        assert states(bob, "other") == {2: "READY"}


def test_a_late_holder_cannot_settle_a_message_that_was_moved(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (message,) = ann.receive()
        stage.passes(LOCK_DURATION)
        assert move(bob, 1, to=other(stage)) == 1
        for queue in ("q", "other"):
            with refused(LOCK_LOST):
                ann.complete(message, queue=queue)


def test_where_messages_cannot_be_moved(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("large" * 100)
        ann.rows("select pgqueue.create_topic('t'); select pgqueue.create_subscription('t', 's')")
        for to in ("q", "t", DEAD, "q/$deadletterqueue"):
            with refused(INVALID_ARGUMENT):
                move(ann, 1, to=to)
        with refused(UNKNOWN_QUEUE):
            move(ann, 1, to="nowhere")
        for settings, code in (
            ({"status": "SEND_DISABLED"}, QUEUE_DISABLED),
            ({"max_message_size": 100}, TOO_LARGE),
            ({"requires_session": True}, INVALID_ARGUMENT),
        ):
            ann.call("create_queue", queue="odd", **settings)
            with refused(code):
                move(ann, 1, to="odd")
            ann.call("drop_queue", queue="odd")
        assert states(ann) == {1: "READY"}
        assert move(ann, 1, to="t/Subscriptions/s") == 1


def test_a_moved_message_may_have_had_all_deliveries_of_the_other_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.abandon(ann.receive()[0])
        other(stage, max_delivery_count=1)
        assert move(ann, 1) == 1
        assert states(ann, "other") == {1: "EXHAUSTED"}
        assert ann.receive(queue="other") == []
        assert ann.values("select dead_letter_reason from pgqueue.dead_letters") == ["MaxDeliveryCountExceeded"]


def test_moving_takes_the_right_to_send_to_the_other_queue(database: Database) -> None:
    statement = "select pgqueue.move_messages('mine', array[%s::bigint], %s)"
    with house_in(database) as house:
        house.ask("select pgqueue.grant_receive('mine', %s)", house.role)
        number = house.arguments["mine"]["scheduled"]
        with house.as_the_role(), refused(ACCESS_DENIED):
            house.ask(statement, number, "theirs")
        with house.as_the_role():
            assert house.ask(statement, number, "open-mine") == (1,)


def test_a_full_queue_takes_none(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = one_of_each(ann)
        other(stage, max_queue_length=2)
        with refused(QUEUE_FULL):
            move(ann, numbers["fresh"], numbers["scheduled"], numbers["deferred"])
        assert move(ann, numbers["fresh"], numbers["scheduled"]) == 2
        with refused(QUEUE_FULL):
            move(ann, numbers["came back"])


def test_a_duplicate_is_left_where_it_is(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        other(stage, requires_duplicate_detection=True)
        ann.send("first", message_id="a", queue="other")
        ann.send("second", message_id="a")
        ann.send("third", message_id="b")
        ann.send("fourth", message_id="b")
        ann.send("fifth")
        assert move(ann, 2, 3, 4, 5) == 2
        assert [*states(ann)] == [2, 4]
        assert [*states(ann, "other")] == [1, 3, 5]
        assert move(ann, 3, to="q", queue="other") == 1
        assert move(ann, 3) == 1  # it is no duplicate of itself


def test_a_time_to_live_is_no_longer_than_the_queue_allows(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        other(stage, default_message_time_to_live=HOUR)
        ann.send("a")
        ann.send("b", time_to_live=SECOND)
        assert move(ann, 1, 2) == 2
        lives = "select expires_at - pgqueue.clock() from pgqueue.find_messages('other')"
        assert ann.values(lives) == [HOUR, SECOND]


def test_a_queue_that_forwards_passes_on_moved_messages_that_wait(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = one_of_each(ann)
        ann.call("create_queue", queue="last")
        other(stage, forward_to="last")
        assert move(ann, *numbers.values()) == 6
        assert set(states(ann, "other").values()) == {"SCHEDULED", "DEFERRED"}
        assert [*states(ann, "last")] == sorted(numbers[kind] for kind in ("came back", "fresh", "urgent"))


def test_an_overdue_message_that_is_moved_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = one_of_each(ann)["scheduled"]
        other(stage)
        stage.passes(2 * HOUR)
        for _ in range(4):
            stage.passes(2 * SECOND)
            ann.call("_pass_due_times", queue_id=2)
        assert move(ann, number) == 1
        stage.passes(SECOND)
        assert ann.numbers(queue="other") == [number]


# Sessions


def test_a_message_of_a_session_that_is_held_is_left_or_cancelled(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, 3, session_id="a")
        held = accepted(ann)
        first, second = received(ann, held, 2)
        assert delete(bob, 1, 3) == 1
        assert delete_matching(bob) == 0
        assert cancel(bob, 1)
        with refused(LOCK_LOST):
            ann.complete(first)
        ann.complete(second)
        assert release(ann, held)


def test_a_message_whose_session_is_lost_is_free(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        received(ann, accepted(ann), 2)
        stage.passes(LOCK_DURATION)
        assert delete(bob, 1) == 1
        assert delete_matching(bob, session_id="b") == 0
        assert delete_matching(bob, session_id="a") == 1


@pytest.mark.parametrize("how", ["delete", "match", "cancel", "move"])
def test_successors_of_a_message_that_rested_are_received_at_once(database: Database, how: str) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="other", requires_session=True)
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        (first,) = received(ann, held)
        ann.abandon(first, delay=HOUR)
        assert release(ann, held)
        assert accept(bob) is None
        if how == "delete":
            assert delete(bob, 1) == 1
        elif how == "match":
            assert delete_matching(bob, max_messages=1) == 1
        elif how == "cancel":
            assert cancel(bob, 1, reason="r")
        else:
            assert move(bob, 1) == 1
        assert [message.body for message in received(bob, accepted(bob), 9)] == [2]


def test_messages_are_moved_between_sessions(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.call("create_queue", queue="other", requires_session=True)
        ann.call("create_queue", queue="plain")
        ann.send(1, 2, 3, session_id="a")
        ann.send(4, session_id="b")
        with refused(INVALID_ARGUMENT):
            move(ann, 1, to="plain")
        assert move(ann, 1, 2, 4) == 3
        found = "select sequence_number, session_id from pgqueue.find_messages('other')"
        assert ann.rows(found) == [(1, "a"), (2, "a"), (4, "b")]
        token = bob.value("select lock_token from pgqueue.accept_session('other', 'a')")
        receive = "select body from pgqueue.receive_from_session('other', 'a', %(token)s, 9)"
        assert bob.values(receive, token=token) == [1, 2]


def test_a_message_is_moved_into_a_session(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = one_of_each(ann, session_id="a")
        other(stage, requires_session=True)
        assert move(ann, *numbers.values()) == 6
        assert states(ann, "other")[numbers["deferred"]] == "DEFERRED"
        ((token,),) = ann.rows("select lock_token from pgqueue.accept_session('other', 'a')")
        receive = "select sequence_number from pgqueue.receive_from_session('other', 'a', %(token)s, 9)"
        assert ann.values(receive, token=token) == [numbers["came back"], numbers["fresh"], numbers["urgent"]]
        ((deferred,),) = ann.rows(
            "select sequence_number from pgqueue.receive_deferred('other', %(numbers)s, null, null, 'a', %(token)s)",
            numbers=[numbers["deferred"]],
            token=token,
        )
        assert deferred == numbers["deferred"]


def test_bad_arguments_are_named(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for filters in ({"state": "ODD"}, {"max_messages": 0}, {"application_properties": Jsonb([1])}):
            with refused(INVALID_ARGUMENT):
                delete_matching(ann, **filters)
        with refused(INVALID_ARGUMENT):
            cancel(ann, 1, reason="")
        with refused(INVALID_ARGUMENT):
            ann.table("find_messages", queue="q", application_properties=Jsonb(1))
        for queue, code in (("nowhere", UNKNOWN_QUEUE), (DEAD, INVALID_ARGUMENT)):
            with refused(code):
                delete(ann, 1, queue=queue)
