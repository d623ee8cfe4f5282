"""Batches of messages: the last settlement sends the continuation, once, in its own commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.errors import DeadlockDetected

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    MESSAGE_NOT_FOUND,
    SECOND,
    SERIALIZATION_FAILURE,
    Received,
    Session,
    Stage,
    refused,
    told,
)

BATCH_NOT_FOUND, BATCH_CLOSED = "PQ050", "PQ051"
DAY = timedelta(days=1)

CREATE = """
select pgqueue.create_batch(
    'end', pgqueue.schedule('end', '"then"', pgqueue.batch_end()),
    case when %(on_failure)s then pgqueue.schedule('end', '"on failure"', pgqueue.batch_end()) end)
"""
COUNTS = "select pending, completed, dead_lettered, deleted from pgqueue.batch_counts(%(batch)s)"


def staged(database: Database, **settings: Any) -> Stage:
    return Stage(database, **settings)


def create(session: Session, *, on_failure: bool = False) -> UUID:
    """A batch whose end sends a message to the queue `end`."""
    if not session.value("select exists (select from pgqueue.queue where name = 'end')"):
        session.call("create_queue", queue="end")
    batch: UUID = session.value(CREATE, on_failure=on_failure)
    return batch


def add(session: Session, batch: UUID, *numbers: int, queue: str = "q") -> int:
    return int(session.call("add_to_batch", batch=batch, queue=queue, sequence_numbers=list(numbers)))


def add_new(session: Session, batch: UUID, count: int = 1, queue: str = "q", **options: Any) -> list[int]:
    """Sends members in a transaction."""
    session.begin()
    numbers = session.send(*range(count), queue=queue, **options)
    assert add(session, batch, *numbers, queue=queue) == count
    session.commit()
    return numbers


def close(session: Session, batch: UUID) -> bool:
    return bool(session.call("close_batch", batch=batch))


def filled(session: Session, count: int = 1, *, on_failure: bool = False) -> UUID:
    """A closed batch with members in q."""
    batch = create(session, on_failure=on_failure)
    add_new(session, batch, count)
    assert close(session, batch)
    return batch


def counts(session: Session, batch: UUID) -> tuple[int, ...]:
    """Pending, completed, dead-lettered, deleted."""
    (row,) = session.rows(COUNTS, batch=batch)
    return row


def sent(session: Session) -> list[Any]:
    """The bodies that a receiver of `end` finds."""
    return [message.body for message in session.receive(10, queue="end")]


def is_finished(session: Session, batch: UUID) -> bool:
    return bool(session.value("select finished_at is not null from pgqueue.batch_counts(%(batch)s)", batch=batch))


def test_the_last_settlement_sends_the_continuation(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = filled(ann, 2)
        first, last = ann.receive(2)
        ann.complete(first)
        assert (sent(bob), counts(bob, batch)) == ([], (1, 1, 0, 0))
        ann.begin()
        ann.complete(last)
        assert (sent(bob), counts(bob, batch)) == ([], (1, 1, 0, 0))
        ann.commit()
        assert (sent(bob), counts(bob, batch), is_finished(bob, batch)) == (["then"], (0, 2, 0, 0), True)
        assert ann.values("select pgqueue.broken_invariants()") == []


def test_a_batch_that_is_open_is_not_finished(database: Database) -> None:
    with staged(database) as stage:
        one_stripe(stage.prompter)
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch)
        ann.complete(*ann.receive())
        assert (sent(ann), counts(ann, batch)) == ([], (0, 1, 0, 0))
        assert close(ann, batch)
        assert (sent(ann), is_finished(ann, batch)) == (["then"], True)
        assert not close(ann, batch)


def test_an_empty_batch_is_finished_when_it_is_closed(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        close(ann, batch)
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 0, 0, 0))


def test_everything_may_happen_in_one_transaction(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end")
        ann.begin()
        batch = create(ann)
        assert add(ann, batch, *ann.send(1, 2, 3)) == 3
        close(ann, batch)
        ann.complete(*ann.receive())
        ann.commit()
        assert (sent(ann), counts(ann, batch)) == ([], (2, 1, 0, 0))
        ann.table("receive_and_delete", queue="q", max_messages=9)
        assert sent(ann) == ["then"]


def test_two_that_settle_the_last_ones_at_the_same_instant(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        filled(ann, 2)
        first, last = ann.receive(2)
        for session, message in ((ann, first), (bob, last)):
            session.begin()
            session.complete(message)
        ann.commit()
        assert sent(ann) == []
        bob.commit()
        assert sent(ann) == ["then"]


def one_stripe(session: Session) -> None:
    session.rows("alter table pgqueue.batch alter column open_stripes set default 1")


def stops_at_the_end_of_its_commit(stage: Stage) -> None:
    """Commits that change batches wait for advisory lock 1, when they have counted."""
    stage.rewrite(
        "_count_batch_changes",
        "    return null;\nend\n$",
        "    perform pg_advisory_xact_lock_shared(1);\n    return null;\nend\n$",
    )


@pytest.mark.parametrize("stripes", [1, 16])
def test_two_that_commit_at_the_same_instant(database: Database, stripes: int) -> None:
    with staged(database) as stage:
        stage.prompter.rows(f"alter table pgqueue.batch alter column open_stripes set default {stripes}")
        ann, bob, cid = stage.sessions("ann", "bob", "cid")
        batch = filled(ann, 2)
        first, last = ann.receive(2)
        stops_at_the_end_of_its_commit(stage)
        for session, message in ((ann, first), (bob, last)):
            session.begin()
            session.complete(message)
        cid.value("select pg_advisory_lock(1)")
        commits = [session.starts(session.commit) for session in (ann, bob)]
        assert sent(cid) == []
        cid.value("select pg_advisory_unlock(1)")
        for commit in commits:
            commit.result()
        assert (sent(cid), counts(cid, batch)) == (["then"], (0, 2, 0, 0))


def test_stripes_are_locked_in_their_order(database: Database) -> None:
    with staged(database) as stage:
        stage.prompter.rows("alter table pgqueue.batch alter column open_stripes set default 2")
        ann, bob, cid = stage.sessions("ann", "bob", "cid")
        filled(ann, 4)
        low, lower, high, higher = sorted(ann.receive(4), key=lambda message: message.sequence_number % 2)
        stage.rewrite("_count_batch_changes", "if is_ended", "perform pg_advisory_xact_lock_shared(1); if is_ended")
        for session, messages in ((ann, (low, high)), (bob, (higher, lower))):
            session.begin()
            for message in messages:
                session.complete(message)
        cid.value("select pg_advisory_lock(1)")
        commits = [session.starts(session.commit) for session in (ann, bob)]
        cid.value("select pg_advisory_unlock(1)")
        try:
            for commit in commits:
                commit.result()
        except DeadlockDetected as error:
            raise AssertionError("a deadlock") from error
        assert sent(cid) == ["then"]


def test_an_open_transaction_that_has_settled_locks_no_counter(database: Database) -> None:
    with staged(database) as stage:
        one_stripe(stage.prompter)
        ann, bob, cid = stage.sessions("ann", "bob", "cid")
        batch = create(ann)
        add_new(ann, batch, 3)
        first, second, third = ann.receive(3)
        ann.begin()
        ann.complete(first)
        bob.complete(second)
        add_new(bob, batch)
        close(bob, batch)
        bob.complete(third)
        bob.complete(*bob.receive())
        assert (sent(cid), counts(cid, batch)) == ([], (1, 3, 0, 0))
        ann.commit()
        assert sent(cid) == ["then"]


def test_a_rollback_of_the_last_settlement_sends_nothing(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann)
        (message,) = ann.receive()
        ann.begin()
        ann.complete(message)
        ann.rollback()
        assert (sent(ann), counts(ann, batch)) == ([], (1, 0, 0, 0))
        ann.complete(message)
        assert sent(ann) == ["then"]


def test_settlements_of_a_savepoint_are_undone_with_it(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann, 2)
        first, last = ann.receive(2)
        ann.begin()
        ann.complete(first)
        ann.rows("savepoint s")
        ann.complete(last)
        ann.rows("rollback to s")
        ann.commit()
        assert (sent(ann), counts(ann, batch)) == ([], (1, 1, 0, 0))
        ann.begin()
        ann.rows("savepoint s")
        ann.complete(last)
        ann.rows("release s")
        ann.commit()
        assert sent(ann) == ["then"]


def test_members_and_closings_of_a_savepoint_are_undone_with_it(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        ann.begin()
        for end in ("release s", "rollback to s"):
            ann.rows("savepoint s")
            add(ann, batch, *ann.send("a"))
            ann.rows(end)
        ann.rows("savepoint s")
        close(ann, batch)
        ann.rows("rollback to s")
        ann.commit()
        assert counts(ann, batch) == (1, 0, 0, 0)
        add_new(ann, batch)


def test_constraints_that_are_checked_at_once_count_the_same(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end")
        ann.begin()
        batch = create(ann)
        add(ann, batch, *ann.send(1, 2))
        ann.rows("set constraints all immediate")
        assert counts(ann, batch) == (2, 0, 0, 0)
        add(ann, batch, *ann.send(3))
        close(ann, batch)
        ann.table("receive_and_delete", queue="q", max_messages=2)
        assert counts(ann, batch) == (1, 2, 0, 0)
        ann.table("receive_and_delete", queue="q", max_messages=2)
        ann.commit()
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 3, 0, 0))


def test_closing_waits_for_transactions_that_add(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = create(ann)
        ann.begin()
        add(ann, batch, *ann.send("a"))
        closing = bob.starts(lambda: close(bob, batch))
        ann.commit()
        assert closing.result()
        assert (sent(bob), counts(bob, batch)) == ([], (1, 0, 0, 0))
        bob.complete(*bob.receive())
        assert sent(bob) == ["then"]


def test_adding_waits_for_a_transaction_that_closes_and_is_refused(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = create(ann)
        ann.begin()
        close(ann, batch)
        bob.begin()
        numbers = bob.send("a")
        adding = bob.starts(lambda: add(bob, batch, *numbers))
        ann.commit()
        with refused(BATCH_CLOSED):
            adding.result()
        bob.rollback()
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 0, 0, 0))


def test_many_add_at_the_same_time(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = create(ann)
        add_new(ann, batch)
        for session in (ann, bob):
            session.begin()
            add(session, batch, *session.send("a"))
        bob.commit()
        ann.commit()
        assert counts(ann, batch) == (3, 0, 0, 0)


def test_a_handler_adds_to_its_own_batch(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch)
        for _ in range(3):
            (message,) = ann.receive()
            ann.begin()
            ann.complete(message)
            add(ann, batch, *ann.send("next"))
            ann.commit()
        close(ann, batch)
        assert counts(ann, batch) == (1, 3, 0, 0)
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def test_the_continuation_opens_the_next_batch(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        filled(ann)
        ann.complete(*ann.receive())
        (then,) = ann.receive(queue="end")
        ann.begin()
        batch = filled_within(ann)
        ann.complete(then, queue="end")
        ann.commit()
        assert (sent(ann), counts(ann, batch)) == ([], (1, 0, 0, 0))
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def filled_within(session: Session) -> UUID:
    batch = create(session)
    add(session, batch, *session.send("a"))
    close(session, batch)
    return batch


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_old_snapshot_is_refused_when_it_commits(database: Database, isolation: str) -> None:
    with staged(database) as stage:
        one_stripe(stage.prompter)
        ann, bob = stage.sessions("ann", "bob")
        batch = filled(ann, 2)
        first, last = ann.receive(2)
        bob.begin(isolation)
        bob.complete(last)
        ann.complete(first)
        with refused(SERIALIZATION_FAILURE):
            bob.commit()
        assert sent(ann) == []
        bob.begin(isolation)
        bob.complete(last)
        bob.commit()
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 2, 0, 0))


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_old_snapshot_does_not_close_over_members_that_it_does_not_see(database: Database, isolation: str) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = create(ann)
        bob.begin(isolation)
        bob.value("select 1")
        counts(bob, batch)
        add_new(ann, batch)
        with refused(SERIALIZATION_FAILURE):
            close(bob, batch)
            bob.commit()
        bob.rollback()
        assert counts(ann, batch) == (1, 0, 0, 0)


def dead_letter(session: Session, message: Received) -> None:
    session.settle("dead_letter", message, reason="Invalid")


def exhausted(session: Session, message: Received) -> None:
    session.abandon(message)


def cancelled_with_a_reason(session: Session, message: Received) -> None:
    session.call("cancel", queue="q", sequence_number=message.sequence_number, reason="why")


def complete(session: Session, message: Received) -> None:
    session.complete(message)


def complete_many(session: Session, message: Received) -> None:
    session.settle_batch("complete_batch", [message])


def abandoned_and_completed(session: Session, message: Received) -> None:
    session.rows("update pgqueue.queue set max_delivery_count = 9 where name = 'q'")
    session.abandon(message)
    session.complete(*session.receive())


def received_and_deleted(session: Session, message: Received) -> None:
    session.rows("update pgqueue.queue set max_delivery_count = 9 where name = 'q'")
    session.abandon(message)
    session.table("receive_and_delete", queue="q")


def cancelled(session: Session, message: Received) -> None:
    session.call("cancel", queue="q", sequence_number=message.sequence_number)


def purged(session: Session, message: Received) -> None:
    session.call("purge_queue", queue="q")


def dropped(session: Session, message: Received) -> None:
    session.call("drop_queue", queue="q")


def unlocked_and_deleted(session: Session, message: Received) -> None:
    session.rows("update pgqueue.queue set max_delivery_count = 9 where name = 'q'")
    session.abandon(message)
    session.call("delete_messages", queue="q", sequence_numbers=[message.sequence_number])


def delayed_and_cancelled(session: Session, message: Received) -> None:
    session.rows("update pgqueue.queue set max_delivery_count = 9 where name = 'q'")
    session.abandon(message, delay=SECOND)
    session.call("cancel_scheduled", queue="q", sequence_numbers=[message.sequence_number])


WAYS: dict[Callable[[Session, Received], None], tuple[int, ...]] = {
    complete: (0, 1, 0, 0),
    complete_many: (0, 1, 0, 0),
    abandoned_and_completed: (0, 1, 0, 0),
    received_and_deleted: (0, 1, 0, 0),
    dead_letter: (0, 0, 1, 0),
    exhausted: (0, 0, 1, 0),
    cancelled_with_a_reason: (0, 0, 1, 0),
    cancelled: (0, 0, 0, 1),
    purged: (0, 0, 0, 1),
    dropped: (0, 0, 0, 1),
    unlocked_and_deleted: (0, 0, 0, 1),
    delayed_and_cancelled: (0, 0, 0, 1),
}


@pytest.mark.parametrize("on_failure", [False, True])
@pytest.mark.parametrize("settle", WAYS, ids=lambda settle: settle.__name__)
def test_every_way_out_of_a_queue_ends_a_membership(
    database: Database, settle: Callable[[Session, Received], None], on_failure: bool
) -> None:
    with staged(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        batch = filled(ann, on_failure=on_failure)
        (message,) = ann.receive()
        settle(ann, message)
        failed = on_failure and WAYS[settle][2] == 1
        assert (sent(ann), counts(ann, batch)) == (["on failure" if failed else "then"], WAYS[settle])
        assert ann.value("select count(*) from pgqueue.scheduled_message") == 0


@pytest.mark.parametrize("dead_lettering", [False, True])
@pytest.mark.parametrize("how", ["receive", "sweep"])
def test_a_member_that_expires_is_done(database: Database, how: str, dead_lettering: bool) -> None:
    with staged(database, dead_lettering_on_message_expiration=dead_lettering) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch, time_to_live=SECOND)
        close(ann, batch)
        stage.passes(2 * SECOND)
        assert ann.receive() == [] if how == "receive" else ann.table("sweep")
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 0, 1, 0) if dead_lettering else (0, 0, 0, 1))


def test_a_dead_letter_that_is_resubmitted_is_no_member_any_more(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann, 2)
        first, last = ann.receive(2)
        dead_letter(ann, first)
        ann.call("resubmit", queue="q")
        ann.complete(*ann.receive())
        assert (sent(ann), counts(ann, batch)) == ([], (1, 0, 1, 0))
        ann.complete(last)
        assert sent(ann) == ["then"]
        assert ann.call("purge_queue", queue=DEAD) == 0


def test_a_dead_letter_that_is_forwarded_is_no_member_any_more(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="graves")
        ann.call("alter_queue", queue="q", forward_dead_lettered_messages_to="graves")
        batch = filled(ann, on_failure=True)
        dead_letter(ann, *ann.receive())
        assert (sent(ann), counts(ann, batch)) == (["on failure"], (0, 0, 1, 0))
        ann.complete(*ann.receive(queue="graves"), queue="graves")


def test_a_member_that_is_moved_stays_in_its_batch(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        batch = create(ann)
        numbers = add_new(ann, batch) + add_new(ann, batch, scheduled_enqueue_time="2030-01-02")
        close(ann, batch)
        assert ann.call("move_messages", queue="q", sequence_numbers=numbers, to="other") == 2
        stage.passes(2 * DAY)
        for _ in numbers:
            assert (sent(ann), counts(ann, batch)[0] > 0) == ([], True)
            ann.complete(*ann.receive(queue="other"), queue="other")
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 2, 0, 0))


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_member_that_is_forwarded_stays_in_its_batch(database: Database, is_waiting: bool) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        for queue, target in (("far", None), ("other", "far")):
            ann.call("create_queue", queue=queue, forward_to=target)
        if not is_waiting:
            ann.call("alter_queue", queue="q", forward_to="other")
        batch = filled(ann)
        if is_waiting:
            ann.call("alter_queue", queue="q", forward_to="other")
        ann.table("sweep")
        ann.complete(*ann.receive(queue="far"), queue="far")
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 1, 0, 0))


def test_a_member_that_is_a_duplicate_where_it_is_forwarded_is_done(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other", requires_duplicate_detection=True)
        ann.send("a", queue="other", message_id="x")
        batch = create(ann)
        add_new(ann, batch, message_id="x")
        close(ann, batch)
        ann.call("alter_queue", queue="q", forward_to="other")
        ann.table("sweep")
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 0, 0, 1))


def test_a_duplicate_is_no_member(database: Database) -> None:
    with staged(database, requires_duplicate_detection=True) as stage:
        ann = stage.session("ann")
        (first,) = ann.send("a", message_id="x")
        batch = create(ann)
        ann.begin()
        (second,) = ann.send("a", message_id="x")
        assert (second, add(ann, batch, second)) == (first, 0)
        ann.commit()
        close(ann, batch)
        assert sent(ann) == ["then"]


@pytest.mark.parametrize("held", [False, True])
def test_messages_of_other_transactions_are_no_members(database: Database, held: bool) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send("a", "b") + ann.send("c", scheduled_enqueue_time="2030-01-02")
        batch = create(ann)
        ann.begin()
        if held:
            ann.receive(2)
        assert add(ann, batch, *numbers, 123456, None) == 0  # type: ignore[arg-type]
        ann.commit()
        assert counts(ann, batch) == (0, 0, 0, 0)


def test_a_message_that_replaces_a_member_is_the_member(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch, other = create(ann), create(ann)
        add_new(ann, batch, unique_key="k")
        ann.begin()
        numbers = ann.send("b", unique_key="k", on_conflict="replace")
        assert add(ann, batch, *numbers) == 0
        with refused(INVALID_ARGUMENT):
            add(ann, other, *numbers)
        ann.rollback()
        ann.send("c", unique_key="k", on_conflict="replace")
        close(ann, batch)
        assert counts(ann, batch) == (1, 0, 0, 0)
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def test_a_member_may_be_scheduled_or_urgent(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch, priority=-3)
        add_new(ann, batch, scheduled_enqueue_time="2030-01-02")
        close(ann, batch)
        ann.complete(*ann.receive())
        stage.passes(2 * DAY)
        assert (sent(ann), counts(ann, batch)) == ([], (1, 1, 0, 0))
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def test_a_member_of_a_session(database: Database) -> None:
    with staged(database, requires_session=True) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch, session_id="s")
        close(ann, batch)
        ((token,),) = ann.rows("select lock_token from pgqueue.accept_session('q', 's')")
        ann.rows(
            "select pgqueue.complete('q', sequence_number, lock_token)"
            "  from pgqueue.receive_from_session('q', 's', %(token)s)",
            token=token,
        )
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 1, 0, 0))


def test_a_continuation_that_is_cancelled_is_not_sent(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann, on_failure=True)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        ann.call("cancel_scheduled", queue="end", sequence_numbers=[then])
        ann.complete(*ann.receive())
        assert (sent(ann), is_finished(ann, batch)) == ([], True)
        assert ann.value("select count(*) from pgqueue.scheduled_message") == 0


def test_the_end_waits_for_one_who_cancels_the_continuation(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = filled(ann)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        bob.begin()
        bob.call("cancel_scheduled", queue="end", sequence_numbers=[then])
        (message,) = ann.receive()
        completing = ann.starts(lambda: ann.complete(message))
        bob.rollback()
        completing.result()
        assert sent(ann) == ["then"]


def test_a_continuation_that_is_rescheduled_is_sent_at_that_time(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        ann.call("reschedule", queue="end", sequence_number=then, at="2030-01-02")
        ann.complete(*ann.receive())
        assert (sent(ann), is_finished(ann, batch)) == ([], True)
        stage.passes(2 * DAY)
        assert sent(ann) == ["then"]


def test_a_continuation_stays_where_it_waits(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        assert ann.call("move_messages", queue="end", sequence_numbers=[then], to="q") == 0
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def test_a_batch_whose_queue_was_dropped_is_finished(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann)
        ann.call("drop_queue", queue="end")
        ann.complete(*ann.receive())
        assert is_finished(ann, batch)


def test_the_end_of_a_batch_is_a_use_of_its_queue(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end", auto_delete_on_idle=timedelta(hours=1))
        filled(ann)
        stage.passes(timedelta(hours=2))
        ann.complete(*ann.receive())
        assert ann.rows("select from pgqueue.sweep() where deleted_queues > 0") == []
        assert sent(ann) == ["then"]


def test_members_that_are_sent_while_their_queue_is_dropped_are_done_with_the_next_sweep(database: Database) -> None:
    with staged(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        batch = filled(ann)
        ann.complete(*ann.receive())  # so that dropping need not wait for the queue's row
        batch = create(ann)
        ann.begin()
        add(ann, batch, *ann.send("a"))
        bob.call("drop_queue", queue="q")
        ann.commit()
        close(ann, batch)
        assert counts(ann, batch) == (1, 0, 0, 0)
        assert ann.values("select sum(forgotten) from pgqueue.sweep(dry_run => true)") == [2]
        while ann.table("sweep"):
            pass
        assert (counts(ann, batch), is_finished(ann, batch)) == ((0, 0, 0, 1), True)


def test_the_time_to_live_of_a_continuation_begins_with_the_end(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end", default_message_time_to_live=3 * SECOND)
        filled(ann)
        stage.passes(10 * SECOND)
        ann.complete(*ann.receive())
        stage.passes(2 * SECOND)
        ((enqueued, left),) = ann.rows(
            "select pgqueue.clock() - enqueued_time, expires_at - pgqueue.clock() from pgqueue.receive('end')"
        )
        assert (enqueued, left) == (2 * SECOND, SECOND)


def test_a_continuation_goes_to_its_session(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end", requires_session=True)
        at = "select pgqueue.create_batch('end', pgqueue.schedule('end', '1', pgqueue.batch_end(), session_id => 's'))"
        batch = ann.value(at)
        assert ann.table("accept_session", queue="end") == []
        close(ann, batch)
        assert [row[0] for row in ann.table("accept_session", queue="end")] == ["s"]


def test_the_end_wakes_those_who_wait_for_the_continuation(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = ann.value("select pgqueue.create_batch('q', pgqueue.schedule('q', '1', pgqueue.batch_end()))")
        with told(stage, ann, times=1):
            close(ann, batch)


def test_an_outcome_is_kept_of_what_is_not_sent(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end", result_retention=DAY)
        batch = filled(ann, on_failure=True)
        other = ann.value("select on_failure from pgqueue.batch_counts(%(batch)s)", batch=batch)
        ann.complete(*ann.receive())
        assert ann.value("select state from pgqueue.result('end', %(other)s)", other=other) == "DELETED"


def test_the_message_that_is_not_sent_may_be_a_member_of_another_batch(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        outer = create(ann)
        ann.begin()
        batch = create(ann, on_failure=True)
        other = ann.value("select on_failure from pgqueue.batch_counts(%(batch)s)", batch=batch)
        add(ann, outer, other, queue="end")
        ann.commit()
        close(ann, outer)
        close(ann, batch)
        assert (sent(ann), counts(ann, outer)) == (["then", "then"], (0, 0, 0, 1))


def test_unknown_batches_and_messages_are_refused(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        for verb in ("batch_counts", "close_batch"):
            with refused(BATCH_NOT_FOUND):
                ann.call(verb, batch=uuid4())
            with refused(BATCH_NOT_FOUND):
                ann.call(verb, batch=None)
        with refused(BATCH_NOT_FOUND):
            add(ann, uuid4(), *ann.send("a"))
        for number in (*ann.send("a"), *ann.send("a", scheduled_enqueue_time="2030-01-02"), None):
            with refused(MESSAGE_NOT_FOUND):
                ann.call("create_batch", queue="q", sequence_number=number)


def test_a_message_waits_for_the_end_of_one_batch_only(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        with refused(MESSAGE_NOT_FOUND, "that of another batch"):
            ann.call("create_batch", queue="end", sequence_number=then)
        twice = "select pgqueue.create_batch('end', n, n) from pgqueue.schedule('end', '1', pgqueue.batch_end()) as n"
        with refused(MESSAGE_NOT_FOUND, "the same one for a failure"):
            ann.rows(twice)
        close(ann, batch)
        assert sent(ann) == []
        ann.complete(*ann.receive())
        assert sent(ann) == ["then"]


def test_a_message_that_waits_for_another_batch_has_left_the_first(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = filled(ann)
        then = ann.value("select sequence_number from pgqueue.batch_counts(%(batch)s)", batch=batch)
        ann.call("reschedule", queue="end", sequence_number=then, at=ann.call("batch_end"))
        other = ann.call("create_batch", queue="end", sequence_number=then)
        ann.complete(*ann.receive())
        assert (sent(ann), is_finished(ann, batch)) == ([], True)
        close(ann, other)
        assert sent(ann) == ["then"]


def test_a_message_that_waits_for_a_batch_of_an_earlier_version_is_sent(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        ann.rows("update pgqueue.scheduled_message set scheduled_enqueue_time = pgqueue.batch_end()")
        close(ann, batch)
        assert sent(ann) == ["then"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_history_may_be_kept_beside_batches(database: Database, when: str) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        settings = {"retain_history": DAY, "result_retention": DAY}
        if when == "before":
            ann.call("alter_queue", queue="q", **settings)
        batch = filled(ann)
        ann.call("alter_queue", queue="q", **dict.fromkeys(settings, timedelta()))
        if when == "after":
            ann.call("alter_queue", queue="q", **settings)
        ann.complete(*ann.receive())
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 1, 0, 0))
        assert ann.value("select count(*) from pgqueue.settled_message") == (when == "after")


def test_settlements_are_recorded_while_a_setting_asks_for_it(database: Database) -> None:
    with staged(database) as stage:
        recorded = "select records_settlements from pgqueue.queue where name = 'q'"
        found = [stage.prompter.value(recorded)]
        for setting in ("retain_history", "result_retention"):
            for value in (DAY, None, timedelta()):
                stage.prompter.call("alter_queue", queue="q", **{setting: value})
                found.append(stage.prompter.value(recorded))
        assert found == [False, True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("function", "after", "verb"),
    [
        ("purge_queue", "places := array(select", "purge_queue"),
        ("delete_matching", "perform pgqueue._check_bound", "delete_matching"),
    ],
)
def test_the_first_member_of_a_queue_is_not_overlooked(
    database: Database, function: str, after: str, verb: str
) -> None:
    """It is sent and committed while a verb that has read the queue's row before is under way."""
    with staged(database) as stage:
        ann, bob, cid = stage.sessions("ann", "bob", "cid")
        batch = create(ann)
        stage.rewrite(function, after, f"perform pg_advisory_xact_lock(1); {after}")
        cid.value("select pg_advisory_lock(1)")
        removing = bob.starts(lambda: bob.call(verb, queue="q"))
        add_new(ann, batch)
        close(ann, batch)
        cid.value("select pg_advisory_unlock(1)")
        assert removing.result() == 1
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 0, 0, 1))


