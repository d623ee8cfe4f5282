"""Sessions: their order, their locks, and which of them wait."""

from __future__ import annotations

from tests.sql import test_resolving, test_session_messages, test_sessions, test_waiting_sessions
from tests.sql.twins.twin import Twin

LOST = test_sessions.test_messages_of_a_lost_session_come_again_in_their_order
LOST_TOKEN = test_waiting_sessions.test_a_lost_token_holds_nothing_that_the_next_holder_has

TWINS = [
    Twin(
        "accept_session",
        "so the end of its lock does not count\n            next := moment + interval '1 second';",
        """
            next := greatest(
                (select locked_until from pgqueue.session where queue_id = source.id and session_id = waiting.id),
                moment + interval '1 second');""",
        test_waiting_sessions.test_a_session_that_is_found_held_while_it_is_released_is_available_in_a_second,
    ),
    Twin(
        "accept_session",
        "exit when accepted = max_sessions;",
        "exit when accepted > max_sessions;",
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
        "           for update skip locked);\n    if pgqueue._next_delivery(known) is not null then",
        "           for update skip locked);\n    if false then",
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
        "    perform pgqueue._forget_session(known);\n    update pgqueue.waiting_session",
        "    update pgqueue.waiting_session",
        test_sessions.test_an_expired_lock_still_settles_until_the_session_is_accepted_again,
    ),
    Twin(
        "_hand_back",
        "    if not found then",
        "    if false then",
        test_waiting_sessions.test_a_session_that_is_released_while_an_acceptor_moves_its_row_is_available,
    ),
    Twin(
        "_hand_back",
        "       set available_at = pgqueue.clock()",
        "       set available_at = available_at",
        test_sessions.test_the_next_session_is_the_one_that_has_waited_longest,
    ),
    Twin(
        "_free_session",
        "or locked_until <= pgqueue.clock()",
        "or true",
        test_sessions.test_a_session_is_held_by_one_until_it_is_released_or_its_lock_expires,
    ),
    Twin(
        "_forget_session",
        "locked_until <= pgqueue.clock() - interval '1 hour'",
        "locked_until <= pgqueue.clock()",
        test_sessions.test_an_expired_lock_still_settles_deferred_messages_when_the_session_has_no_others,
    ),
    Twin(
        "_forget_session",
        "(horizon = 0 or horizon_taken_at not between",
        "(true or horizon_taken_at not between",
        test_waiting_sessions.test_an_empty_session_is_remembered_that_has_read_much,
    ),
    Twin(
        "_forget_session",
        "(horizon = 0 or horizon_taken_at not between",
        "(horizon = 0 or false and horizon_taken_at not between",
        test_waiting_sessions.test_an_empty_session_is_remembered_that_has_read_much,
    ),
    Twin(
        "_free_session",
        "known.horizon > pgqueue._last_number_drawn()",
        "false",
        test_waiting_sessions.test_a_remembered_session_starts_over_when_the_sequence_went_back,
    ),
    Twin(
        "_lock_session",
        "cursor = (free).cursor, horizon = (free).horizon",
        "cursor = known.cursor, horizon = known.horizon",
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
        "_next_in_session",
        "         where nth = locked_nth",
        "",
        test_waiting_sessions.test_no_message_is_passed_over_that_a_transaction_holds,
    ),
    Twin(
        "_next_in_session",
        "lock_token is distinct from held.lock_token",
        "true",
        test_sessions.test_messages_of_a_session_come_in_the_order_of_their_numbers,
    ),
    Twin(
        "_next_in_session",
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
    Twin("_prove_sessions", "session.lock_token = message.lock_token", "true", LOST),
    Twin("_is_held_in_session", "held.lock_token = message.lock_token", "true", LOST_TOKEN),
    Twin("queue_counts", "held.lock_token = message.lock_token", "true", LOST_TOKEN),
    Twin("find_messages", "held.lock_token = known.lock_token", "true", LOST_TOKEN),
    Twin(
        "_renew_session",
        " and lock_token = _renew_session.lock_token\n                  for",
        "\n                  for",
        LOST_TOKEN,
    ),
    Twin("_renew_session", " and lock_token = _renew_session.lock_token);", ");", LOST),
    Twin("release_session", "lock_token = release_session.lock_token", "true", LOST),
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
        ("_forget_session", test_waiting_sessions.test_the_release_of_an_empty_session_does_not_wait_for_a_receive),
        ("_free_session", test_sessions.test_a_session_cannot_be_accepted_while_a_transaction_of_its_holder_is_open),
        (
            "_hand_back",
            test_waiting_sessions.test_a_session_that_is_released_while_an_acceptor_moves_its_row_is_available,
        ),
        (
            "_move_session_cursor",
            test_waiting_sessions.test_a_receive_does_not_wait_for_a_transaction_that_has_set_the_state,
        ),
        ("_next_in_session", test_waiting_sessions.test_no_message_is_passed_over_that_a_transaction_holds),
        ("_refuse_lost_session", test_waiting_sessions.test_a_refusal_does_not_wait),
        (
            "_renew_session",
            test_waiting_sessions.test_a_renewal_does_not_wait_for_a_transaction_that_has_set_the_state,
        ),
        ("accept_session", test_waiting_sessions.test_two_rows_of_a_session_do_not_let_two_accept_it),
        (
            "release_session",
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
