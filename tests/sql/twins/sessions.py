"""Sessions: their order, their locks, and which of them wait."""

from __future__ import annotations

from functools import partial

from tests.sql import (
    test_groups,
    test_resolving,
    test_session_messages,
    test_sessions,
    test_several_sessions,
    test_waiting_sessions,
)
from tests.sql.twins.twin import Twin

LOST = test_sessions.test_messages_of_a_lost_session_come_again_in_their_order
PROVED = test_several_sessions.test_a_batch_of_first_deliveries_proves_message_and_session
RECORDED = test_several_sessions.test_a_batch_forgets_what_went_wrong_and_enters_the_history
LOST_TOKEN = test_waiting_sessions.test_a_lost_token_holds_nothing_that_the_next_holder_has

TWINS = [
    Twin(
        "accept_session",
        "coalesce(found.nexts[array_position(found.later, session_id)], moment + interval '1 second')",
        """coalesce(found.nexts[array_position(found.later, session_id)], greatest(
               (select locked_until
                  from pgqueue.session as held
                 where held.queue_id = source.id and held.session_id = waiting_session.session_id),
               moment + interval '1 second'))""",
        test_waiting_sessions.test_a_session_that_is_found_held_while_it_is_released_is_available_in_a_second,
    ),
    Twin(
        "accept_session",
        "                 limit wanted\n",
        "                 limit 4\n",
        test_sessions.test_several_sessions_are_accepted_at_once_those_that_have_waited_longest_first,
    ),
    Twin(
        "_announce_sessions",
        "                      for key share skip locked) as held",
        "                      ) as held",
        test_waiting_sessions.test_an_empty_session_that_a_sender_is_sending_to_goes_on_waiting,
    ),
    Twin(
        "_announce_sessions",
        "current_setting('transaction_isolation') = 'read committed'",
        "true",
        test_waiting_sessions.test_at_repeatable_read_nothing_is_removed_and_a_sender_does_not_fail,
    ),
    Twin(
        "_forget_waiting",
        "    session_ids := pgqueue._empty_sessions(_forget_waiting.queue_id, session_ids);\n",
        "",
        test_waiting_sessions.test_messages_are_looked_for_once_more_when_the_session_is_locked,
    ),
    Twin(
        "_forget_waiting",
        "current_setting('transaction_isolation') = 'read committed'",
        "true",
        test_waiting_sessions.test_at_repeatable_read_nothing_is_removed_and_a_sender_does_not_fail,
    ),
    Twin(
        "_hand_back",
        "    if empty <> '{}' then",
        "    if false then",
        test_sessions.test_an_expired_lock_still_settles_until_the_session_is_accepted_again,
    ),
    Twin(
        "_hand_back",
        "         where changed_by <> pg_current_xact_id()",
        "         where false",
        test_waiting_sessions.test_a_session_that_is_released_while_an_acceptor_moves_its_row_is_available,
    ),
    Twin(
        "_hand_back",
        "       set available_at = pgqueue.clock()",
        "       set available_at = available_at",
        test_sessions.test_the_next_session_is_the_one_that_has_waited_longest,
    ),
    Twin(
        "_free_sessions",
        "or locked_until <= pgqueue.clock()",
        "or true",
        test_sessions.test_a_session_is_held_by_one_until_it_is_released_or_its_lock_expires,
    ),
    Twin(
        "_forget_sessions",
        "locked_until <= pgqueue.clock() - interval '1 hour'",
        "locked_until <= pgqueue.clock()",
        test_sessions.test_an_expired_lock_still_settles_deferred_messages_when_the_session_has_no_others,
    ),
    Twin(
        "_forget_sessions",
        "(horizon = 0 or horizon_taken_at not between",
        "(true or horizon_taken_at not between",
        test_waiting_sessions.test_an_empty_session_is_remembered_that_has_read_much,
    ),
    Twin(
        "_forget_sessions",
        "(horizon = 0 or horizon_taken_at not between",
        "(horizon = 0 or false and horizon_taken_at not between",
        test_waiting_sessions.test_an_empty_session_is_remembered_that_has_read_much,
    ),
    Twin(
        "_forget_sessions",
        " join unnest(session_ids) as empty (id) using (id)",
        "",
        partial(
            test_groups.test_a_sweep_does_not_forget_the_slots_of_a_group_in_use, before="    select array_agg(place)"
        ),
    ),
    Twin(
        "_free_sessions",
        "horizon > pgqueue._last_number_drawn()",
        "false",
        test_waiting_sessions.test_a_remembered_session_starts_over_when_the_sequence_went_back,
    ),
    Twin(
        "_prove_sessions",
        "               for key share of session",
        "              ",
        test_sessions.test_a_session_cannot_be_accepted_while_a_transaction_of_its_holder_is_open,
    ),
    Twin("_lock_proven", "if queue.requires_session then", "if false then", LOST),
    Twin(
        "complete_batch",
        "                      for key share) as session",
        "                    ) as session",
        test_several_sessions.test_a_session_cannot_be_accepted_while_a_transaction_completes_a_batch_of_it,
    ),
    Twin("complete_batch", "delivery_count = 1 and ", "", RECORDED),
    Twin("complete_batch", " and not source.records_settlements", "", RECORDED),
    Twin(
        "receive_from_session_batch",
        "order by nth, (message).position",
        "order by (message).position desc",
        test_several_sessions.test_messages_of_several_sessions_come_each_in_its_order,
    ),
    Twin(
        "_take_from_sessions",
        "held.cursors, max_messages))[:allowed];",
        "held.cursors, max_messages));",
        test_several_sessions.test_the_rate_of_a_queue_is_that_of_all_sessions_together,
    ),
    Twin(
        "_next_in_sessions",
        "row_number() over (partition by session order by nth)",
        "row_number() over (order by given_nth)",
        test_several_sessions.test_messages_of_several_sessions_come_each_in_its_order,
    ),
    Twin(
        "_next_in_sessions",
        "         where nth = locked_nth",
        "",
        test_waiting_sessions.test_no_message_is_passed_over_that_a_transaction_holds,
    ),
    Twin(
        "_next_in_sessions",
        "lock_token is distinct from held.lock_token",
        "true",
        test_sessions.test_messages_of_a_session_come_in_the_order_of_their_numbers,
    ),
    Twin(
        "_next_in_sessions",
        "lock_token is not null or locked_until is null or locked_until <= pgqueue.clock()",
        "true",
        test_session_messages.test_a_message_that_was_abandoned_with_a_delay_holds_its_successors_up,
    ),
    Twin(
        "_redeliver",
        "case when lane = 2000 then message.position else placed.position end",
        "placed.position",
        test_sessions.test_an_abandoned_message_comes_again_before_its_successors,
    ),
    Twin(
        "_move_session_cursor",
        "pg_snapshot_xmin(pg_current_snapshot()) >= held.horizon_xid",
        "true",
        test_waiting_sessions.test_a_message_that_is_committed_late_is_not_behind_the_cursor_of_its_session,
    ),
    Twin(
        "_move_session_cursor",
        "held.horizon_xid <= next_xid",
        "true",
        test_waiting_sessions.test_the_cursor_of_a_session_moves_after_a_restore_into_a_cluster_with_lower_transaction_ids,
    ),
    Twin(
        "_activate_scheduled",
        "    if activated.sessions is not null then",
        "    if false then",
        test_session_messages.test_a_scheduled_message_alone_makes_its_session_available,
    ),
    Twin(
        "receive_deferred",
        "(session_id = receive_deferred.session_id or not source.requires_session)",
        "true",
        test_session_messages.test_a_deferred_message_of_another_session_is_not_received,
    ),
    Twin(
        "_expire_due",
        "not (queue.requires_session and pgqueue._is_held_in_session(message))",
        "true",
        test_session_messages.test_a_message_of_a_renewed_session_does_not_expire,
    ),
    Twin(
        "_find_over_delivered",
        "not (queue.requires_session and pgqueue._is_held_in_session(message))",
        "true",
        test_session_messages.test_a_sweep_leaves_a_deferred_message_to_the_holder_of_a_renewed_session,
    ),
    Twin(
        "_preview_sweep",
        "not (queue.requires_session and pgqueue._is_held_in_session(message))",
        "true",
        test_session_messages.test_a_message_of_a_renewed_session_does_not_expire,
    ),
]

