"""Waiting consumers are notified of earlier due times."""

from __future__ import annotations

from functools import partial

from tests.sql import test_due, test_rewritten
from tests.sql.stage import LOCK_DURATION, SECOND
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_subscribe",
        "(awaited_until is null or awaited_until < until)",
        "true",
        test_rewritten.test_a_subscription_rewrites_the_row_of_its_queue_once_in_ten_minutes,
    ),
    Twin(
        "_subscribe",
        "waits_until <= moment",
        "false",
        test_rewritten.test_subscriptions_of_the_past_are_deleted,
    ),
    Twin(
        "_subscribe",
        "and waits_until > moment",
        "and false",
        test_rewritten.test_a_subscription_that_is_withdrawn_is_over,
    ),
    Twin(
        "_notify",
        "waits_until > moment",
        "true",
        partial(test_rewritten.test_senders_notify_until_a_subscription_is_over, waited=21, times=0),
    ),
    Twin(
        "_due_in", "(awaited <> '{}'", "(false", test_due.test_the_queue_is_polled_again_soon_while_a_sender_is_awaited
    ),
    *(
        Twin(
            "_due_in",
            condition,
            "false",
            partial(test_due.test_the_queue_is_polled_again_soon_while_a_repair_is_pending, change=change),
        )
        for condition, change in [
            ("horizon > pgqueue._last_number_drawn()", test_due.SEQUENCE_WENT_BACK),
            ("horizon_taken_at > moment + interval '1 second'", test_due.CLOCK_WENT_BACK),
        ]
    ),
    Twin(
        "_due_in",
        "message.position > progress.cursor",
        "false",
        test_due.test_while_a_lock_is_not_under_watch_it_is_looked_again_soon,
    ),
    Twin(
        "_due_in",
        "source.lock_duration < interval '5 seconds'",
        "false",
        test_due.test_the_queue_is_polled_again_soon_where_all_locks_are_short,
    ),
    Twin("_due_in", "select min(due)", "select max(null::timestamptz)", test_due.test_it_is_known_when_a_lock_runs_out),
    Twin(
        "_due_in",
        "select min(scheduled_enqueue_time)",
        "select max(scheduled_enqueue_time)",
        test_due.test_the_earliest_counts,
    ),
    Twin(
        "_notify_early",
        "and queue.lock_duration >= interval '5 seconds'",
        "",
        test_due.test_where_all_locks_are_short_they_ring_no_bell,
    ),
    Twin(
        "_notify_early",
        "lock_duration < interval '5 seconds'",
        "true",
        partial(
            test_due.test_a_lock_that_lasts_rings_no_bell, lock=test_due.renewed_together_for, time=LOCK_DURATION / 2
        ),
    ),
    *(
        Twin(
            verb,
            f"perform pgqueue._notify_early(source, {verb}.lock_duration);",
            "null;",
            partial(
                test_due.test_waiting_receivers_are_notified_of_an_earlier_due_time,
                step=partial(step, time=SECOND),
                awaited=True,
            ),
        )
        for verb, step in [("receive", test_due.locked_for), ("renew_lock_batch", test_due.renewed_together_for)]
    ),
]
