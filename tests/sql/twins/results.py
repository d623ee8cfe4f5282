"""Outcomes: where each is written, when a NOTIFY is sent, and which roles may read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pgqueue.testing import Database
from tests.sql import test_results
from tests.sql.test_misuse import MONITOR
from tests.sql.twins.twin import Twin

KEPT = "if (select known.records_settlements from pgqueue.queue as known where known.id = queue.id) then"


def a_way_out(settle: Callable[..., None], *ended: str | None) -> Callable[[Database], None]:
    """The test of one way out of a queue."""
    test = test_results.test_every_way_out_of_a_queue_has_an_outcome
    return partial(test, settle=settle, ended=ended, is_kept=True)


deleted = a_way_out(test_results.purge, "DELETED", "PURGED")
a_result = partial(test_results.test_a_result_is_kept_with_the_completion, kept={}, came_back=False)

TWINS = [
    Twin("complete", "and not records_settlements", "", a_way_out(test_results.complete, "COMPLETED", None)),
    Twin("complete", "and complete.result is null", "", test_results.test_a_result_that_no_queue_keeps_is_refused),
    Twin(
        "complete_batch", "and not records_settlements", "", a_way_out(test_results.complete_batch, "COMPLETED", None)
    ),
    Twin("_complete_any", "elsif source.records_settlements then", "elsif false then", a_result),
    Twin("_record_settlement", "if queue.result_retention is not null then", "if false then", a_result),
    Twin(
        "_complete_any",
        "if result is not null and",
        "if false and",
        test_results.test_a_result_that_no_queue_keeps_is_refused,
    ),
    Twin("_delete_messages", KEPT, "if false then", deleted),
    Twin(
        "_delete_scheduled",
        KEPT,
        "if false then",
        test_results.test_a_scheduled_message_that_is_cancelled_has_an_outcome,
    ),
    Twin(
        "_move_to_dead_letters",
        KEPT,
        "if false then",
        a_way_out(test_results.dead_letter, "DEAD_LETTERED", "Invalid"),
    ),
    Twin(
        "_forward_dead_letters",
        "if (select records_settlements from pgqueue.queue where id = source.id) then",
        "if false then",
        test_results.test_a_message_whose_dead_letter_is_forwarded_has_an_outcome_in_both_queues,
    ),
    Twin(
        "receive_and_delete",
        "if source.records_settlements then",
        "if false then",
        a_way_out(test_results.receive_and_delete, "COMPLETED", None),
    ),
    Twin(
        "_keep_outcomes",
        "if bytes > queue.max_message_size then",
        "if false then",
        test_results.test_a_result_is_as_large_as_a_message_at_most,
    ),
    Twin(
        "_keep_outcomes",
        "set state = excluded.state, result = excluded.result,",
        "set",
        test_results.test_a_resubmitted_message_is_not_settled,
    ),
    Twin(
        "_notify_settled",
        "and waits_until > moment",
        "",
        test_results.test_a_settlement_notifies_only_while_someone_waits,
    ),
    Twin(
        "_notify_settled",
        "<> 'off'",
        "<> 'never'",
        test_results.test_a_transaction_that_is_to_be_prepared_does_not_notify,
    ),
    Twin("_notify_settled", "<= 100", "<= 101", test_results.test_a_large_batch_notifies_once),
    Twin(
        "_await_outcomes",
        " and pgqueue._permits('OUTCOME', known)",
        "",
        partial(test_results.test_a_sender_and_a_receiver_may_ask_and_a_monitor_may_not, right=MONITOR, may=False),
    ),
    Twin(
        "outcomes",
        "lane = fresh.lane and",
        "false and",
        test_results.test_many_are_asked_for_at_once,
    ),
    Twin(
        "outcomes",
        "lane % 2 = 0 and",
        "false and",
        test_results.test_a_resubmitted_message_is_not_settled,
    ),
    Twin(
        "outcomes",
        "from pgqueue.scheduled_message as scheduled\n                 where",
        "from pgqueue.scheduled_message as scheduled\n                 where false and",
        test_results.test_a_scheduled_message_that_is_cancelled_has_an_outcome,
    ),
    Twin("outcomes", "and settled_at > oldest", "", test_results.test_outcomes_are_forgotten_after_their_time),
    Twin(
        "_delete_old_records",
        "and settled_at <= moment - coalesce(queue.result_retention, interval '0')",
        "and settled_at <= moment - queue.result_retention",
        test_results.test_a_sweep_forgets_as_many_as_it_may_and_all_of_a_queue_that_keeps_none,
    ),
]
