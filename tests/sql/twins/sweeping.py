"""Sweeps take only what is due, one at a time."""

from __future__ import annotations

from functools import partial

from tests.sql import test_idle, test_sweep
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_use",
        "perform from pgqueue.queue_use where queue_id = queue.id for key share",
        "perform from pgqueue.queue_use where queue_id = queue.id",
        test_idle.test_a_queue_is_kept_while_a_transaction_that_has_sent_to_it_is_open,
    ),
    Twin(
        "_delete_idle",
        "exists (select from pgqueue.message where queue_id = source.id and locked_until > moment)",
        "false",
        test_idle.test_a_queue_with_a_locked_message_is_kept,
    ),
    Twin(
        "_take_turn",
        "perform pgqueue._use(queue)",
        "null",
        partial(test_idle.test_a_queue_that_is_used_is_kept, use="receive"),
    ),
    Twin(
        "_sweep_queue",
        "and (message.locked_until is null or message.locked_until <= moment)",
        "",
        test_sweep.test_a_newer_delivery_is_never_dead_lettered,
    ),
    Twin(
        "_find_over_delivered",
        "due <= moment and position <= cursor",
        "false",
        test_sweep.test_a_message_that_the_cursors_passed_is_dead_lettered_after_its_last_delivery,
    ),
    Twin(
        "_find_over_delivered",
        "and position > cursor",
        "and false",
        test_sweep.test_a_message_delivered_too_often_is_dead_lettered_once_its_lock_has_expired,
    ),
    Twin(
        "_swept_until",
        "interval '1 hour'",
        "interval '1 day'",
        test_sweep.test_a_queue_in_which_a_sweep_has_read_much_is_looked_over_an_hour_later,
    ),
    Twin("_swept_until", " and not thorough", "", test_sweep.test_a_thorough_sweep_looks_everything_over),
    Twin(
        "_record_sweep",
        "moment - interval '1 minute'",
        "moment + interval '1 hour'",
        test_sweep.test_a_sweep_finds_messages_that_expired_since_the_last_one,
    ),
    Twin(
        "_record_sweep",
        "where queue_id = queue.id and expires_at >= since",
        "where false",
        test_sweep.test_an_expired_message_that_was_locked_during_a_sweep_is_found_by_the_next,
    ),
    Twin(
        "_sweep_queue",
        "least(since, due)",
        "since",
        test_sweep.test_a_scheduled_message_that_is_committed_late_is_activated_and_expires_in_one_sweep,
    ),
    Twin(
        "_sweep_queue",
        "> pages + 100",
        "> pages + 1000000",
        test_sweep.test_a_sweep_records_its_place_where_it_has_read_much,
    ),
    Twin(
        "sweep",
        "not pgqueue._only_one('pgqueue.sweep_lock')",
        "false",
        test_sweep.test_one_sweeps_at_a_time,
    ),
    Twin(
        "sweep",
        "if queues <> '{}' then",
        "if false then",
        test_sweep.test_schedules_are_fired_by_a_sweep_of_no_queues,
    ),
    Twin(
        "sweep",
        "where queues is null or name = any (queues)",
        "",
        test_sweep.test_only_the_given_queues_are_swept,
    ),
    Twin(
        "queues_to_sweep",
        "over (order by random())",
        "over (order by id)",
        test_sweep.test_many_queues_are_swept_some_at_a_time,
    ),
    Twin(
        "queues_to_sweep",
        "order by random();",
        "order by number;",
        test_sweep.test_a_sweep_of_many_queues_ends_when_its_time_is_over,
    ),
    Twin(
        "_remove_orphans",
        " and coalesce(orphans < max_records, true)",
        "",
        test_sweep.test_messages_of_a_queue_that_was_dropped_long_ago_are_removed_however_many,
    ),
    Twin(
        "sweep_all",
        "if is_refused or ",
        "if ",
        test_sweep.test_a_sweep_of_many_queues_ends_when_another_one_begins,
    ),
]
