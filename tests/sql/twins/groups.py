"""Groups: which of them wait, what they hand out, and their limits."""

from __future__ import annotations

from functools import partial

from tests.sql import test_groups
from tests.sql.twins.twin import Twin

LATE = test_groups.test_a_cursor_stops_before_what_an_open_transaction_may_have_sent
AWAITED = test_groups.test_a_transaction_that_stays_open_is_awaited

#: Each skips a row that another transaction holds.
WAITS = [
    Twin(
        "_free_in_groups",
        "for update skip locked",
        "for update",
        test_groups.test_a_sender_does_not_wait_for_a_transaction_that_receives_twice,
    ),
    Twin(
        "_waiting_groups",
        "for no key update skip locked",
        "for no key update",
        test_groups.test_a_sender_does_not_wait_for_a_transaction_that_receives_twice,
    ),
    Twin(
        "_set_aside",
        "for update skip locked",
        "for update",
        test_groups.test_a_receive_does_not_set_a_group_aside_while_a_sender_is_open,
    ),
    Twin(
        "_merge_waiting",
        "for update skip locked",
        "for update",
        test_groups.test_a_row_that_a_sender_holds_is_not_merged,
    ),
]

TOKENS = [
    Twin(
        "_complete_any",
        "and message.lock_token = _complete_any.lock_token",
        "",
        test_groups.test_a_first_delivery_is_completed_by_its_token_alone,
    ),
    Twin(
        "_rooms_in_groups",
        "and lock_token = token",
        "",
        partial(test_groups.test_a_settlement_frees_the_slot_of_its_group_at_once, verb="abandon"),
    ),
]

TWINS = [
    Twin(
        "_announce_sessions",
        "where not is_fair or held.available_at <= pgqueue.clock()",
        "where true",
        test_groups.test_a_group_whose_messages_are_in_work_gets_another_one,
    ),
    Twin(
        "_set_aside",
        "for update skip locked",
        "for no key update skip locked",
        test_groups.test_a_receive_does_not_set_a_group_aside_while_a_sender_is_open,
    ),
    Twin(
        "_set_aside",
        "and changed_by <> pg_current_xact_id()",
        "",
        test_groups.test_a_sender_does_not_wait_for_a_transaction_that_receives_twice,
    ),
    Twin(
        "_set_aside",
        "and (locked_until is null or locked_until <= moment)\n                        order",
        "and false\n                        order",
        test_groups.test_messages_are_looked_for_once_more_before_a_group_is_set_aside,
    ),
    Twin(
        "_set_aside",
        "cardinality(numbers) > (select count(*)",
        "0 > (select count(*)",
        test_groups.test_a_slot_that_becomes_free_before_the_group_is_set_aside_is_noticed,
    ),
    Twin(
        "_set_aside",
        """select min(locked_until) as next               -- none is in the past, as the group is idle
                 from (select locked_until""",
        """select min(least(locked_until, expires_at)) as next
                 from (select locked_until, expires_at""",
        test_groups.test_a_group_is_found_whose_first_message_rests_beyond_its_expiry,
    ),
    Twin(
        "_receive_from_groups",
        "_move_groups(moved, array",
        "_move_groups('{}', array",
        test_groups.test_groups_take_turns_however_deep_one_of_them_is,
    ),
    Twin(
        "_receive_from_groups",
        "exit when was_held or moved <> '{}'",
        "exit",
        test_groups.test_while_another_receive_holds_the_only_group_its_messages_are_received,
    ),
    Twin(
        "_receive_from_groups",
        "rooms, wanted, began)",
        "rooms, wanted, moment)",
        test_groups.test_a_receive_hands_out_no_message_twice_however_short_its_locks,
    ),
    Twin(
        "_receive_from_groups",
        "case when pg_current_xact_id_if_assigned() is null then",
        "case when true then",
        partial(LATE, within=True),
    ),
    Twin("_move_groups", "when horizon_xid <= ended and reads_much", "when reads_much", partial(LATE, within=False)),
    Twin("_passed_in_group", "least(waiting.horizon, (", "greatest(0, (", partial(LATE, within=True)),
    Twin("_move_groups", "known.awaited || array_agg(late),", "known.awaited,", AWAITED),
    Twin("_group_cursor", "where xid <> all (array(", "where xid = any (array(", AWAITED),
    Twin(
        "_set_aside",
        "case when horizon_taken_at > moment",
        "case when false and horizon_taken_at > moment",
        test_groups.test_an_empty_group_keeps_its_cursor_for_an_hour,
    ),
    Twin(
        "_waiting_groups",
        "if groups < cardinality(ids) then",
        "if false then",
        test_groups.test_several_rows_of_a_group_are_merged,
    ),
    Twin(
        "_release_groups",
        "if queue.fair then",
        "if false then",
        test_groups.test_an_abandoned_message_is_found_by_others_while_a_receive_sets_its_group_aside,
    ),
    Twin(
        "_free_slots_in_groups",
        "if pgqueue._limits_groups(queue) then",
        "if false then",
        partial(test_groups.test_a_settlement_frees_the_slot_of_its_group_at_once, verb="complete_batch"),
    ),
    Twin(
        "_complete_any",
        "if pgqueue._limits_groups(source) then",
        "if false then",
        partial(test_groups.test_a_settlement_frees_the_slot_of_its_group_at_once, verb="complete"),
    ),
    Twin(
        "_rooms_in_groups",
        "case when id = any (own)\n                           then greatest(least(",
        "case when true\n                           then greatest(least(",
        test_groups.test_two_receives_at_a_time_do_not_exceed_the_limit,
    ),
]
