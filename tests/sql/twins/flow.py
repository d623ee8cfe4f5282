"""A paused queue hands out nothing, and one with limits no more than they allow."""

from __future__ import annotations

from functools import partial

from tests.sql import test_ageing, test_flow, test_rewritten
from tests.sql.twins.twin import Twin

LIMITED = (
    "if source.paused_at is not null or source.max_receive_rate is not null or source.max_concurrent is not null then"
)

TWINS = [
    Twin(
        "_raise_waiting",
        "and locked_until is null",
        "",
        test_ageing.test_a_message_that_has_just_been_locked_does_not_rise,
    ),
    Twin("_raise_waiting", "limit 100", "limit 1000", test_ageing.test_at_most_a_hundred_rise_in_a_turn),
    Twin(
        "_raise_waiting",
        " or moment < last_mark",
        "",
        test_ageing.test_a_clock_that_goes_back_does_not_stop_the_ageing,
    ),
    Twin(
        "_raise_waiting",
        "where taken_at <= moment - old.wait",
        "",
        test_ageing.test_a_returned_message_ages_from_the_start,
    ),
    Twin(
        "_allowance",
        "queue.paused_at is not null",
        "false",
        test_flow.test_a_paused_queue_hands_out_nothing_until_it_is_resumed,
    ),
    Twin("_allowance", " for no key update", "", test_flow.test_two_receives_at_once_take_no_slot_twice),
    Twin("_allowance", "set lock_timeout = '100ms'", "", test_flow.test_an_open_receive_keeps_no_other_receive_waiting),
    Twin("receive", LIMITED, "if false then", test_flow.test_a_second_brings_as_many_messages_as_the_rate_allows),
    Twin(
        "receive",
        "perform pgqueue._hand_out(source, places, token, moment)",
        "null",
        test_flow.test_so_many_messages_are_handed_out_at_a_time,
    ),
    Twin("receive_deferred", LIMITED, "if false then", test_flow.test_so_many_messages_are_handed_out_at_a_time),
    Twin(
        "receive_deferred",
        "perform pgqueue._hand_out(source, places, token, moment)",
        "null",
        test_flow.test_all_ways_of_receiving_take_tokens,
    ),
    Twin(
        "_tokens",
        "(full_at, moment)",
        "(full_at, moment - interval '1 day')",
        test_flow.test_a_second_brings_as_many_messages_as_the_rate_allows,
    ),
    Twin("_tokens", "owed > 2 * burst", "false", test_flow.test_a_clock_that_goes_back_does_not_stop_the_queue),
    Twin("_allowance", " + queue.max_receive_rate / 1000000", "", test_flow.test_a_third_of_a_token_is_not_lost),
    Twin(
        "_create_limits",
        "perform pgqueue._create_bucket(queue.id)",
        "null",
        partial(test_flow.test_a_rollback_gives_no_tokens_back, verb="receive", is_altered=False),
    ),
    Twin(
        "_set_full_at",
        "perform pgqueue._create_bucket(queue_id)",
        "null",
        test_flow.test_a_bucket_that_is_missing_is_full,
    ),
    Twin(
        "_remove_orphans",
        "execute format('drop sequence %s', kind)",
        "null",
        test_flow.test_a_bucket_goes_with_its_queue_at_the_next_sweep,
    ),
    Twin(
        "_free_slots",
        "2 * queue.max_concurrent + 16",
        "999999",
        test_rewritten.test_a_lock_that_lasts_keeps_few_slots_behind_it,
    ),
    Twin(
        "_free_slots",
        "coalesce(first, last.position + 1)",
        "last.first_position",
        partial(test_rewritten.test_a_limited_receive_does_not_walk_over_those_before, limit={"max_concurrent": 3}),
    ),
    Twin("_hand_out", "ceil(", "floor(", test_flow.test_many_small_receives_do_not_gain_time),
    Twin(
        "_held_locks",
        "lock_token = gen_random_uuid()",
        "lock_token = lock_token",
        partial(test_flow.test_a_lock_whose_time_is_over_frees_its_slot_and_is_lost, is_put_back=False),
    ),
    Twin(
        "_held_locks",
        "locked_until is null or locked_until <= moment as is_over",
        "locked_until <= moment as is_over",
        partial(test_flow.test_a_lock_whose_time_is_over_frees_its_slot_and_is_lost, is_put_back=True),
    ),
    Twin(
        "_held_locks",
        "locked_until is null or locked_until <= moment as is_over",
        "true as is_over",
        test_flow.test_slots_of_messages_that_are_held_are_looked_up_without_a_lock,
    ),
    Twin(
        "_slots_taken",
        "    queue.fresh_lanes := (select known.fresh_lanes from pgqueue.queue as known where known.id = queue.id);\n",
        "",
        test_flow.test_a_slot_of_a_priority_that_is_new_is_not_free,
    ),
    Twin("_due_in", "source.paused_at is not null", "false", test_flow.test_consumers_know_that_a_queue_is_paused),
    Twin(
        "_due_in",
        "pgqueue._has_ready(source)",
        "true",
        test_flow.test_limits_of_a_queue_without_ready_messages_let_consumers_pause,
    ),
    Twin(
        "_has_ready",
        "(message.locked_until is null or message.locked_until <= pgqueue.clock())",
        "true",
        test_flow.test_a_held_message_is_not_polled_for,
    ),
    Twin(
        "_set_paused", "coalesce(paused_at, since)", "since", test_flow.test_a_queue_is_paused_since_it_was_paused_first
    ),
    Twin(
        "_set_paused",
        "perform pgqueue._notify(changed)",
        "null",
        test_flow.test_waiting_receivers_are_notified_of_pause_and_resume,
    ),
]
