"""Dead letters are received, settled and resubmitted like messages."""

from __future__ import annotations

from tests.sql import test_dead_letter_queue
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "receive_dead_letters",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_dead_letter_queue.test_dead_letters_are_received_under_lock_in_the_order_they_were_sent,
    ),
    Twin(
        "receive_dead_letters",
        "from unnest(places) as held (place)\n         where ctid = place",
        "where ctid = any (places)",
        test_dead_letter_queue.test_dead_letters_are_received_under_lock_in_the_order_they_were_sent,
    ),
    Twin(
        "_lock_dead_letters_to_move",
        "and (even_locked or locked_until is null or locked_until <= moment)",
        "",
        test_dead_letter_queue.test_a_resubmission_skips_what_is_held_under_lock,
    ),
    Twin(
        "_lock_dead_letters_to_move",
        "case when after < 9223372036854775807 then after + 1 else coalesce(after, 0) end",
        "0",
        test_dead_letter_queue.test_many_are_resubmitted_in_batches_each_after_the_last,
    ),
    Twin(
        "_settle_dead_letters",
        "case when until is not null then gen_random_uuid() end",
        "case when until is not null then lock_token end",
        test_dead_letter_queue.test_a_dead_letter_abandoned_with_a_delay_can_be_received_after_that,
    ),
    Twin(
        "_settle_dead_letters",
        "delivery_count - (verb = 'RELEASE')::integer",
        "delivery_count",
        test_dead_letter_queue.test_a_released_dead_letter_is_given_back_uncounted,
    ),
]
