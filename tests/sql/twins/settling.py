"""A settlement pins its message, concerns the queue that is named, and returns its outcome."""

from __future__ import annotations

from functools import partial
from typing import Any

from pgqueue.testing import Database
from tests.sql import test_dead_letter_queue, test_deliveries, test_fence, test_resolving, test_settling
from tests.sql.stage import Stage
from tests.sql.twins.twin import Twin


def pinned(database: Database, **options: Any) -> None:
    with Stage(database) as stage:
        test_fence.a_pinned_message_cannot_be_taken_over(stage, **options)


def resolved(database: Database, *, is_pinned: bool, retain_history: str | None = None) -> None:
    test_settling.test_the_result_of_a_settlement_shows_whether_its_savepoint_was_undone(
        database, verb="complete", options={}, retain_history=retain_history, is_pinned=is_pinned
    )


TWINS = [
    Twin("pin_batch", "            for update;", "            ;", partial(pinned, verb="pin_batch")),
    Twin("pin", "        for update;", "        ;", pinned),
    Twin(
        "_complete_delivery",
        "pg_current_xact_id_if_assigned() = pinned_in",
        "pg_current_xact_id_if_assigned() is not null",
        test_deliveries.test_a_message_is_completed_only_in_the_transaction_that_it_is_pinned_in,
    ),
    *(
        Twin(
            "_pin_delivery",
            "if release_advisory_locks then",
            f"if {replacement} then",
            partial(
                test_deliveries.test_a_pin_releases_the_advisory_locks_of_the_session_if_it_is_asked_to, release=release
            ),
        )
        for replacement, release in (("true", False), ("false", True))
    ),
    Twin("_lock_proven", "for update of message) as fresh", ") as fresh", partial(pinned, priority=1)),
    Twin("_lock_proven", "for update) as returned", ") as returned", partial(pinned, came_back=True)),
    Twin(
        "_pin",
        "if cardinality(held) = 0 then",
        "if false then",
        test_fence.test_a_pin_is_refused_before_any_work_is_done,
    ),
    Twin("complete", "if stamp = whole::xid then", "if true then", partial(resolved, is_pinned=False)),
    Twin("_settling_xid", "select max(", "select min(", partial(resolved, is_pinned=True)),
    Twin(
        "resolve",
        "then 'aborted' else coalesce(outcome, 'committed') end",
        "then 'committed' else coalesce(outcome, 'committed') end",
        test_dead_letter_queue.test_a_completion_undone_to_a_savepoint_counts_as_aborted,
    ),
    Twin(
        "resolve",
        "between 1 and 2147483647",
        "between 1 and 0",
        test_resolving.test_a_settlement_counts_although_the_session_has_delivered_the_message_again,
    ),
    Twin(
        "resolve",
        "between 1 and 2147483647",
        "between 0 and 4294967295",
        test_resolving.test_a_settlement_in_a_session_that_a_savepoint_has_undone_is_not_committed_with_the_rest,
    ),
    Twin(
        "resolve",
        "(is_dead or not source.requires_session or exists (",
        "(true or exists (",
        test_resolving.test_a_session_that_was_released_proves_no_settlement,
    ),
    Twin(
        "resolve",
        "else 'gone' end;",
        "else 'committed' end;",
        test_settling.test_a_settlement_without_a_known_transaction_is_resolved_by_the_message,
    ),
    Twin(
        "resolve",
        "elsif server_run <> pgqueue.server_run() then",
        "elsif false then",
        test_resolving.test_a_failover_may_have_forgotten_the_lock,
    ),
    Twin(
        "resolve",
        "elsif server_run <> pgqueue.server_run() then",
        "elsif left(server_run, 8) <> left(pgqueue.server_run(), 8) then",
        test_resolving.test_a_crash_leaves_the_lock_as_proof,
    ),
    Twin(
        "resolve",
        "coalesce(left(server_run, 8) = left(pgqueue.server_run(), 8), true)",
        "true",
        test_resolving.test_a_failover_may_have_forgotten_the_lock,
    ),
    Twin(
        "resolve",
        "case when pgqueue.clock() < locked_until",
        "case when locked_until is not null",
        test_resolving.test_a_crash_leaves_the_lock_as_proof,
    ),
    Twin(
        "resolve",
        "if outcome = 'aborted' then",
        "if outcome = 'aborted' and server_run = pgqueue.server_run() then",
        test_resolving.test_in_another_run_an_id_that_was_rolled_back_committed_nothing,
    ),
    Twin(
        "resolve",
        "(is_dead or not exists (",
        "(is_dead or true or not exists (",
        test_resolving.test_a_message_that_is_there_without_the_lock_was_not_completed,
    ),
    Twin(
        "resolve",
        "and not pgqueue._is_deferred(lane)",
        "",
        partial(test_resolving.test_a_lock_that_lasts_was_ended_by_its_holder, verb="defer", options={}),
    ),
    Twin(
        "_notify",
        "coalesce(current_setting('pgqueue.notify', true), '') <> 'off'\n       and ",
        "",
        test_settling.test_a_transaction_without_notifications_can_be_prepared,
    ),
    *(
        Twin(
            verb,
            f"name = {verb}.queue and {rest}",
            f"id = (select min(id) from pgqueue.queue where name <> {verb}.queue) and {rest}",
            partial(test_fence.test_no_verb_finds_a_message_under_the_name_of_another_queue, verb=verb, options={}),
        )
        for verb, rest in (("pin", "pgqueue"), ("complete", "not records_settlements"), ("abandon", "pgqueue"))
    ),
    Twin(
        "renew_lock",
        "name = renew_lock.queue",
        "true",
        partial(test_fence.test_no_verb_finds_a_message_under_the_name_of_another_queue, verb="renew_lock", options={}),
    ),
    Twin(
        "complete_batch",
        "queue_id = (select id from pgqueue.queue\n                                where name = complete_batch.queue",
        "queue_id in (select id from pgqueue.queue where true",
        partial(test_fence.test_no_batch_finds_a_message_under_the_name_of_another_queue, verb="complete_batch"),
    ),
    Twin(
        "pin_batch",
        "queue_id = (select id from pgqueue.queue where name = pin_batch.queue",
        "queue_id in (select id from pgqueue.queue where true",
        partial(test_fence.test_no_batch_finds_a_message_under_the_name_of_another_queue, verb="pin_batch"),
    ),
    Twin(
        "pin_batch",
        "if many = cardinality(sequence_numbers) and many = cardinality(lock_tokens) then",
        "if many > 0 then",
        partial(
            test_settling.test_a_lock_that_is_lost_neither_hides_nor_undoes_the_others, verb="pin_batch", options={}
        ),
    ),
    Twin(
        "pin_batch",
        " and many = cardinality(lock_tokens) then",
        " then",
        partial(test_settling.test_a_token_too_many_is_refused_even_when_all_are_found, verb="pin_batch"),
    ),
    Twin(
        "renew_lock_batch",
        "name = renew_lock_batch.queue",
        "true",
        partial(test_fence.test_no_batch_finds_a_message_under_the_name_of_another_queue, verb="renew_lock_batch"),
    ),
    Twin(
        "renew_lock_batch",
        " and many = cardinality(lock_tokens) then",
        " then",
        partial(test_settling.test_a_token_too_many_is_refused_even_when_all_are_found, verb="renew_lock_batch"),
    ),
    Twin(
        "abandon",
        "if num_nonnulls(delay, properties, error) = 0 then",
        "if properties is null then",
        test_settling.test_a_message_abandoned_with_a_delay_comes_when_its_time_has_come,
    ),
    Twin(
        "abandon",
        "if num_nonnulls(delay, properties, error) = 0 then",
        "if delay is null then",
        test_settling.test_properties_given_when_abandoning_are_merged,
    ),
    Twin(
        "abandon",
        "if awaited then",
        "if false then",
        partial(test_settling.test_waiting_consumers_are_notified_of_an_abandoned_message, verb="abandon"),
    ),
    Twin(
        "_redeliver",
        "case when settled then null else lock_token end",
        "lock_token",
        partial(
            test_settling.test_a_lock_that_is_lost_neither_hides_nor_undoes_the_others, verb="abandon_batch", options={}
        ),
    ),
    Twin(
        "abandon",
        "               lock_token   = null,\n",
        "",
        partial(test_fence.test_no_verb_accepts_a_lock_that_was_settled, verb="complete", options={}),
    ),
    Twin(
        "_redeliver",
        "case when settled then null else lock_token end",
        "null",
        partial(
            test_fence.test_the_token_counts_even_when_the_message_was_put_back_for_redelivery,
            verb="complete",
            options={},
        ),
    ),
    Twin(
        "_uncount_delivery",
        "delivery_count - 1",
        "delivery_count",
        test_settling.test_released_messages_are_not_counted_and_come_before_fresh_ones,
    ),
    Twin(
        "release_batch",
        "settled => true",
        "settled => false",
        test_settling.test_a_released_message_has_no_holder,
    ),
]