TOKENS = [
    Twin("_held_session", " and lock_token = _held_session.lock_token", "", LOST),
    Twin(
        "_take_from_sessions",
        " and lock_token = given.lock_token",
        "",
        test_several_sessions.test_of_no_session_a_message_is_received_if_one_is_lost,
    ),
    Twin(
        "complete_batch",
        "delivery_count = 1 and lock_token = token",
        "delivery_count = 1",
        PROVED,
    ),
    Twin(
        "complete_batch",
        "session_id = message.session_id and lock_token = token",
        "session_id = message.session_id",
        PROVED,
    ),
    Twin("_prove_sessions", "session.lock_token = message.lock_token", "true", LOST),
    Twin("_is_held_in_session", "held.lock_token = message.lock_token", "true", LOST_TOKEN),
    Twin("queue_counts", "held.lock_token = message.lock_token", "true", LOST_TOKEN),
    Twin("find_messages", "held.lock_token = known.lock_token", "true", LOST_TOKEN),
    Twin(
        "_renew_session",
        " and lock_token = _renew_session.lock_token\n       for",
        "\n       for",
        LOST_TOKEN,
    ),
    Twin("_renew_session", " and lock_token = _renew_session.lock_token);", ");", LOST),
    Twin("_release_sessions", " and lock_token = given.lock_token", "", LOST),
    Twin(
        "resolve",
        "session.lock_token = resolve.lock_token",
        "true",
        test_resolving.test_a_session_that_was_released_proves_no_settlement,
    ),
    Twin("get_session_state", "lock_token = get_session_state.lock_token", "true", LOST_TOKEN),
    Twin("set_session_state", " and lock_token = set_session_state.lock_token", "", LOST),
]

