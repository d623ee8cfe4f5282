"""Outcomes of messages: as final as the settlement, for as long as its queue keeps results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql import sessions
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    TOO_LARGE,
    Received,
    Session,
    Stage,
    passed,
    refused,
)
from tests.sql.test_misuse import ACCESS_DENIED, MONITOR, RECEIVER, SENDER, as_a_login

HOUR = 3600 * SECOND
RESULTS = "select sequence_number, state, result, error ->> 'reason' from pgqueue.results order by 1"


def keeping(database: Database, result_retention: timedelta = HOUR, **settings: Any) -> Stage:
    return Stage(database, result_retention=result_retention, **settings)


def result(session: Session, number: int, queue: str = "q") -> tuple[str, Any] | None:
    """The state of a message that is settled, and its result, or the reason."""
    rows = session.rows(
        "select state, coalesce(result, error -> 'reason') from pgqueue.result(%(queue)s, %(number)s)",
        queue=queue,
        number=number,
    )
    return rows[0] if rows else None


def outcomes(session: Session, *numbers: int, queue: str = "q") -> list[tuple[int, str | None]]:
    """The numbers that need not be waited for any longer."""
    return [row[:2] for row in session.table("outcomes", queue=queue, sequence_numbers=list(numbers))]


def received(session: Session, **options: Any) -> Received:
    (message,) = session.receive(**options)
    return message


def settled(session: Session, **options: Any) -> int:
    session.send("a")
    message = received(session)
    session.complete(message, **options)
    return message.sequence_number


@pytest.mark.parametrize("kept", [{}, {"retain_history": HOUR}], ids=["alone", "with a history"])
@pytest.mark.parametrize("came_back", [False, True], ids=["fresh", "came back"])
def test_a_result_is_kept_with_the_completion(database: Database, kept: Any, came_back: bool) -> None:
    with keeping(database, **kept) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        if came_back:
            ann.abandon(received(ann))
        assert (result(ann, number), outcomes(ann, number)) == (None, [])
        transaction = ann.complete(received(ann), result=Jsonb({"total": 3}))
        assert result(ann, number) == ("COMPLETED", {"total": 3})
        assert ann.value("select pg_xact_status(%(id)s::text::xid8)", id=str(transaction)) == "committed"


def test_a_rollback_leaves_no_result(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        message = received(ann)
        ann.begin()
        ann.complete(message, result=Jsonb(1))
        assert result(ann, number) == ("COMPLETED", 1)
        ann.rollback()
        assert outcomes(ann, number) == []
        ann.complete(message, result=Jsonb(2))
        assert result(ann, number) == ("COMPLETED", 2)


def test_another_session_sees_the_message_or_its_outcome_and_never_neither(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        (number,) = ann.send("a")
        message = received(ann)
        bob.begin("repeatable read")
        assert outcomes(bob, number) == []
        ann.complete(message, result=Jsonb(1))
        assert outcomes(bob, number) == []
        bob.commit()
        assert outcomes(bob, number) == [(number, "COMPLETED")]


def test_a_lost_lock_keeps_no_result(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        late = passed(stage, ann)
        stage.passes(2 * LOCK_DURATION)
        message = received(bob)
        with refused(LOCK_LOST):
            ann.complete(late, result=Jsonb("late"))
        bob.complete(message, result=Jsonb("in time"))
        assert result(ann, late.sequence_number) == ("COMPLETED", "in time")


def complete(session: Session, message: Received) -> None:
    session.complete(message)


def complete_batch(session: Session, message: Received) -> None:
    session.settle_batch("complete_batch", [message])


def dead_letter(session: Session, message: Received) -> None:
    session.settle("dead_letter", message, reason="Invalid", error=Jsonb({"type": "E", "text": "no"}))


def cancel(session: Session, message: Received) -> None:
    session.call("cancel", queue="q", sequence_number=message.sequence_number)


def cancel_for_a_reason(session: Session, message: Received) -> None:
    session.call("cancel", queue="q", sequence_number=message.sequence_number, reason="not needed")


def delete(session: Session, message: Received) -> None:
    session.abandon(message)
    session.call("delete_messages", queue="q", sequence_numbers=[message.sequence_number])


def purge(session: Session, message: Received) -> None:
    session.call("purge_queue", queue="q")


def receive_and_delete(session: Session, message: Received) -> None:
    session.abandon(message)
    session.table("receive_and_delete", queue="q")


def reschedule_and_cancel(session: Session, message: Received) -> None:
    session.abandon(message, delay=HOUR)
    session.call("cancel_scheduled", queue="q", sequence_numbers=[message.sequence_number])


@pytest.mark.parametrize(
    ("settle", "ended"),
    [
        (complete, ("COMPLETED", None)),
        (complete_batch, ("COMPLETED", None)),
        (receive_and_delete, ("COMPLETED", None)),
        (dead_letter, ("DEAD_LETTERED", "Invalid")),
        (cancel_for_a_reason, ("DEAD_LETTERED", "Cancelled")),
        (cancel, ("DELETED", "CANCELLED")),
        (delete, ("DELETED", "DELETED")),
        (purge, ("DELETED", "PURGED")),
        (reschedule_and_cancel, ("DELETED", "CANCELLED")),
    ],
)
@pytest.mark.parametrize("is_kept", [True, False])
def test_every_way_out_of_a_queue_has_an_outcome(
    database: Database, settle: Any, ended: tuple[str, Any], is_kept: bool
) -> None:
    with keeping(database) if is_kept else Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        settle(ann, received(ann))
        assert ann.values("select sequence_number from pgqueue.message") == []
        assert ann.rows(RESULTS) == ([(number, ended[0], None, ended[1])] if is_kept else [])


@pytest.mark.parametrize("dead_lettered", [False, True])
@pytest.mark.parametrize("sweeps", [False, True])
def test_an_expired_message_has_an_outcome(database: Database, dead_lettered: bool, sweeps: bool) -> None:
    with keeping(database, dead_lettering_on_message_expiration=dead_lettered) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a", time_to_live=SECOND)
        stage.passes(2 * SECOND)
        ann.table("sweep") if sweeps else ann.receive()
        ended = ("DEAD_LETTERED", "TTLExpiredException") if dead_lettered else ("DELETED", "EXPIRED")
        assert result(ann, number) == ended


def test_an_exhausted_message_has_an_outcome_with_its_last_error(database: Database) -> None:
    with keeping(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        ann.abandon(received(ann), error=Jsonb({"type": "ValueError", "text": "no"}))
        assert ann.receive() == []
        assert result(ann, number) == ("DEAD_LETTERED", "MaxDeliveryCountExceeded")
        assert ann.value("select error #>> '{last_error,type}' from pgqueue.results") == "ValueError"


def test_a_scheduled_message_that_is_cancelled_has_an_outcome(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a", scheduled_enqueue_time=ann.value("select pgqueue.clock() + interval '1 hour'"))
        assert outcomes(ann, number) == []
        ann.call("cancel_scheduled", queue="q", sequence_numbers=[number])
        assert outcomes(ann, number) == [(number, "DELETED")]


def test_a_message_of_a_session_has_an_outcome(database: Database) -> None:
    with keeping(database, requires_session=True) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a", session_id="x")
        (message,) = sessions.received(ann, sessions.accepted(ann))
        ann.complete(message, result=Jsonb(1))
        assert result(ann, number) == ("COMPLETED", 1)


def test_the_messages_of_a_claim_have_outcomes(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(2)
        ((_, epoch),) = ann.table("attach_consumer", consumer="c", queue="q")
        ann.call("claim_batch", consumer="c", after=0, max_messages=2, epoch=epoch)
        assert ann.call("complete_claim", consumer="c", claim=1, epoch=epoch)
        assert outcomes(ann, *numbers) == [(number, "COMPLETED") for number in numbers]


def test_a_resubmitted_message_is_not_settled(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        dead_letter(ann, received(ann))
        assert ann.values("select pgqueue.resubmit('q')") == [number]
        assert (result(ann, number), outcomes(ann, number)) == (None, [])
        ann.complete(received(ann), result=Jsonb("at last"))
        assert result(ann, number) == ("COMPLETED", "at last")


@pytest.mark.parametrize("how", ["complete", "purge"])
def test_a_dead_letter_that_is_removed_stays_dead_lettered(database: Database, how: str) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        dead_letter(ann, received(ann))
        if how == "complete":
            ann.complete(received(ann, queue=DEAD), queue=DEAD)
        else:
            ann.call("purge_queue", queue=DEAD)
        assert result(ann, number) == ("DEAD_LETTERED", "Invalid")


def test_a_forwarded_message_has_its_outcome_where_it_ends(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="entry", forward_to="q", result_retention=HOUR)
        (number,) = ann.send("a", queue="entry")
        assert outcomes(ann, number, queue="entry") == [(number, None)]
        ann.complete(received(ann), result=Jsonb(1))
        assert result(ann, number) == ("COMPLETED", 1)
        assert outcomes(ann, number, queue="entry") == [(number, None)]


def test_a_message_whose_dead_letter_is_forwarded_has_an_outcome_in_both_queues(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="dead", result_retention=HOUR)
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="dead")
        (number,) = ann.send("a")
        dead_letter(ann, received(ann))
        assert result(ann, number) == ("DEAD_LETTERED", "Invalid")
        assert outcomes(ann, number, queue="dead") == []
        ann.complete(received(ann, queue="dead"), queue="dead", result=Jsonb("seen"))
        assert result(ann, number, queue="dead") == ("COMPLETED", "seen")


def test_a_moved_message_that_comes_back_is_not_settled(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="dead")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="dead")
        (number,) = ann.send("a")
        dead_letter(ann, received(ann))
        ann.call("move_messages", queue="dead", sequence_numbers=[number], to="q")
        assert outcomes(ann, number) == []


def test_a_result_that_no_queue_keeps_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        message = received(ann)
        with refused(INVALID_ARGUMENT):
            ann.complete(message, result=Jsonb(1))
        with refused(INVALID_ARGUMENT):
            result(ann, number)
        ann.settle("dead_letter", message, reason="r")
        with refused(INVALID_ARGUMENT):
            ann.complete(received(ann, queue=DEAD), queue=DEAD, result=Jsonb(1))


def test_a_result_is_as_large_as_a_message_at_most(database: Database) -> None:
    with keeping(database, max_message_size=10) as stage:
        ann = stage.session("ann")
        ann.send("a")
        message = received(ann)
        with refused(TOO_LARGE):
            ann.complete(message, result=Jsonb("123456789"))
        ann.complete(message, result=Jsonb("12345678"))


def test_an_unknown_number_is_reported(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        (uncommitted,) = ann.send("a")
        assert outcomes(bob, uncommitted, -1, 10**18) == [(uncommitted, None), (-1, None), (10**18, None)]
        assert outcomes(ann, uncommitted) == []
        ann.commit()
        assert outcomes(bob, uncommitted) == []


def test_many_are_asked_for_at_once(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(150)
        messages = ann.receive(150)
        ann.settle_batch("complete_batch", messages[:120])
        assert sorted(outcomes(ann, *numbers)) == [(number, "COMPLETED") for number in numbers[:120]]


def test_outcomes_are_forgotten_after_their_time(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        number = settled(ann, result=Jsonb(1))
        stage.passes(HOUR - SECOND)
        last = settled(ann)
        stage.passes(SECOND)
        assert outcomes(ann, number, last) == [(number, None), (last, "COMPLETED")]
        assert ann.values("select forgotten from pgqueue.sweep(dry_run => true)") == [1]
        assert ann.values("select forgotten from pgqueue.sweep()") == [1]
        assert ann.values("select sequence_number from pgqueue.outcome") == [last]


def test_a_sweep_forgets_as_many_as_it_may_and_all_of_a_queue_that_keeps_none(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.send_many(5)
        ann.settle_batch("complete_batch", ann.receive(5))
        ann.call("alter_queue", queue="q", result_retention=timedelta(0))
        assert ann.rows("select forgotten, more from pgqueue.sweep(3)") == [(3, True)]
        assert ann.rows("select forgotten, more from pgqueue.sweep(3)") == [(2, False)]


def test_a_sweep_skips_an_outcome_that_is_written_again(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        dead_letter(ann, received(ann))
        ann.rows("select pgqueue.resubmit('q')")
        stage.passes(2 * HOUR)
        message = received(ann)
        ann.begin()
        ann.complete(message)
        assert bob.table("sweep") == []
        ann.commit()
        assert result(bob, message.sequence_number) == ("COMPLETED", None)


def test_a_sweep_skips_a_subscription_of_a_queue_that_is_dropped(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.table("_await_outcomes", queues=["q"], lasts=SECOND)
        stage.passes(HOUR)
        ann.begin()
        ann.call("drop_queue", queue="q")
        assert bob.table("sweep") == []
        ann.rollback()


def test_a_dropped_queue_leaves_no_outcomes(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.table("_await_outcomes", queues=["q"], lasts=HOUR)
        settled(ann)
        ann.call("drop_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.outcome") == 0
        assert ann.value("select count(*) from pgqueue.waiting_for_outcome") == 0


@contextmanager
def notified(stage: Stage, session: Session, *payloads: str) -> Iterator[None]:
    """Asserts that the block notifies those who wait for outcomes with these payloads."""
    listener = stage.session("listener")
    listener.rows("listen pgqueue_settled")
    yield
    session.rows("select pg_notify('pgqueue_settled', 'the end')")
    seen = (notify.payload for notify in listener.connection.notifies())
    assert list(iter(seen.__next__, "the end")) == list(payloads)


def test_a_settlement_notifies_only_while_someone_waits(database: Database) -> None:
    with keeping(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        with notified(stage, ann):
            settled(ann)
        assert bob.table("_await_outcomes", queues=["q", "r"], lasts=15 * SECOND) == [("pgqueue_settled", "q")]
        ann.send("a")
        message = received(ann)
        with notified(stage, ann, f"{message.sequence_number} q"):
            ann.complete(message)
        stage.passes(21 * SECOND)
        with notified(stage, ann):
            settled(ann)
        bob.table("_await_outcomes", queues=["q"], lasts=15 * SECOND)
        bob.table("_await_outcomes", queues=["q"], lasts=None)
        with notified(stage, ann):
            settled(ann)
        assert ann.values("select forgotten from pgqueue.sweep()") == [1]


def test_a_large_batch_notifies_once(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.table("_await_outcomes", queues=["q"], lasts=HOUR)
        ann.send_many(101)
        with notified(stage, ann, "0 q"):
            ann.settle_batch("complete_batch", ann.receive(101))


def test_a_transaction_that_is_to_be_prepared_does_not_notify(database: Database) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        ann.table("_await_outcomes", queues=["q"], lasts=HOUR)
        with notified(stage, ann):
            ann.begin()
            ann.rows("set local pgqueue.notify = off")
            settled(ann)
            ann.commit()


def test_a_queue_that_keeps_no_results_is_not_waited_for(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert ann.table("_await_outcomes", queues=["q"], lasts=HOUR) == []


@pytest.mark.parametrize(("right", "may"), [(SENDER, True), (RECEIVER, True), (MONITOR, False)])
def test_a_sender_and_a_receiver_may_ask_and_a_monitor_may_not(database: Database, right: str, may: bool) -> None:
    with keeping(database) as stage:
        ann = stage.session("ann")
        number = settled(ann, result=Jsonb(1))
        with as_a_login(ann, right):
            if may:
                assert result(ann, number) == ("COMPLETED", 1)
                assert ann.rows(RESULTS) == [(number, "COMPLETED", 1, None)]
            else:
                with refused(ACCESS_DENIED):
                    result(ann, number)
                assert ann.rows(RESULTS) == []
            waits = ann.table("_await_outcomes", queues=["q"], lasts=HOUR)
            assert waits == ([("pgqueue_settled", "q")] if may else [])