def test_finished_batches_are_forgotten_after_a_day(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ended, batch = create(ann), create(ann)
        close(ann, ended)
        stage.passes(DAY)
        assert ann.table("sweep") == []
        stage.passes(SECOND)
        assert ann.values("select forgotten from pgqueue.sweep(dry_run => true)") == [1]
        assert ann.values("select forgotten from pgqueue.sweep()") == [1]
        with refused(BATCH_NOT_FOUND):
            counts(ann, ended)
        assert counts(ann, batch) == (0, 0, 0, 0)
        assert ann.value("select count(*) from pgqueue.batch_stripe") == 16


def test_a_large_transaction_counts_each_change_once(database: Database) -> None:
    with staged(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="end")
        ann.begin()
        batch = create(ann)
        assert add(ann, batch, *ann.send_many(2000)) == 2000
        close(ann, batch)
        ann.commit()
        ann.begin()
        for message in ann.receive(1000):
            ann.complete(message)
        ann.commit()
        assert counts(ann, batch) == (1000, 1000, 0, 0)
        ann.settle_batch("complete_batch", ann.receive(1000))
        assert (sent(ann), counts(ann, batch)) == (["then"], (0, 2000, 0, 0))


@pytest.mark.parametrize("settings", [{"fair": True}, {"max_concurrent_per_group": 1}, {"requires_session": True}])
def test_members_that_are_stored_by_session_are_counted(database: Database, settings: dict[str, Any]) -> None:
    with staged(database, **settings) as stage:
        ann = stage.session("ann")
        batch = create(ann)
        add_new(ann, batch, session_id="a")
        assert close(ann, batch)
        if "requires_session" in settings:
            token = ann.value("select lock_token from pgqueue.accept_session('q')")
            ann.table("receive_from_session", queue="q", session_id="a", lock_token=token)
            (number,) = ann.values("select sequence_number from pgqueue.messages where queue = 'q'")
            ann.call("complete", queue="q", sequence_number=number, lock_token=token)
        else:
            ann.complete(*ann.receive())
        assert counts(ann, batch) == (0, 1, 0, 0)
        assert [message.body for message in ann.receive(queue="end")] == ["then"]