WAITS = [
    Twin(function, "skip locked", "", caught_by)
    for function, caught_by in (
        ("_announce_sessions", test_waiting_sessions.test_a_sender_that_meets_the_end_of_a_session_announces_it_again),
        ("_forget_waiting", test_waiting_sessions.test_an_empty_session_that_a_sender_is_sending_to_goes_on_waiting),
        ("_forget_sessions", test_waiting_sessions.test_the_release_of_an_empty_session_does_not_wait_for_a_receive),
        ("_free_sessions", test_sessions.test_a_session_cannot_be_accepted_while_a_transaction_of_its_holder_is_open),
        (
            "_hand_back",
            test_waiting_sessions.test_a_session_that_is_released_while_an_acceptor_moves_its_row_is_available,
        ),
        (
            "_move_session_cursor",
            test_waiting_sessions.test_a_receive_does_not_wait_for_a_transaction_that_has_set_the_state,
        ),
        ("_next_in_sessions", test_waiting_sessions.test_no_message_is_passed_over_that_a_transaction_holds),
        ("_refuse_lost_session", test_waiting_sessions.test_a_refusal_does_not_wait),
        (
            "_renew_session",
            test_waiting_sessions.test_a_renewal_does_not_wait_for_a_transaction_that_has_set_the_state,
        ),
        ("accept_session", test_waiting_sessions.test_two_rows_of_a_session_do_not_let_two_accept_it),
        (
            "_release_sessions",
            test_waiting_sessions.test_the_release_of_a_session_does_not_wait_for_its_own_open_transaction,
        ),
    )
] + [
    Twin(
        "_hasten_sessions",
        "available_at > pgqueue.clock()\n               for no key update skip locked",
        "available_at > pgqueue.clock()\n               for no key update",
        test_waiting_sessions.test_a_purge_does_not_wait_for_who_accepts_a_session,
    )
]
