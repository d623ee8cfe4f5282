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
        "where message.locked_until is null or message.locked_until <= moment",
        "",
        test_sweep.test_a_newer_delivery_is_never_dead_lettered,
    ),
    Twin(
        "_find_over_delivered",
        "due <= moment and position <= cursor",
        "false",
        test_sweep.test_what_the_cursors_have_passed_is_dead_lettered_instead_after_its_last_delivery,
    ),
    Twin(
        "_find_over_delivered",
        "and position > cursor",
        "and false",
        test_sweep.test_what_was_delivered_too_often_is_dead_lettered_once_its_lock_has_expired,
    ),
    Twin(
        "sweep",
        "not pgqueue._only_one('pgqueue.sweep_lock')",
        "false",
        test_sweep.test_one_sweeps_at_a_time,
    ),
]
