"""The sweeper: what it tidies up, and what it never touches, step by step against those who are at work."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import Any

import psycopg
import pytest
from psycopg.errors import InvalidTransactionTermination

from pgqueue.testing import Database
from tests.sql.stage import (
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    SECOND,
    Received,
    Session,
    Stage,
    passed,
    refused,
    turns_until,
)

HOUR = 60 * LOCK_DURATION

EVERYTHING = """
select (select array_agg(message order by sequence_number) from pgqueue.message)::text,
       (select array_agg(letter order by sequence_number) from pgqueue.dead_letter as letter)::text,
       (select array_agg(scheduled order by sequence_number) from pgqueue.scheduled_message as scheduled)::text,
       (select array_agg(watch order by position) from pgqueue.watch)::text,
       (select array_agg(progress order by queue_id, lane) from pgqueue.progress)::text"""

DEAD = "select sequence_number from pgqueue.dead_letters where dead_letter_reason = 'MaxDeliveryCountExceeded'"

#: The answer while another one sweeps.
REFUSED = [(None, 0, 0, 0, 0, 0, 0, 0, 0, None)]

THE_LOCK = "not pgqueue._only_one('pgqueue.sweep_lock')"


def sweep(session: Session, **options: Any) -> list[tuple[Any, ...]]:
    """The queue, expired, dead-lettered, returned, activated, forgotten, reclaimed days, deleted queues, forwarded
    and more."""
    return session.table("sweep", **options)


def exhausted(stage: Stage, session: Session) -> Received:
    """A message of a queue that allows one delivery, received once, its lock expired."""
    session.send("a")
    (received,) = session.receive()
    stage.passes(LOCK_DURATION)
    return received


def test_a_sweep_with_nothing_to_do_returns_and_writes_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        ann.receive()
        ann.begin()
        assert sweep(ann) == []
        assert ann.value("select pg_current_xact_id_if_assigned()") is None
        ann.commit()


def test_a_message_delivered_too_often_is_dead_lettered_once_its_lock_has_expired(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "fresh")
        (received,) = ann.receive()
        stage.passes(LOCK_DURATION - SECOND)
        assert sweep(bob) == []
        stage.passes(SECOND)
        assert sweep(bob) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]
        assert bob.rows(
            f"{DEAD} and dead_letter_error_description ~ 'the lock of delivery 1, held by ann:.*, expired'"
        ) == [(received.sequence_number,)]
        with refused(LOCK_LOST):
            ann.complete(received)
        assert sweep(bob) == []


def test_a_message_abandoned_too_often_for_a_lowered_bound_is_dead_lettered(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        often, once = ann.send("a", "b")
        for _ in range(2):
            ann.abandon(ann.receive()[0])
        ann.call("alter_queue", queue="q", max_delivery_count=2)
        assert sweep(ann) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]
        assert ann.values(DEAD) == [often]
        assert ann.numbers(9) == [once]


def test_a_message_whose_time_has_come_is_put_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a")
        ann.abandon(ann.receive()[0], delay=2 * SECOND)
        stage.passes(SECOND)
        assert sweep(bob) == []
        stage.passes(SECOND)
        assert sweep(bob) == [("q", 0, 0, 0, 1, 0, 0, 0, 0, False)]
        assert bob.rows("select state, delivery_count from pgqueue.messages") == [("READY", 1)]


def test_a_message_delayed_after_its_last_delivery_is_dead_lettered_by_the_same_sweep(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.send("a")
        ann.abandon(ann.receive()[0], delay=SECOND)
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        stage.passes(SECOND)
        assert sweep(ann) == [("q", 0, 1, 0, 1, 0, 0, 0, 0, False)]
        assert ann.values(DEAD) == [number]


def test_an_expired_lock_that_the_cursors_have_passed_is_put_back_and_still_proved_by_its_token(
    database: Database,
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        assert sweep(bob) == []
        stage.passes(LOCK_DURATION)
        assert sweep(bob) == [("q", 0, 0, 1, 0, 0, 0, 0, 0, False)]
        assert bob.rows("select lane, locked_until from pgqueue.message") == [(0, None)]
        assert sweep(bob) == []
        ann.complete(received)


def test_a_message_that_the_cursors_passed_is_dead_lettered_after_its_last_delivery(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = passed(stage, ann)
        stage.passes(LOCK_DURATION)
        assert sweep(bob) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]
        assert bob.values(DEAD) == [received.sequence_number]
        assert bob.value("select count(*) from pgqueue.watch") == 0


def test_completed_messages_are_watched_no_longer(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.complete(passed(stage, ann))
        stage.passes(LOCK_DURATION)
        assert sweep(bob) == []
        assert bob.value("select count(*) from pgqueue.watch") == 0


def test_every_queue_is_swept(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        for queue in ("p", "r"):
            ann.call("create_queue", queue=queue, max_delivery_count=1)
        for queue in ("p", "q"):
            ann.send("a", queue=queue)
            ann.receive(queue=queue)
        stage.passes(LOCK_DURATION)
        assert sorted(sweep(ann)) == [("p", 0, 1, 0, 0, 0, 0, 0, 0, False), ("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]


def test_a_completion_that_is_under_way_is_skipped(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = exhausted(stage, ann)
        ann.begin()
        ann.complete(received)
        assert sweep(bob) == []
        ann.commit()
        assert sweep(bob) == []
        assert bob.values(DEAD) == []


def test_a_message_whose_completion_is_undone_is_swept_the_next_time(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = exhausted(stage, ann)
        ann.begin()
        ann.complete(received)
        assert sweep(bob) == []
        ann.rollback()
        assert sweep(bob) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]


def test_a_completion_that_meets_a_sweep_waits_and_is_refused(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        received = exhausted(stage, ann)
        bob.begin()
        sweep(bob)
        completion = ann.starts(lambda: ann.complete(received))
        bob.commit()
        with refused(LOCK_LOST):
            completion.result()


def looks_while_gated(stage: Stage) -> None:
    """Bob, when he sweeps, stops between finding a message and locking its row."""
    stage.prompter.rows(
        "create function pgqueue_testing.gate() returns boolean language sql"
        " as 'select pg_advisory_xact_lock_shared(1) is not null'"
    )
    stage.rewrite("_find_over_delivered", "order by position", "and pgqueue_testing.gate() order by position")


def test_a_lock_that_is_renewed_while_a_sweep_looks_is_left_alone(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        received = exhausted(stage, ann)
        looks_while_gated(stage)
        gate.value("select pg_advisory_lock(1)")
        sweeping = bob.starts(lambda: sweep(bob))
        ann.settle("renew_lock", received)
        gate.value("select pg_advisory_unlock(1)")
        assert sweeping.result() == []
        ann.complete(received)


def test_a_message_that_is_resubmitted_while_a_sweep_looks_is_left_alone(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        ann.abandon(exhausted(stage, ann))
        ann.call("alter_queue", queue="q", max_delivery_count=1)
        looks_while_gated(stage)
        gate.value("select pg_advisory_lock(1)")
        sweeping = bob.starts(lambda: sweep(bob))
        assert ann.receive(take_turn=False) == []
        ann.table("resubmit", queue="q")
        (received,) = ann.receive(take_turn=False)
        gate.value("select pg_advisory_unlock(1)")
        assert sweeping.result() == []
        assert received.delivery_count == 1
        ann.complete(received)


def test_a_newer_delivery_is_never_dead_lettered(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        exhausted(stage, ann)
        looks_while_gated(stage)
        gate.value("select pg_advisory_lock(1)")
        sweeping = bob.starts(lambda: sweep(bob))
        ann.call("alter_queue", queue="q", max_delivery_count=5)
        (redelivered,) = ann.receive(take_turn=False)
        gate.value("select pg_advisory_unlock(1)")
        assert sweeping.result() == []
        assert redelivered.delivery_count == 2
        ann.complete(redelivered)


def test_one_sweeps_at_a_time(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b")
        ann.receive(2)
        stage.passes(LOCK_DURATION)
        ann.begin()
        assert sweep(ann, max_messages=1) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, True)]
        assert sweep(bob) == REFUSED
        ann.commit()
        assert sweep(bob) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]


def test_two_sweeps_at_once_would_share_the_work(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        stage.rewrite("sweep", THE_LOCK, "false")
        numbers = ann.send("a", "b", "c")
        ann.receive(3)
        stage.passes(LOCK_DURATION)
        ann.begin()
        assert sweep(ann, max_messages=1) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, True)]
        assert sweep(bob) == [("q", 0, 2, 0, 0, 0, 0, 0, 0, False)]
        ann.commit()
        assert sorted(ann.values(DEAD)) == numbers


def test_a_sweep_that_is_killed_is_done_by_the_next(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann, bob = stage.sessions("ann", "bob")
        exhausted(stage, ann)
        ann.begin()
        assert sweep(ann) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]
        ann.connection.close()
        while (swept := sweep(bob)) == REFUSED:
            pass
        assert swept == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]


def something_of_each(stage: Stage, session: Session) -> None:
    """One message that was delivered too often, one to be put back, one whose time has come, one of them for good."""
    passed(stage, session)
    session.send("b", "c", "d")
    often, put_off, for_good = session.receive(3)
    for message in (often, for_good):
        session.abandon(message)
    often, for_good = session.receive(2)
    session.abandon(often)
    session.abandon(for_good, delay=SECOND)
    session.abandon(put_off, delay=SECOND)
    stage.prompter.rows("update pgqueue.queue set max_delivery_count = 2 where name = 'q'")
    stage.passes(LOCK_DURATION)


def test_a_dry_run_reports_the_effects_of_a_sweep_and_does_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        something_of_each(stage, ann)
        before = bob.rows(EVERYTHING)
        bob.begin()
        foreseen = sweep(bob, dry_run=True)
        assert bob.value("select pg_current_xact_id_if_assigned()") is None
        assert bob.value("select count(*) from pg_locks where relation = 'pgqueue.sweep_lock'::regclass") == 0
        bob.commit()
        assert bob.rows(EVERYTHING) == before
        assert foreseen == sweep(bob) == [("q", 0, 2, 1, 2, 0, 0, 0, 0, False)]
        assert sweep(bob, dry_run=True) == []


def test_a_sweep_does_no_more_than_it_may(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        something_of_each(stage, ann)
        done = [0] * 8
        while rows := sweep(bob, max_messages=1):
            ((_, *counts, more),) = rows
            assert sum(counts) <= 1
            assert more
            done = [total + count for total, count in zip(done, counts, strict=True)]
        assert done == [0, 2, 1, 2, 0, 0, 0, 0]


def test_a_sweep_without_a_bound_does_everything_at_once(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        something_of_each(stage, ann)
        assert sweep(bob, max_messages=None) == [("q", 0, 2, 1, 2, 0, 0, 0, 0, False)]


def test_a_sweep_searches_only_the_front_of_a_lane_and_receives_find_the_rest(
    database: Database,
) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(1001)
        ann.rows("update pgqueue.message set delivery_count = 1 where sequence_number >= %(last)s", last=numbers[999])
        assert sweep(ann) == [("q", 0, 1, 0, 0, 0, 0, 0, 0, False)]
        assert ann.values(DEAD) == [numbers[999]]
        assert len(ann.receive(1001)) == 999
        assert ann.receive() == []
        assert sorted(ann.values(DEAD)) == numbers[999:]


@pytest.mark.parametrize("max_messages", [0, -1])
def test_a_bound_that_is_not_positive_is_refused(database: Database, max_messages: int) -> None:
    with Stage(database) as stage, refused(INVALID_ARGUMENT):
        sweep(stage.session("ann"), max_messages=max_messages)


def test_a_deferred_message_that_was_delivered_too_often_is_dead_lettered_too(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (first,) = ann.receive()
        ann.settle("defer", first)
        ann.receive_deferred(first.sequence_number)
        stage.passes(LOCK_DURATION + SECOND)
        assert [row[:3] for row in sweep(ann)] == [("q", 0, 1)]


def test_a_lock_that_was_taken_away_by_hand_is_found_by_the_sweep(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        taken_away = passed(stage, ann)
        ann.rows("update pgqueue.message set locked_until = null, lock_token = null, locked_by = null")
        assert bob.receive() == []
        assert sweep(bob, dry_run=True) == [("q", 0, 0, 1, 0, 0, 0, 0, 0, False)]
        assert sweep(bob) == [("q", 0, 0, 1, 0, 0, 0, 0, 0, False)]
        assert bob.numbers() == [taken_away.sequence_number]


def test_a_sweep_does_not_wait_for_a_turn_that_looks_at_what_was_overlooked(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passed(stage, ann)
        ann.rows("update pgqueue.message set locked_until = null, lock_token = null, locked_by = null")
        ann.begin()
        ann.rows("select from pgqueue.watch for update")
        assert sweep(bob) == []
        ann.rollback()
        assert sweep(bob) == [("q", 0, 0, 1, 0, 0, 0, 0, 0, False)]


@pytest.mark.parametrize("kind", ["message", "scheduled_message"])
def test_messages_sent_while_their_queue_was_dropped_are_removed(database: Database, kind: str) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        ann.call("create_queue", queue="dropped", requires_duplicate_detection=True)
        ann.send("kept")
        slow.begin()
        later = "2050-01-01" if kind == "scheduled_message" else None
        slow.send("a", "b", queue="dropped", scheduled_enqueue_time=later)
        slow.send("c", queue="dropped", message_id="id")
        ann.call("drop_queue", queue="dropped")
        assert sweep(ann) == []
        slow.commit()
        left = "select count(*) from pgqueue.message where queue_id <> 1"
        assert ann.value(f"select count(*) from pgqueue.{kind} where queue_id <> 1") >= 2
        assert sweep(ann, dry_run=True) == [(None, 0, 0, 0, 0, 4, 0, 0, 0, False)]
        assert sweep(ann, max_messages=1)[0][-1]
        while any(more for *_, more in sweep(ann)):
            pass
        assert ann.value(left) == 0
        assert sweep(ann, dry_run=True) == []
        assert len(ann.receive(9)) == 1


def test_a_sweep_skips_orphans_that_are_locked(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        slow.begin()
        slow.send("a", "b")
        ann.call("drop_queue", queue="q")
        slow.commit()
        slow.begin()
        slow.rows("select from pgqueue.message where sequence_number = 1 for update")
        assert sweep(ann) == [(None, 0, 0, 0, 0, 1, 0, 0, 0, True)]
        assert sweep(ann) == []
        slow.rollback()
        assert sweep(ann) == [(None, 0, 0, 0, 0, 1, 0, 0, 0, True)]


def test_messages_of_a_queue_that_does_not_exist_yet_are_left_alone(database: Database) -> None:
    """As while a dump is restored, table by table, the queues last."""
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b")
        ann.settle("dead_letter", ann.receive()[0], reason="r")
        ann.begin()
        ann.rows("delete from pgqueue.queue")
        assert sweep(ann) == []
        assert ann.rows("select count(*) from pgqueue.message union all select count(*) from pgqueue.dead_letter") == [
            (1,),
            (1,),
        ]
        ann.rollback()


def test_a_sweep_that_puts_back_overlooked_messages_reports_whether_there_are_more(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        ann.receive(3)
        turns_until(stage, ann, lambda: ann.value("select count(*) from pgqueue.watch") == 3)
        ann.rows("delete from pgqueue.watch")
        # Transactions of other tests are awaited, too: when one ends, a turn looks through all that was passed.
        ann.rows("update pgqueue.progress set awaited = '{}', awaited_above = '{}'")
        assert [more for *_, more in sweep(ann, max_messages=2)] == [True]
        while any(more for *_, more in sweep(ann, max_messages=2)):
            pass
        assert ann.values("select pgqueue.broken_invariants()") == []


def test_a_sweep_is_done_while_another_transaction_repairs_the_sequence(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = ann.send_many(10)
        ann.value("select setval('pgqueue.sequence_number', 1)")
        bob.begin()
        bob.value("select pgqueue._repair_sequence()")
        ann.value("select setval('pgqueue.sequence_number', 1)")
        assert sweep(ann) == []
        bob.commit()
        while any(more for *_, more in sweep(ann)):
            pass
        assert ann.value("select nextval('pgqueue.sequence_number')") > max(numbers)


def test_a_sweep_draws_no_number_before_the_sequence_is_repaired(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        used_again(stage, ann)
        while any(more for *_, more in sweep(ann)):
            pass
        assert len(ann.receive(9)) == 6


def test_a_receive_repairs_the_sequence_when_it_meets_a_number_in_use(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        used_again(stage, ann)
        received = ann.receive(9) + ann.receive(9)
        stage.passes(SECOND)
        assert len(received + ann.receive(9)) == 6


def used_again(stage: Stage, session: Session) -> None:
    """Three messages have come back, three are due, and numbers that are in use are handed out next."""
    session.send_many(3)
    for received in session.receive(3):
        session.abandon(received)
    due = session.value("select pgqueue.clock()") + SECOND
    session.send("d", "e", "f", scheduled_enqueue_time=due)
    first = session.value("select min(position) from pgqueue.message")
    session.value("select setval('pgqueue.sequence_number', %(number)s)", number=first - 1)
    session.rows("update pgqueue.progress set horizon = 0, cursor = 0")
    stage.passes(SECOND)


def many_due(database: Database, count: int) -> psycopg.Connection[Any]:
    """A connection that commits by itself, and as many scheduled messages whose time has come."""
    connection = database.connect(autocommit=True)
    connection.execute("select pgqueue.create_queue('orders')")
    connection.execute(
        "select pgqueue.schedule('orders', to_jsonb(number), pgqueue.clock() + interval '1 minute')"
        "  from generate_series(1, %s) as number",
        [count],
    )
    database.move_clock(2 * LOCK_DURATION)
    return connection


def test_all_is_swept_by_one_call_in_many_transactions(database: Database) -> None:
    with many_due(database, 2500) as connection:
        connection.execute("call pgqueue.sweep_all()")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (0,)
        transactions = connection.execute("select count(distinct xmin::text) from pgqueue.message").fetchone()
    assert transactions == (3,)


def test_a_sweep_of_all_ends_when_its_time_is_over(database: Database) -> None:
    with many_due(database, 25) as connection:
        for left in (15, 5, 0):
            connection.execute("call pgqueue.sweep_all(10, interval '0')")
            assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (left,)


def test_while_another_sweeps_a_sweep_of_all_ends_at_once(database: Database) -> None:
    with many_due(database, 25) as connection, database.connect() as other:
        other.execute("select pgqueue.sweep(1)")
        connection.execute("call pgqueue.sweep_all()")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (25,)
        other.rollback()
        connection.execute("call pgqueue.sweep_all()")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (0,)


def test_only_the_given_queues_are_swept(database: Database) -> None:
    with many_due(database, 3) as connection:
        connection.execute("select pgqueue.create_queue('others')")
        sweep = "select queue, activated, more from pgqueue.sweep(queues => %s)"
        assert connection.execute(sweep, [["others", "nope"]]).fetchall() == []
        assert connection.execute(sweep, [[]]).fetchall() == []
        assert connection.execute(sweep, [["nope", "orders"]]).fetchall() == [("orders", 3, False)]


def test_schedules_are_fired_by_a_sweep_of_no_queues(database: Database) -> None:
    with many_due(database, 3) as connection:
        connection.execute("select pgqueue.create_schedule('s', 'orders', every => '1 minute', body => '1')")
        database.move_clock(3 * LOCK_DURATION)
        sweep = "select queue, activated from pgqueue.sweep(queues => %s)"
        assert connection.execute(sweep, [["orders"]]).fetchall() == [("orders", 3)]
        assert connection.execute(sweep, [[]]).fetchall() == [(None, 1)]


def test_messages_of_a_queue_that_was_dropped_long_ago_are_removed_however_many(database: Database) -> None:
    with many_due(database, 30) as connection:
        connection.execute("delete from pgqueue.queue")
        dropped = "insert into pgqueue.dropped_queue (queue_id, name, dropped_at) values (1, 'orders', %s)"
        connection.execute(dropped, [database.clock.now() - timedelta(days=31)])
        connection.execute("call pgqueue.sweep_all(10)")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (0,)
        assert connection.execute("select count(*) from pgqueue.dropped_queue").fetchone() == (0,)


def test_many_queues_are_swept_some_at_a_time(database: Database) -> None:
    with many_due(database, 1) as connection:
        assert connection.execute("select pgqueue.queues_to_sweep()").fetchall() == [(None,)]
        connection.execute("select pgqueue.create_queue('q' || number) from generate_series(1, 1000) as number")
        due = "pgqueue.clock() + interval '1 minute'"
        connection.execute(f"select pgqueue.schedule(name, '1', {due}) from pgqueue.queues where name <> 'orders'")
        database.move_clock(4 * LOCK_DURATION)
        lists = [[queues for (queues,) in connection.execute("select pgqueue.queues_to_sweep()")] for _ in range(2)]
        assert sorted(len(queues) for queues in lists[0]) == [0, 1, 500, 500]
        assert sorted(chain(*lists[0])) == sorted(["orders", *(f"q{number}" for number in range(1, 1001))])
        assert sorted(lists[0]) != sorted(lists[1])
        connection.execute("call pgqueue.sweep_all()")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (0,)
        assert connection.execute("select count(distinct xmin::text) from pgqueue.message").fetchone() == (3,)


def test_a_sweep_of_many_queues_ends_when_another_one_begins(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows("select pgqueue.create_queue('q' || number) from generate_series(1, 500) as number")
        ann.rows("select pgqueue.send(name, '1', time_to_live => '1 second') from pgqueue.queues")
        stage.passes(SECOND)
        ann.rows("create sequence public.sweeps")
        ann.rows("grant usage on sequence public.sweeps to public")
        stage.rewrite("sweep", THE_LOCK, "nextval('public.sweeps') = 1")  # another one has it for a moment
        ann.rows("call pgqueue.sweep_all()")
        assert ann.value("select count(*) from pgqueue.message") == 501
        ann.rows("call pgqueue.sweep_all()")
        assert ann.value("select count(*) from pgqueue.message") == 0


def test_a_sweep_of_many_queues_ends_when_its_time_is_over(database: Database) -> None:
    with many_due(database, 3) as connection:
        connection.execute("select pgqueue.create_queue('q' || number) from generate_series(1, 501) as number")

        def are_swept() -> bool:
            connection.execute("call pgqueue.sweep_all(lasts => interval '0')")
            return connection.execute("select from pgqueue.scheduled_message").fetchall() == []

        assert any(are_swept() for _ in range(99))  # each begins where chance has it, so that nothing is always left


def test_a_sweep_of_all_within_a_transaction_is_refused_and_changes_nothing(database: Database) -> None:
    with many_due(database, 3) as connection:
        with pytest.raises(InvalidTransactionTermination), connection.transaction():
            connection.execute("call pgqueue.sweep_all()")
        assert connection.execute("select count(*) from pgqueue.scheduled_message").fetchone() == (3,)


def records_each_time(stage: Stage) -> None:
    """From here on a sweep records how far it has come, however few pages it reads."""
    stage.rewrite("_sweep_queue", "> pages + 100", ">= pages")


def overlooked(stage: Stage, session: Session) -> Received:
    """A message that the cursor has passed, free and not on the watch list."""
    received = passed(stage, session)
    session.rows("update pgqueue.message set locked_until = null, lock_token = null, locked_by = null")
    session.rows("delete from pgqueue.watch")
    return received


FOUND = [("q", 0, 0, 1, 0, 0, 0, 0, 0, False)]
EXPIRED = [("q", 1, 0, 0, 0, 0, 0, 0, 0, False)]


def test_a_queue_in_which_a_sweep_has_read_much_is_looked_over_an_hour_later(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        records_each_time(stage)
        assert sweep(bob) == []
        overlooked(stage, ann)
        since = ann.value("select looked_over_at from pgqueue.sweep_progress")
        stage.passes(since + HOUR - ann.value("select pgqueue.clock()"))
        assert sweep(bob, dry_run=True) == sweep(bob) == []
        stage.passes(SECOND)
        assert sweep(bob, dry_run=True) == FOUND
        assert sweep(bob) == FOUND


def test_a_thorough_sweep_looks_everything_over(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        records_each_time(stage)
        sweep(bob)
        overlooked(stage, ann)
        assert sweep(bob) == []
        assert sweep(bob, dry_run=True, thorough=True) == FOUND
        assert sweep(bob, thorough=True) == FOUND


def test_a_sweep_finds_messages_that_expired_since_the_last_one(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        records_each_time(stage)
        assert sweep(bob) == []
        ann.send("a", time_to_live=2 * SECOND)
        stage.passes(3 * SECOND)
        assert sweep(bob, dry_run=True) == sweep(bob) == EXPIRED


def test_an_expired_message_that_was_locked_during_a_sweep_is_found_by_the_next(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        records_each_time(stage)
        ann.send("a", time_to_live=SECOND)
        ann.receive(lock_duration=10 * LOCK_DURATION)
        stage.passes(5 * LOCK_DURATION)
        assert sweep(bob) == []
        stage.passes(6 * LOCK_DURATION)
        assert sweep(bob) == EXPIRED


def test_a_scheduled_message_that_is_committed_late_is_activated_and_expires_in_one_sweep(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        records_each_time(stage)
        slow.begin()
        at = slow.value("select pgqueue.clock()") + SECOND
        slow.send("a", scheduled_enqueue_time=at, time_to_live=SECOND)
        stage.passes(10 * LOCK_DURATION)
        assert sweep(ann) == []
        slow.commit()
        assert sweep(ann) == [("q", 1, 0, 0, 1, 0, 0, 0, 0, False)]


def test_a_sweep_records_its_place_where_it_has_read_much(database: Database) -> None:
    with Stage(database) as stage, database.connect() as holder:
        ann = stage.session("ann")
        holder.execute("set transaction isolation level repeatable read; select")
        ann.send_many(20_000)
        ann.rows("select pgqueue.purge_queue('q')")
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.receive()
        sweep(ann)
        assert ann.value("select count(*) from pgqueue.sweep_progress") == 1
