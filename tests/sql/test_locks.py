"""A lock: how long it lasts, what its expiry does, and how deliveries are counted."""

from __future__ import annotations

import pytest

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    Received,
    Session,
    Stage,
    passed,
    refused,
)


def test_a_locked_message_is_hidden_until_its_lock_expires(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        (received,) = ann.receive()
        assert received.locked_until == ann.call("clock") + LOCK_DURATION
        assert bob.receive() == []
        stage.passes(LOCK_DURATION - SECOND)
        assert bob.receive() == []
        stage.passes(SECOND)
        assert bob.numbers() == [number]


def test_every_delivery_has_a_token_of_its_own(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (first,) = ann.receive()
        ann.abandon(first)
        (second,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (third,) = ann.receive()
        assert len({first.lock_token, second.lock_token, third.lock_token}) == 3


def test_a_lock_is_timed_from_the_claim_not_from_the_start_of_the_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.begin()
        ann.value("select now()")
        stage.passes(LOCK_DURATION)
        (received,) = ann.receive()
        assert received.locked_until == ann.call("clock") + LOCK_DURATION
        ann.commit()


def test_a_renewed_lock_lasts_a_lock_duration_from_now(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(LOCK_DURATION - SECOND)
        assert ann.settle("renew_lock", received) == ann.call("clock") + LOCK_DURATION
        stage.passes(LOCK_DURATION - SECOND)
        assert bob.receive() == []
        stage.passes(SECOND)
        assert bob.numbers() == [received.sequence_number]


def test_a_renewed_lock_is_not_returned_early_by_sessions_that_watch_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        stage.passes(LOCK_DURATION / 2)
        ann.settle("renew_lock", received)
        stage.passes(LOCK_DURATION - SECOND)
        assert bob.receive() == []
        assert ann.receive() == []
        stage.passes(SECOND)
        assert ann.numbers() == [received.sequence_number]


@pytest.mark.parametrize("verb", ["renew_lock", "renew_lock_batch"])
def test_a_lock_that_was_shortened_is_noticed_in_time(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = passed(stage, ann)
        if verb == "renew_lock":
            ann.settle(verb, received, lock_duration=SECOND)
        else:
            ann.settle_batch(verb, [received], lock_duration=SECOND)
        stage.passes(SECOND)
        assert ann.numbers() == [received.sequence_number]


def test_a_lock_that_has_expired_is_not_renewed_for_less_than_no_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(2 * LOCK_DURATION)
        with refused(INVALID_ARGUMENT):
            ann.settle("renew_lock", received, lock_duration=-SECOND)


def test_a_batch_of_fresh_messages_is_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        every_lock_is_renewed(stage, ann, ann.receive(3))


def test_a_batch_of_which_some_came_back_is_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        ann.abandon(ann.receive()[0])
        every_lock_is_renewed(stage, ann, ann.receive(3))


def every_lock_is_renewed(stage: Stage, session: Session, messages: list[Received]) -> None:
    stage.passes(SECOND)
    until = session.call("clock") + LOCK_DURATION
    renewed = session.settle_batch("renew_lock_batch", messages[::-1])
    assert renewed == [(message.sequence_number, None, until) for message in messages[::-1]]
    assert session.values("select distinct locked_until from pgqueue.message") == [until]


def test_a_renewal_does_not_wait_for_an_open_transaction(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(SECOND)
        ann.begin()
        ann.settle("pin", received)
        assert bob.settle("renew_lock", received) == received.locked_until
        assert bob.settle_batch("renew_lock_batch", [received]) == [
            (received.sequence_number, None, received.locked_until)
        ]
        ann.commit()


@pytest.mark.parametrize("queue", ["q", DEAD])
def test_a_renewal_that_meets_a_redelivery_at_its_end_has_an_end_of_the_lock(database: Database, queue: str) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        ann.send("a", priority=1)
        if queue == DEAD:
            ann.settle("dead_letter", ann.receive()[0], reason="r")
        (late,) = ann.receive(queue=queue)
        stage.passes(LOCK_DURATION)
        # Bob's transaction holds the row when Ann looks for it, and has ended when her result is built.
        result = "    return query\n        select outcome"
        stage.rewrite("renew_lock_batch", result, f"    perform pg_advisory_xact_lock_shared(1);\n{result}")
        gate.value("select pg_advisory_lock(1)")
        bob.begin()
        (redelivered,) = bob.receive(queue=queue)
        renewal = ann.starts(lambda: ann.settle_batch("renew_lock_batch", [late], queue=queue))
        bob.commit()
        gate.value("select pg_advisory_unlock(1)")
        assert renewal.result() == [(late.sequence_number, None, late.locked_until)]
        with refused(LOCK_LOST):
            ann.settle("renew_lock", late, queue=queue)
        bob.complete(redelivered, queue=queue)


BEFORE_THE_SECOND_TURN = SECOND / 2
TAKES_TIME = "perform setval('pgqueue_testing.clock_shift', last_value + 1000000) from pgqueue_testing.clock_shift;"


@pytest.mark.parametrize("when", ["before it scans", "after it found nothing"])
def test_a_lock_that_is_taken_after_a_long_turn_lasts_as_long_as_any(database: Database, when: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        if when == "before it scans":
            ann.send("a")
        else:
            due = ann.call("clock") + BEFORE_THE_SECOND_TURN
            ann.send("a", scheduled_enqueue_time=due)
            assert ann.receive() == []
            stage.passes(BEFORE_THE_SECOND_TURN)
        ann.rows("grant update on sequence pgqueue_testing.clock_shift to public")
        stage.rewrite("_take_turn", "return returned > 0;", f"{TAKES_TIME} return returned > 0;")
        before = ann.call("clock")
        (received,) = ann.receive()
        assert ann.call("clock") == before + SECOND
        assert received.locked_until == ann.call("clock") + LOCK_DURATION


@pytest.mark.parametrize("over", ["expired", "deferred and expired"])
def test_a_lock_that_is_taken_after_a_long_removal_lasts_as_long_as_any(database: Database, over: str) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("over", time_to_live=2 * SECOND)
        ann.send("good")
        if over == "deferred and expired":
            ann.call("alter_queue", queue="q", max_delivery_count=2)
            for message in ann.receive(2):
                ann.settle("defer", message)
        stage.passes(LOCK_DURATION)
        ann.rows("grant update on sequence pgqueue_testing.clock_shift to public")
        stage.rewrite("_expire", "\nbegin\n", f"\nbegin\n    {TAKES_TIME}\n")
        before = ann.call("clock")
        (received,) = ann.receive_deferred(1, 2) if over == "deferred and expired" else ann.receive()
        assert ann.call("clock") == before + SECOND
        assert received.locked_until == ann.call("clock") + LOCK_DURATION


def test_deliveries_are_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (first,) = ann.receive()
        ann.abandon(first)
        (second,) = ann.receive()
        stage.passes(LOCK_DURATION)
        (third,) = ann.receive()
        assert [first.delivery_count, second.delivery_count, third.delivery_count] == [1, 2, 3]
        assert first.sequence_number == second.sequence_number == third.sequence_number


def test_a_receive_dead_letters_the_over_delivered_messages_it_finds(
    database: Database,
) -> None:
    with Stage(database, max_delivery_count=2) as stage:
        ann = stage.session("ann")
        poison, sound = ann.send("poison", "sound")
        ann.abandon(ann.receive()[0])
        assert ann.numbers() == [poison]
        stage.passes(LOCK_DURATION)
        assert ann.numbers() == [sound]
        description = "the queue allows 2 deliveries; the lock of delivery 2, held by %, expired"
        dead = f"select sequence_number, delivery_count, dead_letter_error_description like '{description}'"
        assert ann.rows(f"{dead} from pgqueue.dead_letters where dead_letter_reason = 'MaxDeliveryCountExceeded'") == [
            (poison, 2, True)
        ]


def test_the_last_delivery_that_is_allowed_can_be_completed_after_its_time(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(LOCK_DURATION)
        ann.complete(received)
        assert ann.receive() == []
        assert ann.rows("select * from pgqueue.dead_letters") == []


def test_a_dead_lettered_message_is_lost_to_its_last_holder(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        stage.passes(LOCK_DURATION)
        assert bob.receive() == []
        with refused(LOCK_LOST):
            ann.complete(received)


def test_the_answer_about_a_transaction_out_of_sight(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b", "c")
        kept, undone, returned = ann.receive(3)

        def outcome(message: Received, transaction: str) -> str:
            return str(bob.settle("resolve", message, transaction_id=transaction))

        committed = ann.complete(kept)
        assert outcome(kept, committed) == "committed"

        ann.begin()
        aborted = ann.complete(undone)
        assert outcome(undone, aborted) == "in progress"
        ann.rollback()
        assert outcome(undone, aborted) == "aborted"

        ann.begin()
        ann.rows("savepoint before")
        undone_in_part = ann.complete(returned)
        ann.rows("rollback to before")
        ann.commit()
        assert outcome(returned, undone_in_part) == "aborted"

        forgotten_in_a_crash = str(int(committed) + 1_000_000)
        assert outcome(undone, forgotten_in_a_crash) == "aborted"
