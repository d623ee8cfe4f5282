"""A forwarded message is in one queue, at most four hops from where it was sent; no queue forwards to itself."""

from __future__ import annotations

from functools import partial

from tests.sql import test_forwarding, test_forwarding_dead_letters, test_forwarding_targets
from tests.sql.twins.twin import Twin

SCHEDULED = partial(
    test_forwarding.test_a_scheduled_message_waits_in_the_first_queue, wake=lambda session: session.receive()
)
DEATH = partial(
    test_forwarding_dead_letters.test_a_message_that_dies_is_forwarded,
    death=test_forwarding_dead_letters.die_by_age,
    reason="TTLExpiredException",
)

TWINS = [
    Twin("_move_to_queue", "coalesce(hops, 0) + 1", "null", test_forwarding.test_a_fifth_hop_is_not_made),
    Twin("_forward", "hops >= 4", "hops >= 5", test_forwarding.test_a_fifth_hop_is_not_made),
    Twin(
        "_forward_sent",
        "if replaced <> '{}' then",
        "if false then",
        test_forwarding.test_a_replacement_is_forwarded_by_its_send,
    ),
    Twin(
        "_forward_dead_letters",
        "hops >= 4",
        "hops >= 5",
        test_forwarding_dead_letters.test_hops_of_dead_letters_count_too,
    ),
    Twin(
        "_delay",
        "hops, until",
        "null, until",
        test_forwarding.test_hops_count_until_the_message_is_settled,
    ),
    Twin(
        "_unschedule",
        "hops\n          from",
        "null\n          from",
        test_forwarding.test_hops_count_until_the_message_is_settled,
    ),
    Twin("_forward", " for key share", "", test_forwarding_targets.test_a_target_is_not_dropped_under_a_sender),
    Twin(
        "_forward",
        "select * into source from pgqueue.queue where id = source.id",
        "exit",
        test_forwarding_targets.test_a_sender_that_comes_after_the_drop_goes_where_the_source_forwards_now,
    ),
    Twin(
        "_set_forwarding",
        " for key share",
        "",
        test_forwarding_targets.test_a_queue_that_is_dropped_meanwhile_is_no_target,
    ),
    *(
        Twin(
            "_set_forwarding",
            "update pgqueue.forwarding_change set changed_at = pgqueue.clock();",
            instead,
            partial(
                test_forwarding_targets.test_two_at_once_cannot_close_a_cycle, setting="forward_to", isolation=isolation
            ),
        )
        for instead, isolation in (
            ("", "read committed"),
            ("perform pg_advisory_xact_lock(1);", "repeatable read"),
        )
    ),
    Twin(
        "drop_queue",
        " for update",
        "",
        test_forwarding_targets.test_a_queue_that_others_forward_to_is_not_dropped,
    ),
    Twin("_take_turn", "known.forward_to = queue.id", "false", SCHEDULED),
    Twin("_due_in", "forward_to = source.id", "false", SCHEDULED),
    Twin(
        "_forward_waiting",
        "(locked_until is null or locked_until <= moment)",
        "true",
        test_forwarding.test_locked_messages_are_forwarded_when_they_are_free,
    ),
    Twin(
        "_forward_waiting",
        "perform pgqueue._move_exhausted(source, pgqueue._exhausted(source, places));",
        "",
        test_forwarding.test_an_expired_or_exhausted_message_is_not_forwarded,
    ),
    Twin(
        "_forward_waiting",
        "and coalesce(expires_at <= moment, false)",
        "and false",
        test_forwarding.test_an_expired_or_exhausted_message_is_not_forwarded,
    ),
    Twin(
        "_forward_sent",
        " and lock_token is null",
        "",
        test_forwarding.test_messages_locked_by_others_are_not_forwarded_with_a_sent_message,
    ),
    Twin(
        "_move_to_queue",
        "then nextval('pgqueue.sequence_number') end as position",
        "then null::bigint end as position",
        test_forwarding.test_messages_that_wait_are_found_behind_the_cursor,
    ),
    Twin("_move_to_queue", "least(case when arrive_as <> 'DIED' then expires_at end,", "least(expires_at,", DEATH),
    Twin(
        "_move_to_queue",
        " and arrive_as not in ('DIED', 'DEAD') then\n        places",
        " then\n        places",
        test_forwarding_dead_letters.test_a_dead_letter_is_no_duplicate_of_another,
    ),
    *(
        Twin(
            function,
            "'DEAD'" + follows,
            "'SENT'" + follows,
            test_forwarding_dead_letters.test_a_dead_letter_that_goes_on_is_no_duplicate,
        )
        for function, follows in (("_forward_dead_letters", ")"), ("_forward", " else"))
    ),
    Twin(
        "_move_to_queue",
        "arrive_as <> 'SENT' or lane",
        "lane",
        partial(
            test_forwarding_dead_letters.test_a_message_that_dies_is_forwarded,
            death=test_forwarding_dead_letters.die_by_hand,
            reason="Bad",
        ),
    ),
    Twin(
        "_try_to_forward",
        " or lock_not_available",
        "",
        test_forwarding.test_a_receive_does_not_wait_for_a_sender_of_an_id_that_is_being_forwarded,
    ),
    Twin(
        "_drop_duplicates",
        "where answer <> number",
        "where false",
        test_forwarding.test_each_queue_on_the_way_detects_duplicates,
    ),
    Twin(
        "resubmit",
        "source.forward_to is not null",
        "false",
        test_forwarding.test_resubmitted_dead_letters_are_forwarded,
    ),
]
