"""No dead letter and no deferred message is passed by the front from which on they are looked for."""

from __future__ import annotations

from tests.sql import test_fronts
from tests.sql.twins.twin import Twin

KEPT = """coalesce(array_agg(xid) filter (where xid = any (open)), '{}'),
           coalesce(array_agg(above) filter (where xid = any (open)), '{}')"""

TWINS = [
    Twin(
        "_pass_front",
        "where xid < was.horizon_xid",
        "where false",
        test_fronts.test_a_dead_letter_whose_transaction_commits_late_is_found,
    ),
    Twin(
        "_pass_front",
        "where xid < was.horizon_xid",
        "where false",
        test_fronts.test_a_deferred_message_whose_transaction_commits_late_is_found,
    ),
    Twin(
        "_pass_front",
        "least(was.reached, min(above) filter (where xid <> all (open)))",
        "was.reached",
        test_fronts.test_a_deferred_message_whose_transaction_commits_late_is_found,
    ),
    Twin("_pass_front", KEPT, "'{}', '{}'", test_fronts.test_messages_of_two_transactions_that_commit_late_are_found),
    Twin(
        "_pass_front",
        "passed           := was.horizon;",
        "passed           := last_number;",
        test_fronts.test_a_front_does_not_pass_what_was_drawn_since_the_horizon,
    ),
    Twin(
        "_pass_front",
        """least(
            was.horizon,""",
        """least(
            last_number,""",
        test_fronts.test_a_front_does_not_pass_what_was_drawn_since_the_horizon,
    ),
    Twin(
        "_pass_front",
        "order by position\n                     limit 1",
        "order by position\n                     limit 0",
        test_fronts.test_a_deferred_message_is_not_passed,
    ),
    Twin(
        "_pass_front",
        "from pgqueue._dead_letters_from(was.queue_id, 0) limit 1",
        "from pgqueue._dead_letters_from(was.queue_id, was.first_number) limit 1",
        test_fronts.test_a_dead_letter_with_a_lower_number_than_the_first_is_found_in_the_order_of_numbers,
    ),
    Twin(
        "_pass_front",
        "current_setting('transaction_isolation') <> 'read committed'",
        "false",
        test_fronts.test_a_transaction_with_an_old_snapshot_does_not_move_a_front,
    ),
    Twin(
        "_pass_front",
        "if was.horizon > pgqueue._last_number_drawn() then",
        "if false then",
        test_fronts.test_moving_a_front_repairs_a_sequence_that_went_back,
    ),
    Twin(
        "_pass_front",
        "         where horizon_taken_at <= moment - interval '1 second' or horizon_taken_at > moment)",
        "         where horizon_taken_at <= moment - interval '1 second')",
        test_fronts.test_a_front_moves_again_after_the_clock_went_back,
    ),
    Twin(
        "_front",
        "where pg_visible_in_snapshot(xid, pg_current_snapshot())",
        "where false",
        test_fronts.test_a_dead_letter_whose_transaction_commits_late_is_found,
    ),
    Twin(
        "_move_to_dead_letters",
        "nextval('pgqueue.sequence_number')",
        "position",
        test_fronts.test_a_dead_letter_with_a_lower_number_than_the_first_is_found_in_the_order_of_numbers,
    ),
    Twin(
        "defer_batch",
        "nextval('pgqueue.sequence_number')",
        "position",
        test_fronts.test_a_deferred_message_whose_transaction_commits_late_is_found,
    ),
    Twin(
        "_dead_letters_from",
        "(select count(*) from arrived) < 1000",
        "true",
        test_fronts.test_more_than_a_thousand_dead_letters_that_came_since_are_found,
    ),
    Twin(
        "_repair_sequence",
        "or exists (select from pgqueue.front where horizon > last_number and horizon_xid <> all_open)",
        "",
        test_fronts.test_moving_a_front_repairs_a_sequence_that_went_back,
    ),
    Twin(
        "_repair_sequence",
        "awaited = '{}', awaited_above = '{}', horizon_xid = all_open\n         where horizon > 0;",
        "awaited = '{}', awaited_above = '{}'\n         where horizon > 0;",
        test_fronts.test_a_message_of_an_open_transaction_is_found_when_fronts_begin_again,
    ),
    Twin(
        "_repair_sequence",
        "(select max(horizon) from pgqueue.front), ",
        "",
        test_fronts.test_moving_a_front_repairs_a_sequence_that_went_back,
    ),
    Twin(
        "_is_sequence_behind",
        " or exists (select from pgqueue.front where horizon > last)",
        "",
        test_fronts.test_messages_are_found_when_the_sequence_went_back,
    ),
    Twin(
        "_highest_number_in_use",
        "where queue_id::bigint = queue.id and position > above",
        "where false",
        test_fronts.test_the_position_of_a_dead_letter_is_not_handed_out_again,
    ),
    Twin(
        "_sweep_fronts",
        "if thorough and exists (select from pgqueue._find_before_front(queue_id)) then",
        "if false then",
        test_fronts.test_a_sweep_finds_what_was_restored_before_the_front,
    ),
    Twin(
        "_sweep_queue",
        "perform pgqueue._sweep_fronts(queue.id, since = '-infinity');",
        "",
        test_fronts.test_a_sweep_moves_the_fronts_once_it_has_read_many_pages,
    ),
    Twin(
        "_pass_read",
        "> fetched + 2 * chosen + 32",
        "> fetched + 1000000",
        test_fronts.test_dead_letters_are_consumed_without_reading_what_was_consumed,
    ),
]
