"""Messages delivered too often are dead-lettered, and errors are deleted with their messages."""

from __future__ import annotations

from functools import partial

from tests.sql import test_failures
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "abandon",
        "if num_nonnulls(delay, properties, error) = 0 then",
        "if num_nonnulls(delay, properties) = 0 then",
        test_failures.test_the_last_error_is_kept_apart_from_the_message,
    ),
    Twin(
        "abandon",
        "           and delivery_count < (select max_delivery_count from pgqueue.queue where name = abandon.queue)\n",
        "",
        test_failures.test_a_message_is_dead_lettered_when_its_last_delivery_is_abandoned,
    ),
    Twin(
        "abandon_batch",
        "perform pgqueue._move_exhausted(source, spent, ended => 'was abandoned');",
        "",
        test_failures.test_a_message_is_dead_lettered_when_its_last_delivery_is_abandoned,
    ),
    Twin(
        "_redeliver_watched",
        "perform pgqueue._move_exhausted(source, spent);",
        "",
        test_failures.test_an_exhausted_message_is_shown_as_such_until_its_lock_is_found_expired,
    ),
    Twin(
        "_exhausted",
        " and delivery_count >= (queue).max_delivery_count",
        "",
        test_failures.test_a_message_that_may_be_delivered_again_is_not_dead_lettered,
    ),
    Twin(
        "_exhausted",
        "and (expires_at is null or expires_at > pgqueue.clock())",
        "",
        test_failures.test_an_exhausted_message_that_has_expired_is_expired,
    ),
    Twin(
        "_record_error",
        " + 1 - queue.retain_errors",
        " - queue.retain_errors",
        test_failures.test_a_queue_retains_as_many_errors_as_it_was_asked_to,
    ),
    *(
        Twin(function, text, "", partial(test_failures.errors_are_deleted_with_their_message, end=end))
        for function, text, end in (
            (
                "_complete_any",
                (
                    "delete from pgqueue.failed_message as known\n     where known.queue_id = source.id"
                    " and known.sequence_number = _complete_any.sequence_number;"
                ),
                test_failures.completed,
            ),
            (
                "_delete_messages",
                (
                    "perform pgqueue._forget_failures(queue.id, array(\n        select message.sequence_number"
                    " from pgqueue.message where ctid = any (places) and lane & 1::smallint = 0::smallint));"
                ),
                test_failures.purged,
            ),
            ("purge_queue", "perform pgqueue._forget_failures(source.id, dead);", test_failures.dead_and_purged),
            (
                "_settle_dead_letters",
                (
                    "perform pgqueue._forget_failures(\n                source.id,"
                    " array(select sequence_number from pgqueue.dead_letter where ctid = any (held.places)));"
                ),
                test_failures.dead_and_completed,
            ),
            ("_delete_scheduled", "perform pgqueue._forget_failures(queue.id, removed);", test_failures.cancelled),
            (
                "_delete_scheduled",
                "perform pgqueue._forget_failures(queue.id, removed);",
                test_failures.rested_and_purged,
            ),
            ("drop_queue", "delete from pgqueue.failed_message where queue_id = dropped;", test_failures.dropped),
            (
                "receive_and_delete",
                (
                    "perform pgqueue._forget_failures(queue_id, array_agg(sequence_number))\n"
                    "       from unnest(received)\n      where lane % 2 = 0\n      group by queue_id;"
                ),
                test_failures.taken,
            ),
        )
    ),
    Twin(
        "receive",
        "deliveries < source.max_delivery_count",
        "true",
        test_failures.test_a_message_delivered_too_often_for_a_lowered_bound_is_not_received,
    ),
]
