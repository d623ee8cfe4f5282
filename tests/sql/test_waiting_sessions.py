"""Which sessions wait to be accepted: senders and receivers at the same moment, and what is promised of the order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.sessions import (
    SESSION_LOST,
    Accepted,
    accept,
    accepted,
    bodies,
    opened,
    received,
    release,
    renew,
    set_state,
    stage_of,
    waiting,
)
from tests.sql.stage import LOCK_DURATION, LOCK_LOST, SECOND, Session, Stage, refused


def test_senders_to_one_session_do_not_wait_for_each_other(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.begin()
        bob.begin()
        ann.send("first", session_id="a")
        bob.send("second", session_id="a")
        ann.rollback()
        bob.commit()
        assert bodies(cho, accepted(cho)) == ["second"]


def test_of_two_open_transactions_the_smaller_number_comes_when_it_is_committed(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        with opened(ann):
            ann.send("ann 1", "ann 2", session_id="a")
            bob.send("bob", session_id="a")
            held = accepted(cho)
            assert bodies(cho, held, 1) == ["bob"]
        assert bodies(cho, held) == ["ann 1", "ann 2"]


def test_messages_committed_before_the_receive_come_in_order(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        with opened(ann):
            ann.send("ann", session_id="a")
            bob.send("bob", session_id="a")
        assert bodies(cho, accepted(cho)) == ["ann", "bob"]


def test_a_message_that_is_committed_late_is_not_behind_the_cursor_of_its_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.begin()
        ann.send("late", session_id="a")
        bob.send(*range(5), session_id="a")
        held = accepted(cho)
        for _ in range(5):
            stage.passes(2 * SECOND)
            for message in received(cho, held):
                cho.complete(message)
        ann.commit()
        assert bodies(cho, held) == ["late"]


def test_the_cursor_of_a_session_moves_after_a_restore_into_a_cluster_with_lower_transaction_ids(
    database: Database,
) -> None:
    with stage_of(database) as stage:
        ann, slow, cho = stage.sessions("ann", "slow", "cho")
        ann.send("first", session_id="a")
        held = accepted(cho)
        ann.rows("update pgqueue.session set horizon_xid = '9000000000000000000', horizon = 1")
        slow.begin()
        slow.send("late", session_id="a")
        (last,) = ann.send("last", session_id="a")
        assert settled(stage, cho, held) == ["first", "last"]
        slow.commit()
        assert settled(stage, cho, held) == ["late"]
        assert ann.value("select cursor from pgqueue.session") == last


def test_an_empty_session_that_a_sender_is_sending_to_goes_on_waiting(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        bob.send("old", session_id="a")
        held = accepted(bob)
        with opened(ann):
            ann.send("new", session_id="a")
            bob.complete(received(bob, held)[0])
            assert release(bob, held)
            assert accept(cho) is None
        stage.passes(SECOND)
        assert bodies(cho, accepted(cho)) == ["new"]


def test_a_sender_that_meets_the_end_of_a_session_announces_it_again(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        bob.send("old", session_id="a")
        held = accepted(bob)
        bob.complete(received(bob, held)[0])
        with opened(bob):
            assert release(bob, held)
            ann.send("new", session_id="a")
        assert bodies(cho, accepted(cho)) == ["new"]


def test_a_session_that_is_found_held_while_it_is_released_is_available_in_a_second(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        bob.send("old", session_id="a")
        held = accepted(bob)
        bob.complete(received(bob, held)[0])
        with opened(bob):
            assert release(bob, held)
            ann.send("new", session_id="a")
            assert accept(cho) is None
        stage.passes(SECOND)
        assert bodies(cho, accepted(cho)) == ["new"]


def test_messages_are_looked_for_once_more_when_the_session_is_locked(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        bob.send("old", session_id="a")
        held = accepted(bob)
        bob.complete(received(bob, held)[0])
        stage.rewrite(
            "_forget_waiting", "begin\n    select", "begin\n    perform pg_advisory_xact_lock(7);\n    select"
        )
        with opened(cho):
            cho.rows("select pg_advisory_xact_lock(7)")
            stopped = bob.starts(lambda: release(bob, held))
            ann.send("new", session_id="a")
        assert stopped.result()
        assert bodies(cho, accepted(cho)) == ["new"]


def test_at_repeatable_read_nothing_is_removed_and_a_sender_does_not_fail(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        bob.send("old", session_id="a")
        held = accepted(bob)
        bob.complete(received(bob, held)[0])
        bob.begin("repeatable read")
        bob.rows("select from pgqueue.message")
        ann.send("new", session_id="a")
        assert release(bob, held)
        bob.commit()
        held = accepted(cho)
        ann.begin("repeatable read")
        ann.rows("select from pgqueue.message")
        cho.complete(received(cho, held)[0])
        assert release(cho, held)
        try:
            ann.send("newer", session_id="a")
        except psycopg.errors.SerializationFailure as error:
            raise AssertionError("a sender failed because the session was removed") from error
        ann.commit()
        assert bodies(cho, accepted(cho)) == ["newer"]


def test_a_transaction_at_repeatable_read_settles_and_sends_after_a_renewal(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("work", session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        ann.begin("repeatable read")
        ann.rows("select from pgqueue.message")
        bob.call("renew_session_lock", queue="q", session_id="a", lock_token=held.lock_token)
        ann.complete(message)
        ann.commit()


def test_a_session_that_is_released_while_an_acceptor_moves_its_row_is_available(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send("work", session_id="a")
        held = accepted(ann)
        with opened(bob):
            bob.rows("select from pgqueue.waiting_session for no key update")
            assert release(ann, held)
            assert bodies(cho, accepted(cho)) == ["work"]


def test_a_session_whose_first_message_is_cancelled_while_an_acceptor_moves_it_is_available(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        (first,) = received(ann, held)
        ann.abandon(first, delay=timedelta(hours=1))
        assert release(ann, held)
        bob.begin()
        assert accept(bob) is None
        assert ann.call("cancel", queue="q", sequence_number=1)
        bob.commit()
        assert bodies(cho, accepted(cho)) == [2]


def test_a_session_whose_lock_was_shortened_is_available_at_its_end(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("work", session_id="a")
        held = accepted(ann, lock_duration=timedelta(hours=1))
        renew(ann, held, lock_duration=SECOND)
        assert accept(bob) is None
        stage.passes(2 * SECOND)
        assert bodies(bob, accepted(bob)) == ["work"]


def test_the_release_of_a_session_does_not_wait_for_its_own_open_transaction(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        ann.send("work", session_id="a")
        held = accepted(ann)
        with opened(ann):
            set_state(ann, held, 1)
            assert not release(bob, held)
        assert release(bob, held)
        assert accepted(cho).state == 1


def test_no_message_is_passed_over_that_a_transaction_holds(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        held = accepted(ann)
        with opened(bob):
            bob.rows("select from pgqueue.message where sequence_number = 1 for update")
            assert bodies(ann, held) == []
        assert bodies(ann, held) == [1, 2]


def test_two_rows_of_a_session_do_not_let_two_accept_it(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob, cho = stage.sessions("ann", "bob", "cho")
        with opened(ann), opened(bob):
            ann.send(1, session_id="a")
            bob.send(2, session_id="a")
        assert waiting(ann) == ["a", "a"]
        with opened(ann):
            assert accepted(ann).session_id == "a"
            assert accept(bob) is None
        assert accept(cho) is None
        stage.passes(LOCK_DURATION)
        assert accepted(cho).session_id == "a"


def test_a_session_with_many_messages_goes_behind_the_others(database: Database) -> None:
    with stage_of(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.values(
            "select pgqueue.send_batch('q', array_fill('1'::jsonb, size), session_ids => array_fill('big'::text, size))"
            " from (select array[50]) as shape (size)"
        )
        for name in "xyz":
            stage.passes(SECOND)
            ann.call("send", queue="q", body=Jsonb(1), session_id=name)
        order = []
        for _ in range(5):
            stage.passes(SECOND)
            held = accepted(ann)
            order.append(held.session_id)
            for message in received(ann, held):
                ann.complete(message)
            assert release(ann, held)
        assert order == ["big", "x", "y", "z", "big"]


def test_a_renewal_does_not_wait_for_a_transaction_that_has_set_the_state(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = accepted(ann, "a")
        with opened(ann):
            set_state(ann, held, 1)
            stage.passes(SECOND)
            assert renew(bob, held) == held.locked_until


def test_the_release_of_an_empty_session_does_not_wait_for_a_receive(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = accepted(ann, "a")
        with opened(ann):
            assert received(ann, held) == []
            assert release(bob, held)


def test_a_receive_does_not_wait_for_a_transaction_that_has_set_the_state(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        with opened(ann):
            set_state(ann, held, 1)
            stage.passes(2 * SECOND)
            assert bodies(bob, held) == [1]


def test_a_refusal_does_not_wait(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        lost = accepted(ann, "a")
        stage.passes(LOCK_DURATION)
        held = accepted(bob, "a")
        with opened(bob):
            set_state(bob, held, 1)
            with refused(SESSION_LOST):
                renew(ann, lost)


def test_a_purge_does_not_wait_for_who_accepts_a_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        held = accepted(ann)
        with opened(bob):
            bob.rows("select from pgqueue.waiting_session for no key update")
            assert ann.call("purge_queue", queue="q") == 1
        assert release(ann, held)


def test_a_deletion_does_not_wait_for_who_accepts_its_session(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, 2, session_id="a")
        with opened(bob):
            bob.rows("select from pgqueue.waiting_session for no key update")
            assert ann.call("delete_messages", queue="q", sequence_numbers=[2]) == 1


def test_a_lost_token_holds_nothing_that_the_next_holder_has(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(1, session_id="a")
        lost = accepted(ann)
        (message,) = received(ann, lost)
        stage.passes(LOCK_DURATION)
        held = accepted(bob)
        stage.passes(SECOND)
        assert bob.rows("select ready, locked from pgqueue.queue_counts('q')") == [(1, 0)]
        assert bob.values("select state from pgqueue.find_messages('q')") == ["READY"]
        assert "can be delivered now" in bob.call("explain_message", queue="q", sequence_number=1)
        assert ann.settle_batch("renew_lock_batch", [message]) == [(1, LOCK_LOST, None)]
        assert bob.values("select locked_until from pgqueue.session") == [held.locked_until]
        with refused(SESSION_LOST):
            ann.table("get_session_state", queue="q", session_id="a", lock_token=lost.lock_token)
        (again,) = received(bob, held)
        renewed = bob.table(
            "renew_lock_batch", queue="q", sequence_numbers=[1, 1], lock_tokens=[lost.lock_token, again.lock_token]
        )
        assert [sqlstate for _, sqlstate, _ in renewed] == [LOCK_LOST, None]


def test_accepting_another_session_does_not_keep_a_holder_waiting(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", session_id="a")
        held = accepted(ann)
        (message,) = received(ann, held)
        stage.passes(LOCK_DURATION / 2)
        renewed = renew(ann, held)
        stage.passes(LOCK_DURATION / 2)  # the time at which the session was to be looked at again
        with opened(bob):
            assert accept(bob) is None
            stage.passes(SECOND)
            assert renew(ann, held) > renewed
            ann.complete(message)


def emptied(stage: Stage, session: Session) -> None:
    """A session that is empty, and remembered because its holder has read much that was settled before."""
    ids = "array_fill('a'::text, array[5000])"
    session.rows(f"select pgqueue.send_batch('q', array_fill('1'::jsonb, array[5000]), session_ids => {ids})")
    session.call("purge_queue", queue="q")
    for _ in range(3):
        session.send("b", session_id="a")
        held = accepted(session)
        session.settle_batch("complete_batch", received(session, held))
        assert release(session, held)
        stage.passes(2 * SECOND)


def test_an_empty_session_is_remembered_that_has_read_much(database: Database) -> None:
    with stage_of(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        emptied(stage, ann)
        assert ann.value("select horizon > 5000 from pgqueue.session")
        assert waiting(ann) == []
        stage.passes(timedelta(hours=2))
        ann.table("sweep")
        assert ann.values("select session_id from pgqueue.session") == []
        holder.execute("rollback")


def test_a_session_that_has_read_little_is_forgotten(database: Database) -> None:
    with stage_of(database) as stage:
        ann = stage.session("ann")
        ann.send("a", session_id="a")
        held = accepted(ann)
        ann.settle_batch("complete_batch", received(ann, held))
        assert release(ann, held)
        assert ann.values("select session_id from pgqueue.session") == []


def test_a_remembered_session_starts_over_when_the_sequence_went_back(database: Database) -> None:
    with stage_of(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        emptied(stage, ann)
        ann.value("select setval('pgqueue.sequence_number', 100)")
        ann.send("early", session_id="a")
        assert bodies(ann, accepted(ann)) == ["early"]
        holder.execute("rollback")


def test_a_repair_of_the_sequence_lets_remembered_sessions_start_over(database: Database) -> None:
    with stage_of(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        emptied(stage, ann)
        ann.send("waits", session_id="b")
        ann.value("select setval('pgqueue.sequence_number', 100)")
        ann.send("early", session_id="a")
        while ann.values("select more from pgqueue.sweep(thorough => true) where more"):
            pass
        found = {held.session_id: bodies(ann, held) for held in (accepted(ann), accepted(ann))}
        assert found == {"a": ["early"], "b": ["waits"]}
        holder.execute("rollback")


def settled(stage: Stage, session: Session, held: Accepted) -> list[Any]:
    """The bodies of what a session has in five seconds, all of it completed."""
    found = []
    for _ in range(5):
        messages = received(session, held, 9)
        for message in messages:
            session.complete(message)
        found += [message.body for message in messages]
        stage.passes(SECOND)
    return found
