"""No scheduled message is passed by the time from which on they are looked for."""

from __future__ import annotations

from functools import partial

from tests.sql import test_due_times
from tests.sql.twins.twin import Twin

KEPT = """coalesce(array_agg(xid) filter (where xid = any (open)), '{}'),
           coalesce(array_agg(since) filter (where xid = any (open)), '{}')"""

wait_for_the_time_of_before = partial(
    test_due_times.test_sessions_that_waited_before_the_clock_went_back_are_found, settings={"fair": True}
)

TWINS = [
    Twin(
        "_pass_due_times",
        "if was.kind = 'SESSION' then",
        "if false then",
        partial(wait_for_the_time_of_before, remembered=False),
    ),
    Twin(
        "_take_turn_when_due",
        "if moment < last then",
        "if false then",
        partial(wait_for_the_time_of_before, remembered=True),
    ),
    Twin(
        "_pass_due_times",
        "where xid < was.horizon_xid",
        "where false",
        test_due_times.test_a_message_whose_transaction_commits_after_it_was_due_is_found,
    ),
    Twin(
        "_pass_due_times",
        "least(was.due_from, min(since) filter (where xid <> all (open)))",
        "was.due_from",
        test_due_times.test_a_message_whose_transaction_commits_after_it_was_due_is_found,
    ),
    Twin(
        "_pass_due_times",
        KEPT,
        "'{}', '{}'",
        test_due_times.test_messages_of_two_transactions_that_commit_late_are_found,
    ),
    Twin(
        "_pass_due_times",
        "reached := least(was.horizon, case",
        "reached := least(moment, case",
        test_due_times.test_times_are_not_passed_before_a_second_is_over,
    ),
    Twin(
        "_pass_due_times",
        "order by scheduled_enqueue_time\n              limit 1",
        "order by scheduled_enqueue_time\n              limit 0",
        test_due_times.test_a_message_that_is_due_is_not_passed,
    ),
    Twin(
        "_pass_due_times",
        "if was.horizon > pgqueue.clock() then",
        "if false then",
        test_due_times.test_messages_are_found_when_the_clock_went_back,
    ),
    Twin(
        "_take_turn",
        "where horizon > pgqueue.clock() or not awaited <@",
        "where not awaited <@",
        test_due_times.test_messages_are_found_when_the_clock_went_back,
    ),
    Twin(
        "_take_turn",
        "horizon > pgqueue.clock() or not awaited <@ array(select pg_snapshot_xip(pg_current_snapshot()))",
        "horizon > pgqueue.clock()",
        test_due_times.test_a_message_whose_transaction_commits_after_it_was_due_is_found,
    ),
    Twin(
        "reschedule",
        "greatest(at, pgqueue.clock()),\n",
        "at,\n",
        test_due_times.test_a_message_that_is_rescheduled_to_an_earlier_time_is_found,
    ),
    Twin(
        "_lock_scheduled",
        "for update) as held",
        ") as held",
        test_due_times.test_a_time_is_read_by_a_transaction_that_has_an_id_when_a_message_is_rescheduled,
    ),
    Twin(
        "_sweep_queue",
        "case when since = '-infinity' then since else pgqueue._due_from(queue.id) end",
        "pgqueue._due_from(queue.id)",
        test_due_times.test_a_sweep_finds_a_message_that_was_passed,
    ),
    Twin(
        "_take_turn",
        "or pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + 32 then",
        "then",
        test_due_times.test_an_idle_queue_passes_what_was_purged,
    ),
    Twin(
        "_due_in",
        "from pgqueue._scheduled_progress(source.id) where awaited <> '{}'",
        "from pgqueue._scheduled_progress(source.id) where false",
        test_due_times.test_a_message_whose_transaction_commits_after_it_was_due_is_found,
    ),
    Twin(
        "_pass_due_times",
        "due >= was.due_from order by due limit 1",
        "due >= was.due_from order by due limit 0",
        test_due_times.test_a_message_under_watch_is_not_passed,
    ),
    Twin(
        "_pass_due_times",
        "order by available_at\n              limit 1",
        "order by available_at\n              limit 0",
        test_due_times.test_a_session_that_waits_is_not_passed,
    ),
    Twin(
        "_pass_due_times",
        "     where newest.kind = _pass_due_times.kind",
        "     where newest.kind = 'MESSAGE'",
        test_due_times.test_a_session_that_waits_is_not_passed,
    ),
    Twin(
        "_extend_locks",
        "greatest(until, pgqueue.clock())",
        "until",
        test_due_times.test_a_lock_that_was_to_be_shortened_before_its_transaction_had_an_id_is_found,
    ),
    Twin(
        "_watch_passed",
        "greatest(locked_until, pgqueue.clock()) as due",
        "coalesce(locked_until, pgqueue.clock()) as due",
        test_due_times.test_a_message_that_is_watched_long_after_its_lock_expired_is_found,
    ),
    Twin(
        "_repair_watch",
        "greatest(free_at, pgqueue.clock()) from overlooked",
        "coalesce(free_at, '-infinity') from overlooked",
        test_due_times.test_a_message_that_is_put_back_on_the_watch_list_is_found,
    ),
    Twin(
        "_sweep_queue",
        "case when since = '-infinity' then since else pgqueue._due_from(queue.id, 'WATCH') end",
        "pgqueue._due_from(queue.id, 'WATCH')",
        test_due_times.test_a_sweep_finds_a_message_under_watch_that_was_passed,
    ),
    Twin(
        "accept_session",
        "fetched + 32 +",
        "fetched + 1000000 +",
        test_due_times.test_accepting_passes_many_sessions_that_are_gone,
    ),
    Twin(
        "_earliest_due",
        "case when horizon <= pgqueue.clock()",
        "case when true",
        test_due_times.test_a_peek_shows_scheduled_messages_when_the_clock_went_back,
    ),
    Twin(
        "_earliest_due",
        "where xid not in (select pg_snapshot_xip(pg_current_snapshot()))",
        "where false",
        test_due_times.test_a_peek_shows_a_scheduled_message_that_is_committed_late,
    ),
]
