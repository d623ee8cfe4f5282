"""Message ids and effects are remembered for as long as was asked."""

from __future__ import annotations

from tests.sql import test_duplicates, test_effects
from tests.sql.twins.twin import Twin

WINDOW = "sent_message_id.sent_at <= moment - target.duplicate_detection_history_time_window"

TWINS = [
    Twin(
        "_record_message_ids",
        f"where {WINDOW}",
        "where true",
        test_duplicates.test_the_second_send_succeeds_and_stores_nothing,
    ),
    Twin("_record_message_ids", f"where {WINDOW}", "where false", test_duplicates.test_after_the_window_an_id_is_new),
    Twin(
        "_record_message_ids",
        "order by message_id\n        on conflict",
        "order by min(number)\n        on conflict",
        test_duplicates.test_batches_with_the_same_ids_in_opposite_order_do_not_deadlock,
    ),
    Twin(
        "_record_message_ids",
        "queue_id = target.id and message_id between",
        "message_id between",
        test_duplicates.test_other_queues_do_not_matter,
    ),
    Twin(
        "_delete_old_records",
        "and sent_at <= moment - queue.duplicate_detection_history_time_window",
        "",
        test_duplicates.test_ids_are_forgotten_by_a_sweep_when_their_window_is_over_and_not_before,
    ),
    Twin(
        "_delete_old_records",
        "where queue_id = queue.id and forget_at >= since and forget_at <= moment\n"
        "                order by forget_at\n                limit max_records - ids\n",
        "where queue_id = queue.id\n                order by forget_at\n                limit max_records - ids\n",
        test_effects.test_a_sweep_forgets_effects_that_need_not_be_kept_and_no_others,
    ),
    Twin(
        "record_effect",
        "where recorded_effect.forget_at <= moment",
        "where true",
        test_effects.test_an_effect_is_recorded_once,
    ),
    Twin(
        "record_effect",
        "where recorded_effect.forget_at <= moment",
        "where false",
        test_effects.test_an_effect_is_kept_as_long_as_was_asked_for,
    ),
]
