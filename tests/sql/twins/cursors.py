"""Cursors pass no message that may still come, and numbers are handed out once."""

from __future__ import annotations

from functools import partial

from pgqueue.testing import Database
from tests.sql import test_browsing, test_cursors, test_rewritten, test_sequence, test_sweep, test_watermark
from tests.sql.stage import Stage
from tests.sql.twins.twin import Twin


def numbered(database: Database, *, many: bool) -> None:
    with Stage(database) as stage:
        test_watermark.a_number_is_drawn_by_a_transaction_that_has_an_id(stage, many=many)


REACHED = "least((progress).cursor, (select min(above) from unnest((progress).awaited_above) as above))"

TWINS = [
    Twin(
        "_lane_messages",
        f"watch.position <= {REACHED}",
        "false",
        test_browsing.test_a_message_that_the_cursor_has_passed_is_peeked,
    ),
    Twin(
        "_lane_messages",
        f"message.position > {REACHED}",
        "message.position > (progress).cursor",
        test_browsing.test_a_message_that_is_committed_behind_the_cursor_is_peeked,
    ),
    Twin("send", ":= pg_current_xact_id()", ":= '0'", partial(numbered, many=False)),
    Twin("send_batch", ":= pg_current_xact_id()", ":= '0'", partial(numbered, many=True)),
    Twin(
        "abandon",
        ":= pg_current_xact_id()",
        ":= '0'",
        test_watermark.test_a_number_is_drawn_by_a_transaction_that_has_an_id_when_a_message_is_abandoned,
    ),
    Twin(
        "_move_scan",
        "least(reached, settled)",
        "reached",
        test_watermark.test_a_message_sent_before_and_committed_after_others_is_received_at_once,
    ),
    Twin(
        "_move_scan",
        "least(reached, settled)",
        "least(reached, known[1])",
        test_watermark.test_messages_committed_between_a_scan_and_its_proof_are_not_passed,
    ),
    Twin(
        "_move_scan",
        "is_over := pg_snapshot_xmin(pg_current_snapshot()) >= known[3]::text::xid8;",
        "is_over := true;",
        test_watermark.test_a_message_sent_before_and_committed_after_others_is_received_at_once,
    ),
    Twin(
        "_move_scan",
        "is_over := not exists (",
        "is_over := true or not exists (",
        test_watermark.test_a_message_sent_before_and_committed_after_others_is_received_at_once,
    ),
    Twin(
        "_next_xid",
        "perform pg_logical_emit_message(true, 'pgqueue', ''::text);",
        "",
        test_watermark.test_a_sender_newer_than_all_that_have_ended_is_waited_for_too,
    ),
    Twin(
        "_progress",
        "order by turn desc",
        "order by turn",
        test_rewritten.test_verbs_do_not_walk_over_the_turns_of_a_day,
    ),
    Twin(
        "_advance_cursors",
        "where xid < was.horizon_xid",
        "where false",
        test_watermark.test_the_messages_of_a_long_sender_are_found_by_a_new_session,
    ),
    Twin(
        "_advance_cursors",
        "was     := pgqueue._watch_late_commits(was, open);",
        "",
        test_watermark.test_a_sender_that_is_open_long_does_not_stop_the_queue,
    ),
    Twin(
        "_watch_late_commits",
        "where xid <> all (open));",
        "where open = '{}');",
        test_watermark.test_one_long_transaction_does_not_hide_what_another_brings,
    ),
    Twin(
        "_advance_cursors",
        "pgqueue._watch_passed(was, was.cursor, ",
        "(",
        test_cursors.test_expired_locks_that_all_cursors_have_passed_come_back_within_a_second,
    ),
    Twin(
        "_advance_cursors",
        " or newest.horizon_taken_at > pgqueue.clock()",
        "",
        test_watermark.test_a_clock_that_went_back_stops_no_turn,
    ),
    Twin(
        "_advance_cursors",
        "and pgqueue._repair_watch(queue.id, 5000) = 5000 then",
        "and false then",
        test_watermark.test_messages_watched_before_the_clock_went_back_are_found,
    ),
    Twin(
        "_advance_cursors",
        "moment := was.horizon_taken_at;",
        "null;",
        test_watermark.test_all_that_was_put_under_watch_before_the_clock_went_back_is_found,
    ),
    Twin(
        "_take_turn",
        "perform pgqueue._repair_sequence();",
        "",
        test_sweep.test_a_receive_repairs_the_sequence_when_it_meets_a_number_in_use,
    ),
    Twin(
        "_remove_orphans",
        "from pgqueue.dropped_queue as dropped",
        "from (select distinct queue_id from pgqueue.message) as dropped",
        test_sweep.test_messages_of_a_queue_that_does_not_exist_yet_are_left_alone,
    ),
    Twin(
        "receive",
        "abs(extract(epoch from moment) - scan[1])",
        "(extract(epoch from moment) - scan[1])",
        test_watermark.test_a_busy_session_takes_turns_when_the_clock_went_back,
    ),
    Twin(
        "receive",
        "exit when not came_back and scan[2:] = passed;",
        "exit when not came_back;",
        test_cursors.test_an_abandoned_message_is_found_at_once_by_a_receive_that_finds_nothing_else,
    ),
    Twin(
        "_load_scan",
        "when next.is_free then",
        "when false then",
        test_cursors.test_a_session_that_has_passed_nothing_does_not_hide_abandoned_messages,
    ),
    Twin(
        "_advance_cursors",
        "and locked_until is null",
        "and false",
        test_cursors.test_a_turn_does_not_pass_what_is_free,
    ),
    Twin(
        "_sweep_queue",
        "handled := handled + pgqueue._repair_watch(queue.id, max_messages - handled);",
        "",
        test_sequence.test_the_next_sweep_repairs_what_no_turn_can_notice,
    ),
    Twin(
        "_sweep_queue",
        "handled := handled + pgqueue._repair_watch(",
        "perform pgqueue._repair_watch(",
        test_sweep.test_a_sweep_that_puts_back_overlooked_messages_reports_whether_there_are_more,
    ),
    Twin(
        "_is_sequence_behind",
        " and number is not null",
        " and false",
        test_sequence.test_a_sweep_puts_the_sequence_above_every_number_in_use,
    ),
    Twin(
        "_repair_sequence",
        "where cursor > 0 or horizon_xid <> all_open;",
        "where cursor > 0;",
        test_sequence.test_the_repair_of_an_unmoved_cursor_waits_for_open_sends,
    ),
    Twin(
        "_repair_sequence",
        "where horizon > last_number and (cursor",
        "where (cursor",
        test_sequence.test_the_sequence_is_repaired_while_another_queue_is_busy,
    ),
    Twin(
        "_repair_sequence",
        "1000000 +",
        "",
        test_sequence.test_numbers_that_others_draw_during_a_repair_are_not_handed_out_again,
    ),
    Twin(
        "_repair_sequence",
        "pgqueue._is_repairing() or ",
        "",
        test_sequence.test_a_repair_that_is_rolled_back_is_begun_again,
    ),
    Twin(
        "_repair_sequence",
        "set cursor = 0, horizon_xid",
        "set horizon_xid",
        test_sequence.test_messages_below_the_cursors_are_found_when_the_sequence_went_back,
    ),
    Twin(
        "_repair_sequence",
        "horizon_xid = all_open, ",
        "horizon_xid = '0', ",
        test_sequence.test_a_message_that_is_still_being_sent_when_cursors_begin_again_is_found,
    ),
]
