"""Messages expire, and are activated, at their time."""

from __future__ import annotations

from functools import partial

from tests.sql import test_counts, test_dead_letter_queue, test_deferring, test_expiring, test_scheduling
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "queue_counts",
        "when scheduled_enqueue_time > moment then 'SCHEDULED'",
        "when true then 'SCHEDULED'",
        partial(
            test_counts.test_due_scheduled_messages_count_as_if_a_receive_had_moved_them, function="queue_counts()"
        ),
    ),
    Twin(
        "queue_estimates",
        "when is_scheduled then 'SCHEDULED'",
        "when kept = 2 then 'SCHEDULED'",
        partial(
            test_counts.test_due_scheduled_messages_count_as_if_a_receive_had_moved_them, function="queue_estimates(1)"
        ),
    ),
    Twin(
        "receive",
        "elsif earliest <= moment then",
        "elsif false then",
        partial(test_expiring.test_an_expired_message_is_never_delivered, verb="receive"),
    ),
    Twin(
        "receive",
        "places) and coalesce(expires_at <= moment, false)",
        "places)",
        partial(test_expiring.test_an_expired_message_is_never_delivered, verb="receive_and_delete"),
    ),
    Twin(
        "receive_deferred",
        "places) and coalesce(expires_at <= moment, false)",
        "places) and false",
        test_deferring.test_an_expired_deferred_message_is_not_received,
    ),
    Twin(
        "_expire_due",
        "and (locked_until is null or locked_until <= moment)",
        "",
        partial(
            test_expiring.test_a_locked_message_does_not_expire_and_its_holder_may_settle_it_after_its_time,
            verb="complete",
        ),
    ),
    Twin(
        "_expire_due",
        "and expires_at <= moment",
        "and expires_at is not null",
        test_expiring.test_a_sweep_leaves_messages_that_have_not_expired,
    ),
    Twin(
        "_expire",
        "if queue.dead_lettering_on_message_expiration then",
        "if true then",
        partial(test_expiring.test_an_expired_message_is_never_delivered, verb="receive"),
    ),
    Twin(
        "_send_any",
        "moment) + least(time_to_live, target.default_message_time_to_live)",
        "moment) + coalesce(time_to_live, target.default_message_time_to_live)",
        test_expiring.test_the_time_to_live_of_the_queue_is_the_default_and_the_ceiling,
    ),
    Twin(
        "_send_any",
        "greatest(scheduled_enqueue_time, moment) + least",
        "moment + least",
        test_expiring.test_the_time_to_live_of_a_scheduled_message_runs_from_its_activation,
    ),
    Twin(
        "_move_from_dead_letters",
        "pgqueue.clock() + time_to_live",
        "enqueued_time + time_to_live",
        test_dead_letter_queue.test_the_time_to_live_of_a_resubmitted_message_starts_again,
    ),
    Twin(
        "_activate_scheduled",
        "scheduled_enqueue_time between _activate_scheduled.due_from and moment",
        "true",
        test_scheduling.test_a_message_that_is_not_due_stays_when_another_is_due,
    ),
    Twin(
        "cancel_scheduled",
        "if found then",
        "if false then",
        test_scheduling.test_an_unscheduled_message_cannot_be_cancelled_and_then_none_is,
    ),
]
