"""The search for due messages starts at a time that passes none of them, however late a transaction commits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pgqueue.testing import Database
from tests.sql.sessions import accepted, release, stage_of
from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage, passed, told, until_awaited_are_over

HOUR = timedelta(hours=1)

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


def passed_until(stage: Stage, session: Session, kind: str = "MESSAGE") -> datetime:
    """The time that turns have passed after some seconds in which they found many dead rows."""
    for _ in range(3):
        stage.passes(2 * SECOND)
        session.call("_pass_due_times", queue_id=1, kind=kind)
    until: datetime = session.value("select greatest(pgqueue._due_from(1, %(kind)s), '2000-01-01')", kind=kind)
    return until


def clock(session: Session) -> datetime:
    moment: datetime = session.value("select pgqueue.clock()")
    return moment


def test_due_times_of_locks_hide_no_scheduled_message(database: Database) -> None:
    with Stage(database) as stage:
        (ann,) = stage.sessions("ann")
        ann.call("_pass_due_times", queue_id=1, kind="WATCH")
        number = schedule(ann, SECOND)
        due = clock(ann) + SECOND
        assert passed_until(stage, ann, "WATCH") > due
        assert ann.values("select sequence_number from pgqueue._scheduled_messages_of(1)") == [number]


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


@pytest.mark.parametrize("awaited", [True, False])
def test_receivers_that_wait_are_notified_of_a_message_that_is_rescheduled(database: Database, awaited: bool) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = schedule(ann, 60 * SECOND)
        with told(stage, ann, times=int(awaited), awaited=awaited):
            ann.call("reschedule", queue="q", sequence_number=number, at=clock(ann))


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


# --- the watch list ---


def test_a_lock_that_is_shortened_by_a_transaction_that_commits_late_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        held = passed(stage, ann)
        bob.call("_pass_due_times", queue_id=1, kind="WATCH")
        ann.begin()
        ann.settle_batch("renew_lock_batch", [held], lock_duration=SECOND)
        due = clock(ann) + SECOND
        assert passed_until(stage, bob, "WATCH") > due
        ann.commit()
        stage.passes(SECOND)
        assert bob.numbers() == [held.sequence_number]


def test_a_lock_that_was_to_be_shortened_before_its_transaction_had_an_id_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow, gate = stage.sessions("ann", "slow", "gate")
        held = passed(stage, ann)
        stage.prompter.rows(STOPPED_CLOCK)
        stage.rewrite(
            "renew_lock_batch",
            "moment  timestamptz := pgqueue.clock()",
            "moment  timestamptz := pgqueue.stopped_clock()",
        )
        gate.value("select pg_advisory_lock(1)")
        due = clock(ann) + SECOND
        renewing = slow.starts(lambda: slow.settle_batch("renew_lock_batch", [held], lock_duration=SECOND))
        assert passed_until(stage, ann, "WATCH") > due
        gate.value("select pg_advisory_unlock(1)")
        renewing.result()
        stage.passes(SECOND)
        assert ann.numbers() == [held.sequence_number]


def test_a_message_that_is_watched_long_after_its_lock_expired_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a")
        (held,) = ann.receive()
        stage.passes(LOCK_DURATION)
        passed_until(stage, ann, "WATCH")
        stage.prompter.rows(
            "update pgqueue.progress set horizon_taken_at = '-infinity', horizon = 1, horizon_xid = '3'"
        )
        ann.rows("select from pgqueue.queue, pgqueue._advance_cursors(queue)")
        assert ann.value("select count(*) from pgqueue.watch") == 1
        assert ann.numbers() == [held.sequence_number]


def test_a_message_that_is_put_back_on_the_watch_list_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        held = passed(stage, ann)
        ann.rows("delete from pgqueue.watch")
        ann.rows("update pgqueue.message set locked_until = null, lock_token = null, locked_by = null")
        passed_until(stage, ann, "WATCH")
        assert ann.call("_repair_watch", queue_id=1, max_messages=9) == 1
        assert ann.numbers() == [held.sequence_number]


def test_a_sweep_finds_a_message_under_watch_that_was_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        held = passed(stage, ann)
        passed_until(stage, ann, "WATCH")
        ann.rows("update pgqueue.watch set due = '2020-01-01'")
        ann.rows("update pgqueue.message set locked_until = '2020-01-01'")
        ann.call("take_turn", queue="q")
        assert len(ann.values("select pgqueue.broken_invariants()")) == 1
        ann.table("sweep")
        assert ann.numbers() == [held.sequence_number]


def test_a_message_under_watch_is_not_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        held = passed(stage, ann)
        stage.passes(LOCK_DURATION)
        assert passed_until(stage, ann, "WATCH") == held.locked_until
        assert ann.numbers() == [held.sequence_number]


# --- sessions ---


def test_a_session_whose_sender_commits_late_is_found(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.call("_pass_due_times", queue_id=1, kind="SESSION")
        ann.begin()
        ann.send("late", session_id="a")
        sent = clock(bob)
        assert passed_until(stage, bob, "SESSION") > sent
        ann.commit()
        stage.passes(SECOND)
        assert accepted(bob).session_id == "a"


def test_a_session_whose_sender_has_prepared_its_transaction_is_found(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.call("_pass_due_times", queue_id=1, kind="SESSION")
        ann.begin()
        ann.send("late", session_id="a")
        sent = clock(bob)
        ann.rows("prepare transaction 'late'")
        assert passed_until(stage, bob, "SESSION") > sent
        ann.rows("commit prepared 'late'")
        stage.passes(SECOND)
        assert accepted(bob).session_id == "a"


def test_a_session_that_waits_is_not_passed(database: Database) -> None:
    with stage_of(database) as stage:
        ann = stage.session("ann")
        ann.send("a", session_id="a")
        sent = clock(ann)
        assert passed_until(stage, ann, "SESSION") == sent
        assert accepted(ann).session_id == "a"


def test_sessions_are_found_when_the_clock_went_back(database: Database) -> None:
    with stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passed_until(stage, bob, "SESSION")
        stage.passes(-30 * SECOND)
        ann.send("a", session_id="a")
        assert accepted(bob).session_id == "a"


@pytest.mark.parametrize("settings", [{"requires_session": True}, {"fair": True}], ids=["sessions", "groups"])
@pytest.mark.parametrize("remembered", [True, False], ids=["by the session", "by the horizon"])
def test_sessions_that_waited_before_the_clock_went_back_are_found(
    database: Database, settings: dict[str, Any], remembered: bool
) -> None:
    with Stage(database, **settings) as stage:
        ann, bob = stage.sessions("ann", "bob")

        def found() -> list[Any]:
            if "fair" in settings:
                return bob.values("select session_id from pgqueue.receive('q', 10)")
            return bob.values("select session_id from pgqueue.accept_session('q', max_sessions => 10)")

        if remembered:
            assert found() == []
        else:
            passed_until(stage, ann, "SESSION")
        ann.send("a", session_id="a")
        ann.send("b", session_id="b")
        stage.passes(-HOUR)
        assert sorted(found()) == ["a", "b"]


def test_a_session_that_is_released_is_found_before_the_end_of_its_lock(database: Database) -> None:
    with stage_of(database) as stage:
        ann = stage.session("ann")
        ann.send("a", session_id="a")
        held = accepted(ann)
        passed_until(stage, ann, "SESSION")
        release(ann, held)
        assert accepted(ann).session_id == "a"


def test_accepting_passes_many_sessions_that_are_gone(database: Database) -> None:
    with stage_of(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        gone = "select 1, 'gone ' || n, pgqueue.clock() from generate_series(1, 10000) n"
        ann.rows(f"insert into pgqueue.waiting_session (queue_id, session_id, available_at) {gone}")
        ann.rows("delete from pgqueue.waiting_session")
        since = clock(ann)
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.send("a", session_id="a")
            release(ann, accepted(ann))
        assert ann.value("select pgqueue._due_from(1, 'SESSION') > %(since)s", since=since)
        holder.execute("rollback")


# --- peeks ---


def test_a_peek_shows_a_scheduled_message_that_is_committed_late(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        bob.call("_pass_due_times", queue_id=1)
        ann.begin()
        late = schedule(ann, SECOND)
        passed_until(stage, bob)
        ann.commit()
        assert bob.values("select sequence_number from pgqueue.peek('q')") == [late]


def test_a_peek_shows_scheduled_messages_when_the_clock_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passed_until(stage, bob)
        stage.passes(-30 * SECOND)
        number = schedule(ann, SECOND)
        assert bob.values("select sequence_number from pgqueue.peek('q')") == [number]
        stage.passes(SECOND)
        assert bob.numbers() == [number]
