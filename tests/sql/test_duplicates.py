"""Duplicate detection: within the window a message id is stored once, whichever session sends it again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import DeadlockDetected
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, SECOND, SERIALIZATION_FAILURE, Session, Stage, refused

WINDOW = timedelta(minutes=10)
STORED = "select sequence_number from pgqueue.messages order by sequence_number"


def detecting(database: Database, **settings: Any) -> Stage:
    return Stage(database, requires_duplicate_detection=True, **settings)


def test_the_second_send_succeeds_and_stores_nothing(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "a")
        assert send(bob, "a") == first
        assert ann.values(STORED) == [first]


def test_a_duplicate_is_reported_by_a_notice(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        notices = heard(ann)
        first = send(ann, "it's")
        assert notices == []
        send(ann, "it's")
        assert notices == [f"message id 'it''s' was sent before, as message {first}: nothing was stored"]


def test_a_duplicate_is_a_negative_number_if_asked_for(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        notices = heard(ann)
        first = send(ann, "a", negate_duplicate=True)
        assert first > 0
        assert send(ann, "a", negate_duplicate=True) == -first
        (new, *rest) = send_batch(ann, "b", "a", "b", negate_duplicates=True)
        assert rest == [-first, -new]
        assert notices == []
        assert ann.values(STORED) == [first, new]


def test_the_same_id_twice_in_one_batch_is_stored_once(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        notices = heard(ann)
        first, other, second = send_batch(ann, "a", "b", "a")
        assert second == first
        assert ann.rows("select sequence_number, body from pgqueue.messages") == [(first, 0), (other, 1)]
        assert len(notices) == 1


def test_a_batch_of_duplicates_is_reported_by_ten_notices(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        ids = [str(number) for number in range(20)]
        numbers = send_batch(ann, *ids)
        notices = heard(ann)
        assert send_batch(ann, *ids) == numbers
        assert len(notices) == 10


def test_it_holds_after_the_first_was_completed(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "a")
        ann.complete(ann.receive()[0])
        assert send(ann, "a") == first
        assert ann.receive() == []


def test_scheduled_messages_are_included(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        at = ann.call("clock") + SECOND
        later = ann.call("schedule", queue="q", body=Jsonb("a"), at=at, message_id="a")
        assert send(ann, "a") == later
        now = send(ann, "b")
        assert ann.call("schedule", queue="q", body=Jsonb("b"), at=at, message_id="b") == now
        stage.passes(SECOND)
        assert ann.numbers(9) == [later, now]


def test_a_cancelled_message_still_counts_as_sent(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        at = ann.call("clock") + SECOND
        number = ann.call("schedule", queue="q", body=Jsonb("a"), at=at, message_id="a")
        ann.call("cancel_scheduled", queue="q", sequence_numbers=[number])
        assert send(ann, "a") == number


def test_after_the_window_an_id_is_new(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "a")
        stage.passes(WINDOW - timedelta(microseconds=1))
        assert send(ann, "a") == first
        stage.passes(timedelta(microseconds=1))
        second = send(ann, "a")
        assert second > first
        assert send(ann, "a") == second
        assert ann.values(STORED) == [first, second]


def test_a_duplicate_does_not_make_the_window_longer(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "a")
        stage.passes(WINDOW - SECOND)
        assert send(ann, "a") == first
        stage.passes(SECOND)
        assert send(ann, "a") != first


def test_the_window_is_the_queues_own(database: Database) -> None:
    with detecting(database, duplicate_detection_history_time_window=20 * SECOND) as stage:
        ann = stage.session("ann")
        first = send(ann, "a")
        stage.passes(20 * SECOND)
        second = send(ann, "a")
        assert second != first
        ann.call("alter_queue", queue="q", duplicate_detection_history_time_window=timedelta(days=7))
        stage.passes(timedelta(days=7) - SECOND)
        assert send(ann, "a") == second


def test_other_queues_do_not_matter(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other", requires_duplicate_detection=True)
        assert send(ann, "a") != send(ann, "a", queue="other")
        assert ann.value("select count(*) from pgqueue.message") == 2


def test_a_queue_that_does_not_ask_for_it_stores_everything(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        assert send(ann, "a") != send(ann, "a")
        ann.call("alter_queue", queue="q", requires_duplicate_detection=True)
        new = send(ann, "a")
        assert send(ann, "a") == new
        ann.call("alter_queue", queue="q", requires_duplicate_detection=False)
        assert send(ann, "a") != new


def test_without_a_message_id_nothing_is_a_duplicate(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send("same", "same") + ann.send_many(2) + send_batch(ann, None, None, "a")
        assert len(set(numbers)) == 7
        assert ann.values(STORED) == numbers


def test_an_id_counts_by_itself_whatever_comes_with_it(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        first = send(ann, "a")
        assert ann.call("send", queue="q", binary_body=b"x", message_id="a", subject="s", priority=5) == first
        assert send(ann, "A") != first


def test_a_second_sender_waits_and_is_a_duplicate_when_the_first_commits(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        first = send(ann, "a")
        second = bob.starts(lambda: send(bob, "a"))
        ann.commit()
        assert second.result() == first
        assert bob.values(STORED) == [first]


def test_a_second_sender_waits_and_stores_its_own_when_the_first_aborts(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        first = send(ann, "a")
        second = bob.starts(lambda: send(bob, "a"))
        ann.rollback()
        assert second.result() != first
        assert bob.values(STORED) == [second.result()]
        assert send(ann, "a") == second.result()


def test_senders_of_other_ids_do_not_wait(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        send(ann, "a")
        send(bob, "b")
        bob.send("no id")
        ann.commit()


def test_one_of_two_concurrent_sends_after_the_window_stores(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        first = send(ann, "a")
        stage.passes(WINDOW)
        ann.begin()
        second = send(ann, "a")
        third = bob.starts(lambda: send(bob, "a"))
        ann.commit()
        assert third.result() == second
        assert bob.values(STORED) == [first, second]


def test_batches_with_the_same_ids_in_opposite_order_do_not_deadlock(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        # Ann has the id she takes first, and stops at the one in the middle.
        gate.begin()
        send(gate, "m")
        anns = ann.starts(lambda: send_batch(ann, "b", "m", "a"))
        bobs = bob.starts(lambda: send_batch(bob, "a", "b"))
        gate.commit()
        try:
            b, _, a = anns.result()
            assert bobs.result() == [a, b]
        except DeadlockDetected as error:
            raise AssertionError("two batches wait for each other") from error


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_transaction_with_an_old_snapshot_gets_a_serialization_failure(database: Database, isolation: str) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin(isolation)
        ann.value("select count(*) from pgqueue.sent_message_id")
        first = send(bob, "a")
        with refused(SERIALIZATION_FAILURE):
            send(ann, "a")
        ann.rollback()
        ann.begin(isolation)
        assert send(ann, "a") == first
        ann.commit()


def test_a_rollback_to_a_savepoint_forgets_the_id(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        ann.begin()
        ann.rows("savepoint s")
        first = send(ann, "a")
        ann.rows("rollback to s")
        second = send(ann, "a")
        ann.commit()
        assert second != first
        assert ann.values(STORED) == [second]


def test_a_send_that_is_refused_is_not_remembered(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            send(ann, "a", priority=101)
        with pytest.raises(psycopg.Error):
            send_batch(ann, "a", "x" * 129)
        number = send(ann, "a")
        assert ann.values(STORED) == [number]


def test_ids_are_forgotten_by_a_sweep_when_their_window_is_over_and_not_before(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        send(ann, "a")
        stage.passes(SECOND)
        send(ann, "b")
        stage.passes(WINDOW - SECOND)
        assert ann.table("sweep", dry_run=True) == [("q", 0, 0, 0, 0, 1, 0, 0, 0, False)]
        assert ann.table("sweep") == [("q", 0, 0, 0, 0, 1, 0, 0, 0, False)]
        assert ann.values("select message_id from pgqueue.sent_message_id") == ["b"]


def test_a_sweep_skips_an_id_that_is_being_sent_again(database: Database) -> None:
    with detecting(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        send(ann, "a")
        stage.passes(WINDOW)
        ann.begin()
        second = send(ann, "a")
        assert bob.table("sweep") == []
        ann.commit()
        assert send(bob, "a") == second


def test_a_sweep_forgets_no_more_ids_than_it_may(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        send_batch(ann, "a", "b", "c")
        stage.passes(WINDOW)
        assert ann.table("sweep", max_messages=2) == [("q", 0, 0, 0, 0, 2, 0, 0, 0, True)]
        assert ann.table("sweep", max_messages=2) == [("q", 0, 0, 0, 0, 1, 0, 0, 0, False)]


def test_a_dropped_queue_is_forgotten_with_its_ids(database: Database) -> None:
    with detecting(database) as stage:
        ann = stage.session("ann")
        send(ann, "a")
        ann.call("drop_queue", queue="q")
        assert ann.value("select count(*) from pgqueue.sent_message_id") == 0


def send(session: Session, message_id: str, queue: str = "q", **options: Any) -> int:
    return int(session.call("send", queue=queue, body=Jsonb("a"), message_id=message_id, **options))


def send_batch(session: Session, *message_ids: str | None, **options: Any) -> list[int]:
    bodies = [Jsonb(number) for number in range(len(message_ids))]
    rows = session.table("send_batch", queue="q", bodies=bodies, message_ids=list(message_ids), **options)
    return [number for (number,) in rows]


def heard(session: Session) -> list[str]:
    """The notices from now on."""
    notices: list[str] = []
    session.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    return notices
