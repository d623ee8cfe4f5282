"""Queues have bounds, and remember what was settled."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from tests.sql import test_history, test_limits
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_check_queue_length",
        "if known[1] + known[4] + adding",
        "if known[1] + adding",
        partial(test_limits.test_a_long_queue_is_not_filled_beyond_its_bound_by_one_who_sends_fast, at_once=1),
    ),
    Twin(
        "_check_queue_length",
        "known[1] + number - known[2] + adding",
        "known[1] + adding",
        test_limits.test_a_session_that_counted_before_others_sent_does_not_go_by_that,
    ),
    Twin(
        "_delete_messages",
        "if queue.retain_history is null then",
        "if true then",
        test_history.test_purged_or_cancelled_messages_are_in_the_history,
    ),
    Twin(
        "complete",
        " and not records_settlements",
        "",
        test_history.test_a_fresh_message_is_written_down_when_it_is_completed,
    ),
    Twin(
        "complete_batch",
        " and not records_settlements",
        "",
        partial(test_history.test_a_batch_is_written_down_message_by_message, came_back=False),
    ),
    Twin(
        "_reclaim_history",
        "1 + ceil",
        "ceil",
        partial(
            test_history.test_a_sweep_reclaims_a_day_when_no_row_of_it_is_retained_and_not_before,
            retain_history=timedelta(days=1),
        ),
    ),
    Twin(
        "_reclaim_history",
        "today - 62",
        "today - 64",
        test_history.test_a_day_of_the_ring_that_is_in_use_again_is_not_reclaimed,
    ),
    Twin(
        "_reclaim_history",
        "today - 62",
        "today - 63",
        test_history.test_a_clock_that_goes_back_over_midnight_reclaims_nothing_fresh,
    ),
    Twin(
        "_reclaim_history",
        "exception when lock_not_available then\n            null;",
        "exception when lock_not_available then\n            return false;",
        test_history.test_a_day_that_is_being_read_is_left_and_the_next_is_reclaimed,
    ),
]
