"""Batches: locks, counts at commit, and the message for the end."""

from __future__ import annotations

from functools import partial

from tests.sql import test_batches
from tests.sql.twins.twin import Twin

every_way_out = test_batches.test_every_way_out_of_a_queue_ends_a_membership
at_the_same_instant = partial(test_batches.test_two_that_commit_at_the_same_instant, stripes=1)
completed = partial(every_way_out, settle=test_batches.complete, on_failure=False)
dead_lettered = partial(every_way_out, settle=test_batches.dead_letter, on_failure=True)
forwarded = partial(test_batches.test_a_member_that_is_forwarded_stays_in_its_batch, is_waiting=True)
sent_and_forwarded = partial(test_batches.test_a_member_that_is_forwarded_stays_in_its_batch, is_waiting=False)
not_overlooked = partial(
    test_batches.test_the_first_member_of_a_queue_is_not_overlooked,
    function="purge_queue",
    after="places := array(select",
    verb="purge_queue",
)
of_others = partial(test_batches.test_messages_of_other_transactions_are_no_members, held=False)
FRESH = "(select known.records_settlements from pgqueue.queue as known where known.id = queue.id)"

DEFERRED = """\
    if not exists (
        select from pg_trigger where tgrelid = 'pgqueue.batch_change'::regclass and tgname = 'count_at_commit'
    ) then
        create constraint trigger count_at_commit
            after insert on pgqueue.batch_change
            deferrable initially deferred"""
IMMEDIATE = """\
    drop trigger count_at_commit on pgqueue.batch_change;
    if true then
        create constraint trigger count_at_commit
            after insert on pgqueue.batch_change
            deferrable initially immediate"""

TWINS = [
    Twin("complete", "and not records_settlements", "", completed),
    Twin(
        "_complete_any",
        "and not source.records_settlements",
        "",
        partial(test_batches.test_members_that_are_stored_by_session_are_counted, settings={"fair": True}),
    ),
    Twin(
        "complete_batch",
        "and not records_settlements",
        "",
        partial(every_way_out, settle=test_batches.complete_many, on_failure=False),
    ),
    Twin("_delete_messages", FRESH, "queue.records_settlements", not_overlooked),
    Twin("_record_settlement", "if (select known.has_batches", "if not (select known.has_batches", completed),
    Twin(
        "alter_queue",
        "records_settlements = has_batches or",
        "records_settlements =",
        partial(test_batches.test_a_history_may_be_kept_beside_batches, when="before"),
    ),
    # Adding and closing
    Twin("close_batch", "for update", "for no key update", test_batches.test_closing_waits_for_transactions_that_add),
    Twin(
        "add_to_batch",
        "for key share",
        "",
        test_batches.test_adding_waits_for_a_transaction_that_closes_and_is_refused,
    ),
    Twin("_find_sent", "(message.xmin = whole or pgqueue._is_of_savepoint(message.xmin))", "true", of_others),
    Twin(
        "_find_sent",
        "or pgqueue._is_of_savepoint(message.xmin)",
        "",
        test_batches.test_members_and_closings_of_a_savepoint_are_undone_with_it,
    ),
    Twin("_find_sent", "while queue.forward_to is not null", "while false", sent_and_forwarded),
    # Counting
    Twin(
        "triggers",
        DEFERRED,
        IMMEDIATE,
        test_batches.test_an_open_transaction_that_has_settled_locks_no_counter,
    ),
    Twin(
        "_count_batch_changes",
        "set pending       = counted.pending + change.pending",
        "set pending       = (select pending from pgqueue.batch_stripe where batch_id = change.batch_id"
        " and stripe = change.stripe) + change.pending",
        at_the_same_instant,
    ),
    Twin(
        "_count_batch_changes",
        "counted.is_closed and counted.pending = 0",
        "counted.pending = 0",
        test_batches.test_a_batch_that_is_open_is_not_finished,
    ),
    Twin(
        "_count_batch_changes",
        "set open_stripes = open_stripes - change.stripes",
        "set open_stripes = (select open_stripes from pgqueue.batch where id = change.batch_id) - change.stripes",
        partial(test_batches.test_two_that_commit_at_the_same_instant, stripes=16),
    ),
    Twin(
        "_count_batch_changes",
        "order by batch_id, stripe",
        "order by min(id)",
        test_batches.test_stripes_are_locked_in_their_order,
    ),
    Twin(
        "drop_queue",
        "pgqueue._leave_batches(dropped,",
        "pgqueue._leave_batches(0,",
        partial(every_way_out, settle=test_batches.dropped, on_failure=False),
    ),
    Twin(
        "_remove_orphans",
        "when 'batch_member' then",
        "when 'none' then",
        test_batches.test_members_that_are_sent_while_their_queue_is_dropped_are_done_with_the_next_sweep,
    ),
    # Sending
    Twin(
        "_finish_batch",
        "and dead_lettered > 0",
        "",
        partial(every_way_out, settle=test_batches.complete, on_failure=True),
    ),
    Twin(
        "_finish_batch", "perform pgqueue._use(target);", "", test_batches.test_the_end_of_a_batch_is_a_use_of_its_queue
    ),
    Twin("_finish_batch", "batch.failure_number is not null and exists", "false and exists", dead_lettered),
    Twin(
        "_lock_held",
        "and scheduled_enqueue_time in (\n               pgqueue.batch_end(), "
        "pgqueue.batch_end() + interval '1 microsecond' * (1 + ('x' || left(batch::text, 8))::bit(32)::bigint))",
        "",
        test_batches.test_a_continuation_that_is_rescheduled_is_sent_at_that_time,
    ),
    Twin(
        "_lock_held",
        "and scheduled_enqueue_time in (",
        "and scheduled_enqueue_time >= least(",
        test_batches.test_a_message_that_waits_for_another_batch_has_left_the_first,
    ),
    Twin(
        "create_batch",
        "+ interval '1 microsecond' * (1 + ('x' || left(new_id::text, 8))::bit(32)::bigint)",
        "",
        test_batches.test_a_message_waits_for_the_end_of_one_batch_only,
    ),
    Twin(
        "_lock_held",
        "for update",
        "for update skip locked",
        test_batches.test_the_end_waits_for_one_who_cancels_the_continuation,
    ),
    Twin(
        "move_messages",
        "and scheduled_enqueue_time < pgqueue.batch_end()",
        "",
        test_batches.test_a_continuation_stays_where_it_waits,
    ),
    Twin(
        "move_messages",
        "pgqueue._keep_membership(source.id, target.id, array(",
        "pgqueue._keep_membership(source.id, source.id, array(",
        test_batches.test_a_member_that_is_moved_stays_in_its_batch,
    ),
    Twin("_move_to_queue", "arriving.numbers);", "'{}');", forwarded),
    Twin(
        "_drop_duplicates",
        "pgqueue._leave_batches(queue_id,",
        "pgqueue._leave_batches(0,",
        test_batches.test_a_member_that_is_a_duplicate_where_it_is_forwarded_is_done,
    ),
]
