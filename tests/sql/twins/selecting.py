"""Free messages are deleted, cancelled and moved, wherever they are, and none is lost on the way."""

from __future__ import annotations

from functools import partial

from tests.sql import test_selecting as tests
from tests.sql import test_waiting_sessions
from tests.sql.twins.twin import Twin

HELD = tests.test_a_message_that_an_open_transaction_holds_is_left_to_it
WHERE = tests.test_where_messages_cannot_be_moved
MATCHING = tests.test_messages_match_by_state_and_properties
FOUND = tests.test_the_messages_that_are_found_are_those_deleted
NOTIFIED = tests.test_the_holder_of_a_cancelled_message_is_notified
BEHIND = tests.test_successors_of_a_message_that_rested_are_received_at_once
KEPT = tests.test_a_moved_message_keeps_what_it_is
LOST = partial(tests.test_the_holder_of_a_cancelled_message_has_lost_it, reason=None, priority=0, has_expired=False)

WAITS = [
    Twin(
        "_hasten_sessions",
        "limit 1\n                  for no key update skip locked",
        "limit 1\n                  for no key update",
        test_waiting_sessions.test_a_deletion_does_not_wait_for_who_accepts_its_session,
    ),
    Twin(
        "_lock_by_number",
        "limit 1\n                  for update skip locked",
        "limit 1\n                  for update",
        partial(HELD, kind="fresh"),
    ),
    Twin(
        "_lock_by_number",
        "for update skip locked) as held);\n        exit when",
        "for update) as held);\n        exit when",
        partial(HELD, kind="came back"),
    ),
    Twin(
        "_lock_by_number",
        "for update skip locked) as held);\n    end loop",
        "for update) as held);\n    end loop",
        partial(HELD, kind="scheduled"),
    ),
    Twin(
        "delete_matching",
        "for update skip locked) as held\n             where not",
        "for update) as held\n             where not",
        partial(HELD, kind="fresh"),
    ),
    Twin(
        "delete_matching",
        "cardinality(places)\n               for update skip locked",
        "cardinality(places)\n               for update",
        partial(HELD, kind="scheduled"),
    ),
]

