"""Scheduled messages are looked for from a time on that passes none of them, whoever commits late."""

from __future__ import annotations

from datetime import datetime, timedelta

from pgqueue.testing import Database
from tests.sql.stage import SECOND, Session, Stage, until_awaited_are_over

STOPPED_CLOCK = """
create function pgqueue.stopped_clock()
returns timestamptz
language plpgsql
as $$
declare
    moment timestamptz := pgqueue.clock();
begin
    if current_setting('application_name') = 'slow' then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return moment;
end
$$
"""


def schedule(session: Session, after: timedelta) -> int:
    statement = "select pgqueue.schedule('q', '1', pgqueue.clock() + %(after)s)"
    return int(session.value(statement, after=after))


def due_from(session: Session) -> datetime:
    since: datetime = session.value("select greatest(pgqueue._due_from(1), '2000-01-01')")
    return since


def passed_until(stage: Stage, session: Session) -> datetime:
    """The time that turns have passed after some seconds in which they found many dead rows."""
    for _ in range(3):
        stage.passes(2 * SECOND)
        session.call("_pass_due_times", queue_id=1)
    return due_from(session)


def clock(session: Session) -> datetime:
    moment: datetime = session.value("select pgqueue.clock()")
    return moment


def test_a_message_whose_transaction_commits_after_it_was_due_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.call("_pass_due_times", queue_id=1)
        ann.begin()
        late = schedule(ann, SECOND)
        due = clock(bob) + SECOND
        assert passed_until(stage, bob) > due
        assert bob.call("_due_in", queue="q") == 1
        ann.commit()
        stage.passes(SECOND)
        assert bob.numbers() == [late]


def test_messages_of_two_transactions_that_commit_late_are_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, ben, bob = stage.sessions("ann", "ben", "bob")
        bob.call("_pass_due_times", queue_id=1)
        ann.begin()
        first = schedule(ann, SECOND)
        passed_until(stage, bob)
        ben.begin()
        second = schedule(ben, SECOND)
        passed_until(stage, bob)
        ben.commit()
        stage.passes(SECOND)
        assert bob.numbers(9) == [second]
        passed_until(stage, bob)
        ann.commit()
        stage.passes(SECOND)
        assert bob.numbers(9) == [first]


def test_two_turns_that_pass_due_times_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.call("_pass_due_times", queue_id=1)
        bob.call("_pass_due_times", queue_id=1)
        ann.commit()


def test_times_are_not_passed_before_a_second_is_over(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.call("_pass_due_times", queue_id=1)
        first = clock(bob)
        stage.passes(SECOND / 2)
        ann.begin()
        late = schedule(ann, SECOND / 2)
        stage.passes(2 * SECOND)
        bob.call("_pass_due_times", queue_id=1)
        assert due_from(bob) == first
        ann.commit()
        assert bob.numbers() == [late]


def test_a_message_that_is_due_is_not_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = schedule(ann, SECOND)
        due = clock(bob) + SECOND
        assert passed_until(stage, bob) == due
        assert bob.numbers() == [number]


def test_messages_are_found_when_the_clock_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passed_until(stage, bob)
        stage.passes(-30 * SECOND)
        number = schedule(ann, SECOND)
        stage.passes(2 * SECOND)
        assert bob.numbers() == [number]


def test_a_message_that_is_rescheduled_to_an_earlier_time_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = schedule(ann, 60 * SECOND)
        long_ago = clock(ann)
        passed_until(stage, bob)
        ann.call("reschedule", queue="q", sequence_number=number, at=long_ago)
        assert bob.numbers() == [number]


def test_a_time_is_read_by_a_transaction_that_has_an_id_when_a_message_is_rescheduled(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, gate = stage.sessions("ann", "slow", "gate")
        number = schedule(ann, 60 * SECOND)
        stage.prompter.rows(STOPPED_CLOCK)
        stage.rewrite("reschedule", "greatest(at, pgqueue.clock())", "greatest(at, pgqueue.stopped_clock())")
        gate.value("select pg_advisory_lock(1)")
        at = clock(ann)
        rescheduling = slow.starts(lambda: slow.call("reschedule", queue="q", sequence_number=number, at=at))
        assert passed_until(stage, ann) > at
        gate.value("select pg_advisory_unlock(1)")
        rescheduling.result()
        stage.passes(SECOND)
        assert ann.numbers() == [number]


def test_a_sweep_finds_a_message_that_was_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = schedule(ann, 60 * SECOND)
        passed_until(stage, ann)
        ann.rows("update pgqueue.scheduled_message set scheduled_enqueue_time = '2020-01-01'")
        assert ann.receive() == []
        assert len(ann.values("select pgqueue.broken_invariants()")) == 1
        ann.table("sweep")
        assert ann.numbers() == [number]


def test_an_idle_queue_passes_what_was_purged(database: Database) -> None:
    with Stage(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        ann.send_many(5000)
        ann.call("purge_queue", queue="q")
        until_awaited_are_over(ann)
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.receive()
        assert ann.value("select cursor from pgqueue.progress where lane = 1") == 5000
        holder.execute("rollback")


def test_a_turn_in_an_idle_queue_passes_due_times_once_it_has_read_many_pages(database: Database) -> None:
    with Stage(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        at = "(select array_agg(pgqueue.clock() + interval '1 second') from generate_series(1, 5000))"
        ann.rows(
            f"select pgqueue.send_batch('q', array_fill('1'::jsonb, array[5000]), scheduled_enqueue_times => {at})"
        )
        stage.passes(2 * SECOND)
        while ann.receive(5000):
            pass
        due = clock(ann) - 2 * SECOND
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.receive()
        assert due_from(ann) > due
        holder.execute("rollback")


def test_a_turn_in_an_idle_queue_writes_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        schedule(ann, 60 * SECOND)
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.begin()
            ann.receive()
            assert ann.value("select pg_current_xact_id_if_assigned()") is None
            ann.commit()
