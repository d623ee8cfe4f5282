"""Settings, locks and records that a session makes without a right to them are not trusted."""

from __future__ import annotations

from functools import partial

from tests.sql import test_misuse, test_staging
from tests.sql.twins.twin import Twin

FORGED = partial(test_misuse.test_a_note_that_a_session_has_forged_does_not_pass_the_bound, bound=10)
TAKEN_OVER = test_misuse.test_a_stranger_who_takes_over_the_lock_of_a_session_that_ends_is_no_consumer

TWINS = [
    Twin("_check_queue_length", "if noted[2] = pgqueue._length_proof(target, noted[1]) then", "if true then", FORGED),
    Twin("_length_proof", " || key", "", FORGED),
    Twin("_length_proof", "target.id, ", "", partial(FORGED.func, bound=2000)),
    Twin(
        "_length_proof",
        "target.max_queue_length, ",
        "",
        test_misuse.test_a_note_of_a_higher_bound_does_not_pass_a_lower_one,
    ),
    Twin(
        "take_sample",
        "not pgqueue._only_one('pgqueue.sample_lock')",
        "false",
        test_misuse.test_one_takes_samples_at_a_time,
    ),
    Twin(
        "publish",
        "        for no key update",
        "",
        test_staging.test_the_batches_of_a_stream_wait_for_each_other,
    ),
    Twin(
        "_create_sessions",
        "set lock_timeout = '1ms'",
        "",
        test_misuse.test_of_two_who_create_a_session_one_gives_up,
    ),
    Twin("_is_attached", "pid = consumer.attached_pid and", "", TAKEN_OVER),
    Twin(
        "attach_consumer",
        "    end if;\n    perform pg_advisory_lock(key);",
        "    end if;\n",
        TAKEN_OVER,
    ),
    Twin(
        "attach_consumer",
        "    end if;\n    if pgqueue._is_attached(known) then",
        "    end if;\n    if false then",
        test_misuse.test_of_two_who_attach_at_once_one_works_for_the_consumer,
    ),
    Twin(
        "record_action",
        "if not pg_has_role(session_user, current_user, 'usage')",
        "if false",
        partial(test_misuse.test_a_sender_writes_nothing_into_the_audit_log, action="send"),
    ),
    Twin(
        "record_action",
        "else 'ADMIN' end",
        "else 'SEND' end",
        test_misuse.test_an_action_is_recorded_by_those_who_may_do_it,
    ),
    Twin(
        "_forget_actions",
        "where acted_at < moment - interval '1 year'",
        "",
        test_misuse.test_entries_of_the_audit_log_are_short_and_kept_a_year,
    ),
    Twin(
        "_lock_scheduled",
        "pgqueue._may_receive(queue.receivers)",
        "true",
        test_misuse.test_a_sender_cannot_reschedule_or_cancel_a_delivered_message,
    ),
    Twin(
        "_lock_scheduled",
        " and delivery_count = 0 or may_receive)\n                    order by sequence_number  ",
        " or may_receive)\n                    order by sequence_number  ",
        test_misuse.test_a_sender_cannot_reschedule_or_cancel_a_delivered_message,
    ),
    Twin(
        "_is_sent_for_later",
        " or lane = 2000",
        "",
        test_misuse.test_a_sender_can_cancel_a_scheduled_message_of_a_session,
    ),
]