TWINS = [
    Twin(
        "_lock_by_number",
        "(even_locked or not pgqueue._is_locked(message, queue.requires_session, moment))\n                limit",
        "true\n                limit",
        tests.test_a_locked_message_stays_and_is_not_counted,
    ),
    Twin(
        "_lock_by_number",
        "(even_locked or not pgqueue._is_locked(message, queue.requires_session, moment))\n                    order",
        "true\n                    order",
        tests.test_a_locked_message_stays_and_is_not_counted,
    ),
    Twin(
        "_lock_by_number",
        "for turn in 1 .. 2 loop",
        "for turn in 2 .. 2 loop",
        partial(tests.test_a_free_message_is_deleted_by_its_number, kind="scheduled"),
    ),
    Twin(
        "_lock_by_number",
        "    end loop;\n",
        "        exit;\n    end loop;\n",
        tests.test_a_message_that_becomes_due_meanwhile_is_found_where_it_is_then,
    ),
    Twin(
        "_lock_by_number",
        "places := pgqueue._unheld_in_sessions(places);",
        "",
        tests.test_a_message_that_its_session_hands_out_meanwhile_stays,
    ),
    Twin(
        "_is_locked",
        "case when requires_session then pgqueue._is_held_in_session(message)",
        "case when false then false",
        partial(BEHIND, how="delete"),
    ),
    Twin("cancel", "even_locked => true", "even_locked => false", LOST),
    Twin("cancel", " and lock_token is not null", "", NOTIFIED),
    Twin("cancel", "perform pgqueue._announce_loss(source, cancel.sequence_number)", "perform", NOTIFIED),
    Twin("unlock", "perform pgqueue._announce_loss(source, unlock.sequence_number);", "", NOTIFIED),
    Twin(
        "_announce_loss",
        "coalesce(current_setting('pgqueue.notify', true), '') <> 'off' and ",
        "",
        tests.test_a_cancellation_to_be_prepared_sends_no_notification,
    ),
    Twin("cancel", "perform pgqueue._release_successors(source, sessions);", "", partial(BEHIND, how="cancel")),
    Twin("_remove", "perform pgqueue._release_successors(queue, sessions);", "", partial(BEHIND, how="delete")),
    Twin("move_messages", "perform pgqueue._release_successors(source, sessions);", "", partial(BEHIND, how="move")),
    Twin(
        "delete_matching",
        "and not pgqueue._is_locked(message, source.requires_session, moment)\n                    limit",
        "\n                    limit",
        tests.test_a_message_that_was_locked_meanwhile_matches_no_more,
    ),
    Twin(
        "delete_matching",
        "delete_matching.state is null\n",
        "true\n",
        partial(tests.test_messages_that_are_not_delivered_any_more_match, state="EXPIRED"),
    ),
    Twin("delete_matching", "coalesce(delete_matching.state = 'SCHEDULED', true)", "true", MATCHING),
    Twin(
        "delete_matching",
        "limit max_messages - cardinality(places)",
        "limit max_messages",
        tests.test_no_more_are_deleted_than_wanted,
    ),
    Twin("_has_properties", "is distinct from value", "is null", MATCHING),
    Twin("find_messages", "(until is null or enqueued_time <= until)", "true", FOUND),
    Twin("find_messages", "(find_messages.session_id is null or session_id = find_messages.session_id)", "true", FOUND),
    Twin("move_messages", 'if exists (select from pgqueue.topic where name = "to") then', "if false then", WHERE),
    Twin("move_messages", "if target.id = source.id then", "if false then", WHERE),
    Twin(
        "move_messages",
        "pgqueue._find_queue(\"to\", 'SEND')",
        '(select queue from pgqueue.queue where name = "to")',
        tests.test_moving_takes_the_right_to_send_to_the_other_queue,
    ),
    Twin(
        "move_messages",
        "elsif (source.requires_session or source.fair) and not (target.requires_session or target.fair) then",
        "elsif false then",
        tests.test_messages_are_moved_between_sessions,
    ),
    Twin(
        "move_messages",
        "perform pgqueue._create_lanes(target.id, priority)",
        "perform priority",
        tests.test_moved_messages_are_delivered_in_their_order_behind_any_cursor,
    ),
    Twin(
        "move_messages",
        "update pgqueue.failed_message\n       set queue_id = target.id",
        "update pgqueue.failed_message\n       set queue_id = source.id",
        tests.test_a_moved_message_keeps_its_errors,
    ),
    Twin("_check_arrival", "if target.status in ('DISABLED', 'SEND_DISABLED') then", "if false then", WHERE),
    Twin("_check_arrival", "if target.max_message_size is not null then", "if false then", WHERE),
    Twin("_check_arrival", "if target.requires_session or target.fair then", "if false then", WHERE),
    Twin(
        "_check_arrival",
        "if target.requires_duplicate_detection then",
        "if false then",
        tests.test_a_duplicate_is_left_where_it_is,
    ),
    Twin("_check_arrival", "if target.max_queue_length is not null", "if false", tests.test_a_full_queue_takes_none),
    Twin(
        "_place_in",
        "position     = placed.position",
        "position     = message.position",
        tests.test_moved_messages_are_delivered_in_their_order_behind_any_cursor,
    ),
    Twin("_place_in", "case when not pgqueue._is_deferred(lane)\n", "case when true\n", partial(KEPT, kind="deferred")),
    Twin(
        "_place_in",
        "lock_token   = null",
        "lock_token   = message.lock_token",
        tests.test_a_late_holder_cannot_settle_a_message_that_was_moved,
    ),
    Twin(
        "_place_in",
        "if placed.sessions is not null then",
        "if false then",
        tests.test_messages_are_moved_between_sessions,
    ),
    Twin(
        "_place_in",
        "if target.forward_to is not null and",
        "if false and",
        tests.test_a_queue_that_forwards_passes_on_moved_messages_that_wait,
    ),
    Twin(
        "_place_in",
        "least(expires_at, moment",
        "greatest(expires_at, moment",
        tests.test_a_time_to_live_is_no_longer_than_the_queue_allows,
    ),
    Twin(
        "_schedule_in",
        "= greatest(scheduled_enqueue_time, pgqueue.clock()),",
        "= scheduled_enqueue_time,",
        tests.test_an_overdue_message_that_is_moved_is_found,
    ),
    Twin(
        "_schedule_in",
        "perform nextval('pgqueue.sequence_number') from unnest(places);",
        "",
        tests.test_a_full_queue_takes_none,
    ),
]
