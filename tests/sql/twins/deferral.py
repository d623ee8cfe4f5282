"""Deferred messages are received by their number only."""

from __future__ import annotations

from tests.sql import test_deferring
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "receive_deferred",
        "and lane::integer between 800 and 1200          -- cast",
        "-- cast",
        test_deferring.test_a_number_that_is_not_deferred_is_refused_and_no_message_is_received,
    ),
    Twin(
        "receive_deferred",
        "and lane::integer between 800 and 1200\n                  and (locked_until",
        "and (locked_until",
        test_deferring.test_a_message_resubmitted_during_a_receive_of_its_number_is_not_taken,
    ),
    Twin(
        "receive_deferred",
        "and (locked_until is null or locked_until <= moment or source.requires_session)",
        "",
        test_deferring.test_a_locked_deferred_message_is_not_received_and_not_waited_for,
    ),
    Twin(
        "receive_deferred",
        "and delivery_count >= source.max_delivery_count",
        "and false",
        test_deferring.test_the_delivery_limit_holds,
    ),
    Twin(
        "defer_batch",
        "delivery_count - 1",
        "delivery_count",
        test_deferring.test_a_deferral_is_not_counted_and_a_delivery_is,
    ),
    Twin(
        "_move_to_dead_letters",
        "2 * pgqueue._priority(lane)",
        "lane & ~1",
        test_deferring.test_dead_lettered_and_resubmitted_it_is_an_ordinary_message_of_its_priority,
    ),
]
