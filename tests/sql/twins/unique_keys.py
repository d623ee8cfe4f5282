"""Unique keys: whether a message has one, and the locks under which a send finds that out."""

from __future__ import annotations

from functools import partial

from tests.sql import test_unique_keys
from tests.sql.twins.twin import Twin

BEFORE_LOCK = "\n                for update skip locked"

TWINS = [
    Twin(
        "_lock_scheduled",
        "cardinality(places) = cardinality(wanted) or not exists (",
        "true or not exists (",
        partial(test_unique_keys.test_a_replacement_that_a_verb_waits_for_is_found, verb="reschedule"),
    ),
    Twin(
        "_hold_unique_key",
        "           for update;",
        "         ;",
        test_unique_keys.test_two_senders_that_find_a_key_free_do_not_both_take_it,
    ),
    Twin(
        "_hold_unique_keys",
        "         order by unique_key\n",
        "         order by min(number)\n",
        test_unique_keys.test_batches_with_the_same_keys_in_opposite_order_do_not_deadlock,
    ),
    Twin(
        "_hold_unique_keys",
        "where sequence_number = numbers[place]",
        "where false",
        test_unique_keys.test_a_retry_by_its_message_id_is_a_duplicate_of_what_it_was_merged_into,
    ),
    Twin(
        "_hold_unique_keys",
        "where unique_key is not null and answer = number",
        "where unique_key is not null",
        test_unique_keys.test_a_retry_by_its_message_id_is_a_duplicate_of_what_it_was_merged_into,
    ),
    Twin(
        "_holds_unique_key",
        "                for update skip locked;",
        "              limit 1;",
        test_unique_keys.test_a_message_that_a_sender_relies_on_is_not_received_before_its_commit,
    ),
    Twin(
        "_holds_unique_key",
        "for attempt in 1 .. 3",
        "for attempt in 1 .. 1",
        test_unique_keys.test_a_message_that_a_turn_activates_is_still_relied_on,
    ),
    Twin(
        "_holds_unique_key",
        "            for update;",
        "            limit 1;",
        test_unique_keys.test_a_cancelled_message_leaves_its_key,
    ),
    Twin(
        "_holds_unique_key",
        "lock_token is null and",
        "(lock_token is null or locked_until <= pgqueue.clock()) and",
        test_unique_keys.test_a_message_whose_lock_has_expired_may_still_be_completed_so_it_does_not_wait,
    ),
    Twin(
        "_holds_unique_key",
        "lock_token is null and",
        "",
        partial(
            test_unique_keys.test_the_key_is_free_when_its_message_is_received_and_when_it_is_settled, settle="complete"
        ),
    ),
    Twin(
        "_holds_unique_key",
        f"coalesce(expires_at > pgqueue.clock(), true) and delivery_count < known.max_delivery_count{BEFORE_LOCK}",
        f"true{BEFORE_LOCK}",
        partial(test_unique_keys.test_a_message_that_will_not_be_delivered_has_no_key, unique_scope="waiting"),
    ),
    Twin(
        "_holds_unique_key",
        "                and coalesce(expires_at > pgqueue.clock(), true)\n              order by",
        "              order by",
        partial(test_unique_keys.test_a_message_that_will_not_be_delivered_has_no_key, unique_scope="waiting"),
    ),
    Twin(
        "_holds_unique_key",
        "(unique_scope = 'unsettled' or not pgqueue._is_deferred(lane))",
        "true",
        test_unique_keys.test_a_deferred_message_that_is_abandoned_with_a_delay_does_not_wait,
    ),
    Twin(
        "_is_unsettled",
        "if found and current_setting",
        "if false and current_setting",
        test_unique_keys.test_an_older_snapshot_does_not_rely_on_a_message_that_is_settled,
    ),
    Twin(
        "_is_unsettled",
        "             or known.requires_session and pgqueue._is_held_in_session(message)\n",
        "",
        test_unique_keys.test_a_message_of_a_session_whose_lock_was_renewed_is_in_work,
    ),
    Twin(
        "_delete_to_replace",
        "not pgqueue._may_receive(target.receivers)",
        "false",
        test_unique_keys.test_a_sender_does_not_replace_a_message_that_was_delivered,
    ),
    Twin(
        "_free_unique_keys",
        "then reached else '' end",
        "then 'z' else '' end",
        test_unique_keys.test_sweeps_of_one_session_go_on_behind_the_last_key,
    ),
    Twin(
        "_holds_unique_key",
        " and not pgqueue._is_deferred(lane)\n",
        "\n",
        partial(
            test_unique_keys.test_the_key_is_free_when_its_message_is_received_and_when_it_is_settled, settle="defer"
        ),
    ),
    Twin(
        "_holds_unique_key",
        "elsif unique_scope = 'unsettled' and",
        "elsif false and",
        partial(
            test_unique_keys.test_until_it_is_settled_an_unsettled_message_has_its_key, settle="complete", is_free=True
        ),
    ),
    Twin(
        "_delete_to_replace",
        "    perform pgqueue._forget_failures(target.id, array[number]);\n",
        "",
        test_unique_keys.test_a_replacement_of_a_message_that_has_failed_is_a_new_one,
    ),
    Twin(
        "_send_any",
        "(answer = number or is_later)::integer end as lane",
        "1 end as lane",
        test_unique_keys.test_a_replacement_takes_number_and_place_and_has_its_own_time,
    ),
    Twin(
        "_find_message",
        "(select fresh_lanes from pgqueue.queue as known where known.id = (queue).id)::smallint[]",
        "(queue).fresh_lanes",
        test_unique_keys.test_the_key_of_a_message_of_a_priority_that_is_new_is_not_swept,
    ),
]

WAITS = [
    Twin(
        "_is_unsettled",
        "for key share skip locked",
        "for key share",
        test_unique_keys.test_an_older_snapshot_does_not_wait_for_a_message_that_is_being_settled,
    ),
    Twin(
        "_holds_unique_key",
        "                for update skip locked;",
        "                for update;",
        test_unique_keys.test_a_message_that_is_being_received_is_not_relied_on,
    ),
    Twin(
        "_free_unique_keys",
        "for update skip locked",
        "for update",
        test_unique_keys.test_a_key_that_a_sender_takes_is_not_swept,
    ),
]
