"""The explanations of pgqueue.explain_message, and the effects of pgqueue.unlock."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    LOCK_DURATION,
    LOCK_LOST,
    MESSAGE_NOT_FOUND,
    SECOND,
    Session,
    Stage,
    passed,
    put_back,
    refused,
    told,
)
from tests.sql.test_plans import Explainer, Plan


def explained(session: Session, number: int = 1) -> str:
    return str(session.call("explain_message", queue="q", sequence_number=number))


def unlock(session: Session, number: int = 1, queue: str = "q") -> None:
    session.call("unlock", queue=queue, sequence_number=number)


def test_every_state_of_a_message_is_explained(database: Database) -> None:
    with Stage(database, max_delivery_count=2, retain_history=60 * LOCK_DURATION) as stage:
        ann, bob = stage.sessions("ann", "bob")
        assert "no message has got this number yet" in explained(bob)
        ann.send("a")
        assert "can be delivered now" in explained(bob)
        (received,) = ann.receive()
        assert "is locked by ann:" in explained(bob)
        assert "for another 00:01:00" in explained(bob)
        ann.begin()
        ann.settle("pin", received)
        assert f"an open transaction of process {ann.connection.info.backend_pid}" in explained(bob)
        assert "is locked by ann:" in explained(ann)
        ann.rollback()
        ann.abandon(received, delay=SECOND, error=Jsonb({"type": "ValueError"}))
        assert "rests after a delivery, until" in explained(bob)
        assert "Delivery 1 failed with ValueError." in explained(bob)
        stage.passes(SECOND)
        assert "is due since" in explained(bob)
        (received,) = ann.receive()
        stage.passes(LOCK_DURATION)
        assert "is exhausted" in explained(bob)
        assert "The lock of ann:" in explained(bob)
        assert ann.receive() == []
        assert "has been a dead letter since" in explained(bob)
        ann.call("resubmit", queue="q")
        ann.settle("defer", ann.receive()[0])
        assert "is deferred" in explained(bob)
        ann.complete(ann.receive_deferred(1)[0])
        assert "is not there any more: COMPLETED" in explained(bob)


def test_the_history_is_read_backwards_to_the_day_on_which_the_message_was_settled(database: Database) -> None:
    with Stage(database, retain_history=timedelta(days=7)) as stage:
        ann = stage.session("ann")
        explainer = Explainer(ann)
        for _ in range(3):
            ann.send("a")
            ann.complete(ann.receive()[0])
            stage.passes(timedelta(days=2))
        for number, days in ((3, 4), (2, 6), (1, 8)):  # one is that of tomorrow, for a clock that was set back
            plans = explainer.plans(partial(explained, ann, number))
            assert days_read(plans) == days, number
            assert "is not there any more: COMPLETED" in explained(ann, number)
        stage.passes(timedelta(days=1))
        assert "was settled or deleted" in explained(ann, 1)
        ann.call("alter_queue", queue="q", retain_history=timedelta(0))
        for _ in range(9):
            assert days_read(explainer.plans(lambda: explained(ann, 3))) == 0


def test_the_history_has_messages_that_were_settled_before_the_clock_was_set_back(database: Database) -> None:
    with Stage(database, retain_history=timedelta(days=7)) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.complete(ann.receive()[0])
        stage.passes(-timedelta(days=1))
        assert "is not there any more: COMPLETED" in explained(ann, 1)


def days_read(plans: list[Plan]) -> int:
    """How many partitions of the history were read."""
    scans = [node for plan in plans for node in plan.nodes() if "settled_message_" in node.get("Relation Name", "")]
    return sum(scan["Actual Loops"] for scan in scans)


def test_expired_and_scheduled_messages_and_disabled_queues_are_explained(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", time_to_live=SECOND)
        ann.send("b", scheduled_enqueue_time=ann.value("select pgqueue.clock() + interval '1 hour'"))
        ann.call("alter_queue", queue="q", status="RECEIVE_DISABLED")
        assert "is not delivered. The queue has the status RECEIVE_DISABLED" in explained(ann)
        stage.passes(SECOND)
        assert "has expired at" in explained(ann)
        assert "is scheduled: it waits until" in explained(ann, 2)
        assert "pgqueue.cancel_scheduled deletes it, pgqueue.reschedule gives it another time" in explained(ann, 2)
        ann.call("purge_queue", queue="q")
        assert "was settled or deleted" in explained(ann)


def test_why_a_message_waits_in_a_queue_that_is_paused_or_forwards_is_explained(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.call("pause_queue", queue="q")
        assert "is not delivered. The queue is paused since" in explained(ann)
        assert "pgqueue.resume_queue lets it hand out messages again" in explained(ann)
        ann.call("resume_queue", queue="q")
        ann.call("create_queue", queue="next")
        ann.call("alter_queue", queue="q", forward_to="next")
        assert "the queue forwards it at its next turn or sweep" in explained(ann)


def test_an_unlocked_message_is_received_at_once_and_its_holder_has_lost_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        with told(stage, bob, times=1):
            unlock(bob)
        for verb in ("complete", "abandon", "renew_lock", "pin"):
            with refused(LOCK_LOST, verb):
                ann.settle(verb, received)
        (again,) = bob.receive()
        assert again.delivery_count == 2


def test_the_token_of_an_expired_lock_is_taken_away_too(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        received = put_back(stage, ann)
        unlock(ann)
        with refused(LOCK_LOST):
            ann.complete(received)
        with refused(MESSAGE_NOT_FOUND):
            unlock(ann)


def test_an_unlocked_message_dies_if_that_was_its_last_delivery(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.receive()
        unlock(ann)
        died = "select dead_letter_error_description from pgqueue.dead_letters"
        assert ann.value(died) == "the queue allows 1 deliveries; delivery 1 was unlocked"


def test_a_deferred_message_is_deferred_again_and_a_dead_letter_is_free(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        first, second = ann.receive(2)
        ann.settle("defer", first)
        ann.settle("dead_letter", second, reason="r")
        ann.receive_deferred(1)
        unlock(ann)
        assert ann.values("select state from pgqueue.deferred_messages") == ["DEFERRED"]
        ann.receive(queue=DEAD)
        unlock(ann, 2, DEAD)
        assert len(ann.receive(queue=DEAD)) == 1


def test_a_dead_letter_abandoned_with_a_delay_rests_without_a_holder(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        (received,) = ann.receive(queue=DEAD)
        assert "It is locked by ann:" in explained(ann)
        ann.settle("abandon", received, queue=DEAD, delay=SECOND)
        assert "It rests after a delivery, until" in explained(ann)


def test_unlocking_does_not_wait_for_the_transaction_that_holds_a_message(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.settle("pin", received)
        with pytest.raises(
            AssertionError, match=f"held by an open transaction of process {ann.connection.info.backend_pid}"
        ):
            unlock(bob)  # 55P03, which the stage takes for a lock timeout
        ann.complete(received)
        ann.commit()


def test_a_transaction_that_holds_a_message_by_a_released_savepoint_is_known(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        (received,) = ann.receive()
        ann.begin()
        ann.rows("savepoint within")
        ann.complete(received)
        ann.rows("release savepoint within")
        assert "an open transaction holds it" in explained(bob)
        with pytest.raises(AssertionError, match="held by an open transaction"):
            unlock(bob)
        ann.commit()
        assert "an open transaction holds it" not in explained(bob)


def test_unlocking_does_not_wait_for_the_transaction_that_holds_a_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        (received,) = ann.receive(queue=DEAD)
        ann.begin()
        ann.settle("pin", received, queue=DEAD)
        with pytest.raises(AssertionError, match="held by an open transaction of process"):
            unlock(bob, queue=DEAD)  # 55P03, which the stage takes for a lock timeout
        ann.commit()
