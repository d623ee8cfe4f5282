"""Sessions: messages in their order, for one receiver at a time."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import (
    SESSION_HELD,
    SESSION_LOST,
    accept,
    accept_several,
    accepted,
    bodies,
    opened,
    received,
    release,
    renew,
    said,
    set_state,
    stage_of,
    state,
    waiting,
)
from tests.sql.stage import INVALID_ARGUMENT, LOCK_DURATION, LOCK_LOST, SECOND, Stage, refused


def test_messages_of_a_session_come_in_the_order_of_their_numbers(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a1", session_id="a")
        ann.send("b1", session_id="b")
        ann.send("a2", "a3", session_id="a")
        held = accepted(bob, "a")
        assert bodies(bob, held, 2) == ["a1", "a2"]
        assert bodies(bob, held) == ["a3"]
        assert bodies(bob, held) == []


def test_the_next_session_is_the_one_that_has_waited_longest(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        for name in "abc":
            ann.send(name, session_id=name)
            stage.passes(SECOND)
        first, second = accepted(bob), accepted(cho)
        assert (first.session_id, second.session_id) == ("a", "b")
        assert release(bob, first)
        assert [accepted(bob).session_id, accepted(cho).session_id] == ["c", "a"]
        assert accept(ann) is None


def test_several_sessions_are_accepted_at_once_those_that_have_waited_longest_first(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        for name in "abcd":
            ann.send(f"{name}1", session_id=name)
            stage.passes(SECOND)
        accepted(cho, "a")
        first = accept_several(bob, max_sessions=2)
        assert [held.session_id for held in first] == ["b", "c"]
        assert [bodies(bob, held) for held in first] == [["b1"], ["c1"]]
        assert [held.session_id for held in accept_several(bob, max_sessions=2)] == ["d"]
        assert accept_several(bob, max_sessions=2) == []
        assert release(bob, first[1])
        assert not release(bob, first[1])
        assert len({held.lock_token for held in first}) == 2


def test_a_number_of_sessions_that_is_not_positive_is_refused(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        for most in (0, -1, None):
            with refused(INVALID_ARGUMENT, "max_sessions must be a positive whole number"):
                accept_several(ann, max_sessions=most)


def test_a_session_is_held_by_one_until_it_is_released_or_its_lock_expires(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("work", session_id="a")
        held = accepted(ann, "a")
        with refused(SESSION_HELD):
            accept(bob, "a")
        assert accept(bob) is None
        assert release(ann, held)
        again = accepted(bob)
        stage.passes(LOCK_DURATION)
        assert accepted(ann, "a").session_id == again.session_id


def test_an_abandoned_message_comes_again_before_its_successors(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, 2, 3, session_id="a")
        held = accepted(ann)
        first, second = received(ann, held, 2)
        ann.abandon(first)
        again, third = received(ann, held, 9)
        assert (again.body, again.delivery_count, third.body) == (1, 2, 3)
        ann.settle_batch("complete_batch", [again, second, third])
        assert bodies(ann, held) == []


def test_messages_of_a_lost_session_come_again_in_their_order(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, 3, session_id="a")
        held = accepted(ann)
        first, second = received(ann, held, 2)
        stage.passes(LOCK_DURATION)
        taken = accepted(bob)
        for verb in ("complete", "abandon", "defer", "pin"):
            with refused(SESSION_LOST):
                ann.settle(verb, second)
        with refused(SESSION_LOST):
            received(ann, held)
        with refused(SESSION_LOST):
            ann.table("receive_deferred", queue="q", sequence_numbers=[1], session_id="a", lock_token=held.lock_token)
        with refused(SESSION_LOST):
            renew(ann, held)
        with refused(SESSION_LOST):
            set_state(ann, held, 1)
        assert not release(ann, held)
        again = received(bob, taken, 9)
        assert [(each.body, each.delivery_count) for each in again] == [(1, 2), (2, 2), (3, 1)]
        with refused(SESSION_LOST):
            ann.complete(first)
        assert ann.settle_batch("complete_batch", [first]) == [(first.sequence_number, LOCK_LOST)]
        bob.settle_batch("complete_batch", again)


def test_an_expired_lock_still_settles_until_the_session_is_accepted_again(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send("work", session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        stage.passes(2 * LOCK_DURATION)
        ann.complete(message)
        assert release(ann, held)
        assert waiting(ann) == ann.values("select session_id from pgqueue.session") == []


def test_an_expired_lock_still_settles_deferred_messages_when_the_session_has_no_others(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        ann.settle("defer", message)
        (message,) = ann.receive_deferred(message.sequence_number, session_id="a", lock_token=held.lock_token)
        stage.passes(LOCK_DURATION)
        assert accept(bob) is None
        ann.complete(message)
        set_state(ann, held, "done")


def test_a_session_cannot_be_accepted_while_a_transaction_of_its_holder_is_open(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        first, _ = received(ann, held, 2)
        with opened(ann):
            ann.complete(first)
            stage.passes(2 * LOCK_DURATION)
            assert accept(bob) is None
            with refused(SESSION_HELD):
                accept(bob, "a")
        stage.passes(SECOND)
        assert bodies(bob, accepted(bob)) == [2]


def test_state_is_written_with_the_completion_or_not_at_all(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        ann.begin()
        set_state(ann, held, {"last": 1})
        ann.complete(message)
        assert state(bob, "a") is None
        ann.rollback()
        assert state(ann, "a") is None
        with opened(ann):
            set_state(ann, held, {"last": 1})
            ann.complete(message)
        assert release(ann, held)
        assert state(bob, "a") == accepted(bob, "a").state == {"last": 1}


def test_a_renewed_session_is_not_accepted_by_others(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        stage.passes(LOCK_DURATION / 2)
        assert renew(ann, held) == held.locked_until + LOCK_DURATION / 2
        stage.passes(LOCK_DURATION / 2 + SECOND)
        assert accept(bob) is None
        assert ann.settle("renew_lock", message) == held.locked_until + LOCK_DURATION + SECOND  # renews the session
        stage.passes(LOCK_DURATION)
        assert accepted(bob).session_id == "a"


def test_receives_without_a_session_are_refused(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send("work", session_id="a")
        for refusal in (
            ann.receive,
            lambda: ann.table("receive_and_delete", queue="q"),
            lambda: ann.receive_deferred(1),
        ):
            with said("requires sessions: accept one with accept_session"):
                refusal()
        ann.call("create_queue", queue="plain")
        with said("does not require sessions"):
            ann.table("accept_session", queue="plain")


def test_each_message_needs_a_session_and_has_no_priority(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        for session_id in (None, "", "x" * 129):
            with said("session_id of the message must be a text of 1 to 128 characters"):
                ann.send("work", session_id=session_id)
        with said("priority of the message must be left out"):
            ann.send("work", session_id="a", priority=1)
        with said("session_id of message 2"):
            ann.values(
                "select pgqueue.send_batch('q', %(bodies)s, session_ids => %(ids)s)",
                bodies=[Jsonb(1), Jsonb(2)],
                ids=["a", None],
            )
        ann.send("work", session_id="x" * 128)


def test_elsewhere_a_session_is_a_plain_property(database: Database) -> None:
    with Stage(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.send(1, session_id="a", priority=7)
        with said("session_id of the message must be at most 128"):
            ann.send(1, session_id="x" * 129)
        assert ann.values("select session_id from pgqueue.receive('q')") == ["a"]
        assert waiting(ann) == []
