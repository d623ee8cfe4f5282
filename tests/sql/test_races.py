"""Two sessions at the same message, step by step."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import (
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    SERIALIZATION_FAILURE,
    Stage,
    overtaken,
    passed,
    refused,
    scan,
)

pytestmark = pytest.mark.core

UNLOCKED = "select sequence_number from pgqueue.message order by position for update skip locked"


def test_two_receivers_never_get_the_same_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send("a", "b", "c", "d")
        ann.begin()
        assert ann.numbers(2) == numbers[:2]
        assert bob.numbers(2) == numbers[2:]
        ann.commit()
        assert bob.receive() == []


def test_a_claim_locks_no_row_beyond_those_it_returns(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send_many(20)
        ann.begin()
        ann.receive(3)
        assert bob.values(UNLOCKED) == numbers[3:]
        ann.rollback()


def test_a_claim_locks_no_row_beyond_those_it_returns_from_several_lanes(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        urgent, usual, later = ann.send("a", priority=-1) + ann.send("b") + ann.send("c", priority=1)
        ann.begin()
        assert ann.numbers(2) == [urgent, usual]
        assert bob.values(UNLOCKED) == [later]
        ann.rollback()


def test_a_claim_with_an_old_view_does_not_take_what_was_claimed_meanwhile(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        first, second, third = ann.send("a", "b", "c")
        # Bob's scan stops at the first message, before it locks the row.
        stage.rewrite(
            "receive",
            "order by position",
            "and (current_setting('application_name') <> 'bob' or pgqueue_testing.gate()) order by position",
        )
        stage.prompter.rows(
            "create function pgqueue_testing.gate() returns boolean language sql"
            " as 'select pg_advisory_xact_lock_shared(1) is not null'"
        )
        gate.value("select pg_advisory_lock(1)")
        claim = bob.starts(lambda: bob.receive(3))
        taken = ann.receive(2)
        assert [message.sequence_number for message in taken] == [first, second]
        gate.value("select pg_advisory_unlock(1)")
        assert [message.sequence_number for message in claim.result()] == [third]
        assert [code for _, code in ann.settle_batch("complete_batch", taken)] == [None, None]


def test_a_message_whose_owner_still_completes_it_is_skipped_when_its_lock_expires(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
        ann.rollback()
        stage.passes(SECOND)
        (redelivered,) = bob.receive()
        assert redelivered.sequence_number == received.sequence_number
        assert redelivered.delivery_count == 2
        with refused(LOCK_LOST):
            ann.complete(received)


def test_a_watching_session_skips_a_message_that_is_being_completed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        ann.begin()
        ann.complete(received)
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
        ann.rollback()
        stage.passes(SECOND)
        assert bob.numbers() == [received.sequence_number]


def test_a_completion_does_not_wait_for_sessions_that_find_the_message_locked(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        bob.begin()
        assert bob.receive() == []
        ann.complete(received)
        bob.commit()


def test_a_completion_that_meets_a_redelivery_waits_and_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        bob.begin()
        (redelivered,) = bob.receive()
        completion = ann.starts(lambda: ann.complete(late))
        bob.commit()
        with refused(LOCK_LOST):
            completion.result()
        bob.complete(redelivered)


def test_a_completion_that_meets_a_redelivery_which_is_undone_succeeds(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        bob.begin()
        bob.receive()
        completion = ann.starts(lambda: ann.complete(late))
        bob.rollback()
        completion.result()


@pytest.mark.parametrize("verb", ["complete", "abandon", "pin"])
def test_a_settlement_finds_a_message_that_is_put_back_while_it_waits(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        stage.passes(LOCK_DURATION)
        bob.begin()
        assert bob.call("take_turn", queue="q")
        settlement = ann.starts(lambda: ann.settle(verb, received))
        bob.commit()
        settlement.result()


def test_a_renewal_does_not_wait_for_the_completion_that_is_under_way(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        stage.passes(SECOND)
        assert bob.settle("renew_lock", received) == received.locked_until
        ann.commit()
        with refused(LOCK_LOST):
            bob.settle("renew_lock", received)


def test_a_completion_with_a_view_older_than_a_renewal_can_be_repeated_on_the_same_lock(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin("repeatable read")
        ann.value("select 1")
        stage.passes(SECOND)
        bob.settle("renew_lock", received)
        with refused(SERIALIZATION_FAILURE):
            ann.complete(received)
        ann.rollback()
        ann.begin("repeatable read")
        ann.complete(received)
        ann.commit()


@pytest.mark.parametrize("came_back", [False, True], ids=["fresh", "came back"])
def test_a_completion_with_a_view_older_than_the_lock_can_be_repeated_on_it(
    database: Database, came_back: bool
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        if came_back:
            ann.abandon(ann.receive()[0])
        ann.begin("repeatable read")
        ann.value("select 1")
        (received,) = bob.receive()
        with refused(SERIALIZATION_FAILURE):
            ann.complete(received)
        ann.rollback()
        ann.begin("repeatable read")
        ann.complete(received)
        ann.commit()


def test_a_lost_lock_is_called_lost_at_every_isolation_level(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        bob.receive()
        for isolation in ("read committed", "repeatable read", "serializable"):
            ann.begin(isolation)
            with refused(LOCK_LOST, isolation):
                ann.complete(late)
            ann.rollback()


@pytest.mark.parametrize("came_back", [False, True], ids=["fresh", "came back"])
def test_a_lost_lock_is_called_lost_while_its_next_holder_completes(database: Database, came_back: bool) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        if came_back:
            ann.abandon(ann.receive()[0])
        (late,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (received,) = bob.receive(take_turn=False)
        bob.begin()
        bob.complete(received)
        ann.begin("repeatable read")
        with refused(LOCK_LOST):
            ann.complete(late)
        ann.rollback()
        bob.commit()


def test_a_session_that_reconnects_begins_where_everybody_begins(database: Database) -> None:
    with Stage(database) as stage:
        gone = stage.session("gone")
        numbers = overtaken(gone)
        gone.connection.close()
        stage.passes(LOCK_DURATION)
        back = stage.session("gone")
        assert scan(back) == 0
        assert back.numbers(len(numbers)) == numbers


@pytest.mark.parametrize("forget", ["discard all", "reset all"])
def test_a_session_may_be_made_to_forget_its_cursors(database: Database, forget: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = overtaken(ann)
        ann.rows(forget)
        assert scan(ann) == 0
        stage.passes(LOCK_DURATION)
        assert ann.numbers(len(numbers)) == numbers


def test_a_purge_skips_messages_being_completed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", "c")
        (received,) = ann.receive()
        ann.begin()
        ann.complete(received)
        assert bob.call("purge_queue", queue="q") == 2
        ann.rollback()
        assert bob.values("select sequence_number from pgqueue.message") == [received.sequence_number]


def test_a_bounded_purge_skips_messages_being_completed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", "c")
        received = ann.receive(2)
        ann.begin()
        ann.settle_batch("complete_batch", received)
        assert bob.call("purge_queue", queue="q", max_messages=2) == 1
        ann.commit()


def test_a_purge_skips_messages_being_activated(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0], delay=SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert ann.call("take_turn", queue="q")
        assert bob.call("purge_queue", queue="q") == 0
        ann.commit()
        assert bob.numbers() == [number]


def test_concurrent_resubmissions_never_move_the_same_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send("a", "b", "c")
        for message in ann.receive(3):
            ann.settle("dead_letter", message, reason="r")
        ann.begin()
        assert ann.table("resubmit", queue="q", max_messages=2) == [(number,) for number in numbers[:2]]
        assert bob.table("resubmit", queue="q") == [(numbers[2],)]
        ann.commit()
        assert bob.numbers(9) == numbers


def test_two_sessions_that_return_expired_messages_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        stage.passes(LOCK_DURATION)
        ann.begin()
        assert ann.call("take_turn", queue="q")
        assert not bob.call("take_turn", queue="q")
        ann.rollback()
        assert bob.numbers() == [received.sequence_number]


def test_two_sessions_that_activate_messages_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0], delay=SECOND)
        stage.passes(SECOND)
        ann.begin()
        assert ann.call("take_turn", queue="q")
        assert not bob.call("take_turn", queue="q")
        ann.rollback()
        assert bob.numbers() == [number]


def test_a_turn_is_taken_by_one_session_at_a_time(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        ann.receive()
        ann.send("b")
        stage.passes(2 * SECOND)
        ann.begin()
        ann.call("take_turn", queue="q")
        assert len(bob.receive()) == 1
        ann.commit()


def test_a_consumer_that_starts_to_wait_is_not_blocked_by_a_change_of_the_queue(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.call("alter_queue", queue="q", max_delivery_count=3)
        assert bob.rows("select * from pgqueue._subscribe(array['q'], '1 minute')") == []
        ann.commit()
        assert len(bob.rows("select * from pgqueue._subscribe(array['q'], '1 minute')")) == 1
