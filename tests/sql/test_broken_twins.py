"""Take out any one of the conditions on which the promises rest, and a test fails.

A twin is a function of the engine with one piece of its text taken out or replaced. The text must be there, so this
table cannot rot; and of the conditions it is about, it must name all there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgqueue.testing import Database
from pgqueue.testing.database import created
from pgqueue.testing.plugin import SharedServer
from tests.sql import (
    test_claims,
    test_cursors,
    test_dead_letter_queue,
    test_dead_letters,
    test_deferring,
    test_due,
    test_duplicates,
    test_effects,
    test_expiring,
    test_fence,
    test_history,
    test_limits,
    test_locks,
    test_races,
    test_scheduling,
    test_search_path,
    test_sequence,
    test_settling,
    test_staging,
    test_sweep,
    test_watermark,
)
from tests.sql.stage import LOCK_DURATION, SECOND, Stage

FUNCTIONS = Path(__file__).parents[2] / "sql" / "functions"

TOKEN_CHECK = re.compile(r"lock_token = (?:token|lock_tokens\[|(?!dead_letter\.)[a-z_]+\.lock_token)")
SKIP_LOCKED = re.compile(r"skip locked")
FENCE = re.compile(r"_find_consumer\(consumer, epoch\)|_check_epoch\(known, epoch\)|_find_open_claim\(known, claim\)")


WINDOW = "sent_message_id.sent_at <= moment - target.duplicate_detection_history_time_window"

# What the statements of _lock_dead_letters have in common.
ASKED_FOR = "             where queue_id = queue.id and sequence_number = any (sequence_numbers)"

# Transactions of other tests on the same server are awaited too, and when one ends just then, what was passed is looked
# through once more: that covers up what a twin has lost.
OFTEN = 50


@dataclass(frozen=True)
class Twin:
    """A function, what of its text is replaced by what, and the test that must notice."""

    function: str
    text: str
    replacement: str
    caught_by: Callable[[Database], None]
    attempts: int = 1

    @property
    def original(self) -> str:
        return source(self.function)

    @property
    def broken(self) -> str:
        return self.original.replace(self.text, self.replacement)

    def __str__(self) -> str:
        return f"{self.function}: {' '.join(self.text.split())}"


def pinned(database: Database, **options: Any) -> None:
    with Stage(database) as stage:
        test_fence.a_pinned_message_cannot_be_taken_over(stage, **options)


def numbered(database: Database, *, many: bool) -> None:
    with Stage(database) as stage:
        test_watermark.a_number_is_drawn_by_a_transaction_that_has_an_id(stage, many=many)


FRESH = "position < upper(held.fresh) and lock_token = held.lock_token\n               for update"
RETURNED = "sequence_number < upper(held.numbers) and lock_token = held.lock_token\n               for update"

CLAIMS = [
    Twin(
        "_lock_claim",
        f"{FRESH});",
        "position < upper(held.fresh)\n               for update);",
        test_claims.test_what_others_have_taken_meanwhile_is_lost_and_said,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED});",
        "sequence_number < upper(held.numbers)\n               for update);",
        test_claims.test_what_came_back_and_others_have_taken_is_lost_too,
    ),
    Twin(
        "_lock_claim",
        f"{FRESH} skip locked",
        "position < upper(held.fresh)\n               for update skip locked",
        test_claims.test_what_others_have_taken_is_not_renewed,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED} skip locked",
        "sequence_number < upper(held.numbers)\n               for update skip locked",
        test_claims.test_what_came_back_and_others_have_taken_is_not_renewed,
    ),
]


def overtaken(verb: str) -> Callable[[Database], None]:
    return partial(test_claims.test_who_was_overtaken_settles_nothing_and_is_told, verb=verb)


THE_CURRENT_EPOCH = "(select max(known.epoch) from pgqueue.consumer as known)"

FENCES = [
    *(
        Twin(verb, "consumer(consumer, epoch)", f"consumer(consumer, {THE_CURRENT_EPOCH})", overtaken(verb))
        for verb in ("claim_batch", "complete_claim", "release_claim", "drop_consumer")
    ),
    *(
        Twin(verb, "perform pgqueue._check_epoch(known, epoch);", "", overtaken(verb))
        for verb in ("renew_claim", "check_claim")
    ),
    Twin("_find_consumer", "perform pgqueue._check_epoch(known, epoch);", "", overtaken("complete_claim")),
    *(
        Twin(
            verb,
            "claim(known, claim)",
            "claim(known, known.claim)",
            test_claims.test_what_is_said_of_a_settled_claim_touches_no_other,
        )
        for verb in ("renew_claim", "check_claim", "complete_claim", "release_claim")
    ),
]

CLAIMS_BY_NAME = [
    Twin("_check_epoch", "if epoch <> known.epoch then", "if false then", overtaken("complete_claim")),
    Twin("_check_epoch", "epoch <> known.epoch", "epoch < known.epoch - 1", overtaken("complete_claim")),
    Twin(
        "_check_epoch",
        "if epoch is null then",
        "if false then",
        partial(test_claims.test_an_epoch_must_be_named, verb="complete_claim"),
    ),
    Twin(
        "_find_open_claim",
        "if number is null or number > known.claim then",
        "if false then",
        partial(test_claims.test_a_claim_must_be_named_that_was_made, verb="complete_claim"),
    ),
    Twin(
        "_find_open_claim",
        " and settled_at is null",
        "",
        test_claims.test_what_is_said_of_a_settled_claim_touches_no_other,
    ),
    Twin(
        "check_claim",
        "if held.claim is null then",
        "if false then",
        test_claims.test_a_claim_is_checked_while_a_transaction_completes_it,
    ),
    Twin("begin_claim", "perform pgqueue.renew_claim", "-- perform pgqueue.renew_claim", overtaken("begin_claim")),
    Twin(
        "begin_claim",
        " and settled_at is null",
        "",
        test_claims.test_what_is_said_of_a_settled_claim_touches_no_other,
    ),
    Twin("attach_consumer", "greatest(known.epoch + 1, ", "(", test_claims.test_no_epoch_comes_again),
    Twin("attach_consumer", "extract(epoch from pgqueue.clock())", "0", test_claims.test_no_epoch_comes_again),
    Twin(
        "attach_consumer",
        "name = attach_consumer.consumer for update",
        "name = attach_consumer.consumer",
        test_claims.test_who_takes_over_waits_for_the_transaction_that_completes_a_claim,
    ),
    Twin(
        "drop_consumer",
        "perform pgqueue.release_claim(consumer, known.claim, epoch);",
        "",
        test_claims.test_what_a_dropped_consumer_held_is_given_back,
    ),
]

REFUSES_TO_SEND = """    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
"""

PUBLISHED = [
    Twin(
        "publish",
        "    if publisher is not null then\n        select * into last",
        f"{REFUSES_TO_SEND}    if publisher is not null then\n        select * into last",
        test_staging.test_that_a_part_was_sent_is_said_though_the_queue_takes_nothing_any_more,
    ),
    Twin(
        "publish",
        "coalesce(keep, interval '30 days')",
        "interval '30 days'",
        test_staging.test_a_part_is_remembered_as_long_as_was_asked_for,
    ),
]

ALONE = {"pin": {}, "complete": {}, "abandon": {}, "renew_lock": {"lock_duration": 2 * LOCK_DURATION}}

TOKENS = [
    *CLAIMS,
    *(
        Twin(
            verb,
            f" and lock_token = {verb}.lock_token",
            "",
            partial(test_fence.test_no_verb_accepts_a_token_that_was_never_given, verb=verb, options=options),
        )
        for verb, options in ALONE.items()
    ),
    Twin(
        "pin_batch",
        "and lock_token = lock_tokens[array_position(sequence_numbers, position)]",
        "",
        partial(test_fence.test_no_batch_accepts_a_token_that_was_never_given, verb="pin_batch"),
    ),
    Twin(
        "renew_lock_batch",
        "and lock_token = lock_tokens[array_position(sequence_numbers, position)]",
        "",
        test_fence.test_a_late_worker_cannot_renew_a_redelivered_message,
    ),
    Twin(
        "_lock_proven",
        "on position = number and lock_token = token",
        "on position = number",
        test_fence.test_a_late_worker_cannot_complete_a_redelivered_message,
    ),
    Twin(
        "_lock_proven",
        "on sequence_number = number and lock_token = token",
        "on sequence_number = number",
        test_fence.test_a_late_worker_cannot_complete_a_message_that_came_back_and_was_redelivered,
    ),
    Twin(
        "complete_batch",
        "and lock_token = lock_tokens[pg_catalog.array_position(sequence_numbers, position)]",
        "",
        test_fence.test_a_late_batch_cannot_complete_a_redelivered_message,
    ),
    Twin(
        "_find_by_token",
        "on position = number and lock_token = token",
        "on position = number",
        test_fence.test_a_late_worker_cannot_renew_a_redelivered_message,
    ),
    Twin(
        "_find_by_token",
        "on sequence_number = number and lock_token = token",
        "on sequence_number = number",
        test_fence.test_a_late_worker_cannot_renew_a_message_that_came_back_and_was_redelivered,
    ),
    Twin(
        "_lock_unheld",
        "where message.lock_token = found.lock_token",
        "",
        test_fence.test_a_renewal_that_meets_a_redelivery_half_way_does_not_renew_it,
    ),
    Twin(
        "renew_lock_batch",
        "on lock.sequence_number = number and lock.lock_token = token",
        "on lock.sequence_number = number",
        partial(
            test_settling.test_a_message_that_was_received_twice_is_settled_for_its_last_holder_only,
            verb="renew_lock_batch",
            options={},
        ),
    ),
    Twin(
        "_lock_dead_letters",
        f"and lock_token = token\n{ASKED_FOR}\n               for update of dead_letter skip locked",
        f"\n{ASKED_FOR}\n               for update of dead_letter skip locked",
        test_dead_letter_queue.test_a_renewal_that_meets_a_redelivery_half_way_does_not_renew_it,
    ),
    Twin(
        "_lock_dead_letters",
        f"and lock_token = token\n{ASKED_FOR}\n               for update of dead_letter)",
        f"\n{ASKED_FOR}\n               for update of dead_letter)",
        partial(test_dead_letter_queue.test_a_stale_token_is_refused_and_waits_for_nobody, verb="complete", options={}),
    ),
    Twin(
        "_lock_dead_letters",
        "            on sequence_number = number and lock_token = token",
        "            on sequence_number = number",
        partial(test_dead_letter_queue.test_a_stale_token_is_refused_and_waits_for_nobody, verb="complete", options={}),
    ),
    Twin(
        "resolve",
        "and dead_letter.lock_token = resolve.lock_token",
        "",
        test_dead_letter_queue.test_a_settlement_is_resolved_after_somebody_else_has_received_the_dead_letter,
    ),
]

WAITS = [
    Twin("receive", " skip locked", "", test_races.test_two_receivers_never_get_the_same_message),
    Twin(
        "_lock_unheld", " skip locked", "", test_races.test_a_renewal_does_not_wait_for_the_completion_that_is_under_way
    ),
    *(
        Twin(verb, " skip locked", "", test_locks.test_a_renewal_does_not_wait_for_an_open_transaction)
        for verb in ("renew_lock", "renew_lock_batch")
    ),
    Twin(
        "resolve",
        " skip locked",
        "",
        test_dead_letter_queue.test_where_nobody_heard_of_a_transaction_the_dead_letter_is_looked_at,
    ),
    Twin("_advance_cursors", " skip locked", "", test_races.test_a_turn_is_taken_by_one_session_at_a_time),
    Twin(
        "_cursor_limit",
        " skip locked",
        "",
        test_cursors.test_a_claim_that_is_rolled_back_behind_the_cursors_of_others_is_found,
    ),
    Twin(
        "_redeliver_watched",
        "for update skip locked",
        "for update",
        test_races.test_two_who_put_back_expired_locks_do_not_wait_for_each_other,
    ),
    Twin(
        "_redeliver_watched",
        "for update of message skip locked",
        "for update of message",
        test_races.test_who_watches_skips_a_message_whose_owner_still_completes_it,
    ),
    Twin(
        "_activate_scheduled",
        " skip locked",
        "",
        test_races.test_two_who_activate_scheduled_messages_do_not_wait_for_each_other,
    ),
    Twin(
        "purge_queue",
        "limit max_messages\n           for update skip locked",
        "limit max_messages\n           for update",
        test_races.test_a_purge_skips_what_is_being_completed,
    ),
    Twin(
        "purge_queue",
        "limit max_messages - purged\n                      for update skip locked",
        "limit max_messages - purged\n                      for update",
        test_races.test_a_purge_skips_what_is_being_activated,
    ),
    Twin(
        "_repair_watch",
        " skip locked",
        "",
        test_sweep.test_a_sweep_does_not_wait_for_a_turn_that_looks_at_what_was_overlooked,
    ),
    Twin("_remove_orphans", " skip locked", "", test_sweep.test_a_sweep_skips_the_orphans_that_somebody_holds),
    Twin("_sweep_queue", " skip locked", "", test_sweep.test_a_completion_that_is_under_way_is_skipped),
    Twin("_subscribe", " skip locked", "", test_races.test_who_asks_to_be_told_does_not_wait_for_who_changes_the_queue),
    Twin("resubmit", " skip locked", "", test_races.test_two_who_resubmit_never_bring_back_the_same_message),
    Twin(
        "_refuse_old_snapshot",
        "position = _refuse_old_snapshot.sequence_number\n            for update skip locked",
        "position = _refuse_old_snapshot.sequence_number\n            for update",
        partial(test_races.test_a_lost_lock_is_called_lost_while_its_next_holder_completes, came_back=False),
    ),
    Twin(
        "_refuse_old_snapshot",
        "lane % 2 = 0 and sequence_number = _refuse_old_snapshot.sequence_number\n            for update skip locked",
        "lane % 2 = 0 and sequence_number = _refuse_old_snapshot.sequence_number\n            for update",
        partial(test_races.test_a_lost_lock_is_called_lost_while_its_next_holder_completes, came_back=True),
    ),
    Twin(
        "_refuse_old_snapshot",
        "where queue_id = queue.id and sequence_number = _refuse_old_snapshot.sequence_number\n"
        "            for update skip locked",
        "where queue_id = queue.id and sequence_number = _refuse_old_snapshot.sequence_number\n            for update",
        test_dead_letter_queue.test_a_lost_lock_is_called_lost_while_its_next_holder_completes,
    ),
    Twin(
        "_lock_claim",
        f"{FRESH} skip locked",
        FRESH,
        test_claims.test_locks_are_renewed_and_those_of_an_open_transaction_are_not_waited_for,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED} skip locked",
        RETURNED,
        test_claims.test_what_came_back_and_an_open_transaction_holds_is_not_waited_for,
    ),
    Twin("discard_staged", " skip locked", "", test_staging.test_what_is_being_published_is_not_waited_for),
    Twin(
        "_delete_old_records",
        "limit max_records - ids - effects\n                  for update skip locked",
        "limit max_records - ids - effects\n                  for update",
        test_staging.test_a_sweep_skips_a_part_that_somebody_looks_at,
    ),
    Twin("_expire_due", " skip locked", "", test_expiring.test_a_sweep_skips_what_a_receiver_is_removing),
    Twin(
        "_delete_old_records",
        "limit max_records\n                  for update skip locked",
        "limit max_records\n                  for update",
        test_duplicates.test_a_sweep_skips_an_id_that_somebody_sends_again,
    ),
    Twin(
        "_delete_old_records",
        "limit max_records - ids\n                  for update skip locked",
        "limit max_records - ids\n                  for update",
        test_effects.test_a_sweep_skips_an_effect_that_somebody_records_again,
    ),
    Twin(
        "_lock_dead_letters",
        " skip locked",
        "",
        test_dead_letter_queue.test_a_renewal_does_not_wait_for_the_completion_that_is_under_way,
    ),
    Twin(
        "_purge_dead_letters",
        " skip locked",
        "",
        test_dead_letter_queue.test_a_purge_and_a_resubmission_skip_each_other,
    ),
    Twin(
        "receive_dead_letters",
        " skip locked",
        "",
        test_dead_letter_queue.test_two_receivers_never_get_the_same_dead_letter,
    ),
    Twin(
        "receive_deferred", " skip locked", "", test_deferring.test_what_others_hold_is_not_received_and_not_waited_for
    ),
]

PINNING = [
    Twin("pin_batch", "            for update;", "            ;", partial(pinned, verb="pin_batch")),
    Twin("pin", "        for update;", "        ;", pinned),
    Twin("_lock_proven", "for update of message) as fresh", ") as fresh", partial(pinned, priority=1)),
    Twin("_lock_proven", "for update of message) as returned", ") as returned", partial(pinned, came_back=True)),
    Twin(
        "_pin",
        "if pg_catalog.cardinality(held) = 0 then",
        "if false then",
        test_fence.test_a_pin_is_refused_before_any_work_is_done,
    ),
]

WATERMARK = [
    Twin("send", ":= pg_current_xact_id()", ":= '0'", partial(numbered, many=False), OFTEN),
    Twin("send_batch", ":= pg_current_xact_id()", ":= '0'", partial(numbered, many=True), OFTEN),
    Twin(
        "abandon",
        ":= pg_current_xact_id()",
        ":= '0'",
        test_watermark.test_a_number_is_drawn_by_a_transaction_that_has_an_id_when_a_message_is_abandoned,
        OFTEN,
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
        test_watermark.test_what_is_committed_between_a_scan_and_its_proof_is_not_passed,
    ),
    Twin(
        "_is_transaction_over",
        "if pg_snapshot_xmin(pg_current_snapshot()) >= horizon_xid then",
        "if true then",
        test_watermark.test_a_message_sent_before_and_committed_after_others_is_received_at_once,
    ),
    Twin(
        "_is_transaction_over",
        "return not exists (",
        "return true or not exists (",
        test_watermark.test_a_message_sent_before_and_committed_after_others_is_received_at_once,
    ),
    Twin(
        "_next_xid",
        "perform pg_logical_emit_message(true, 'pgqueue', ''::text);",
        "",
        test_watermark.test_a_sender_newer_than_all_that_have_ended_is_waited_for_too,
        OFTEN,
    ),
    Twin(
        "_await_open_transactions",
        "where xid < progress.horizon_xid",
        "where false",
        test_watermark.test_what_a_long_sender_brings_is_found_by_a_session_that_was_never_there,
        OFTEN,
    ),
    Twin(
        "_advance_cursors",
        "was     := pgqueue._watch_late_commits(was, open);",
        "",
        test_watermark.test_a_sender_that_is_open_long_does_not_stop_the_queue,
        OFTEN,
    ),
    Twin(
        "_watch_late_commits",
        "where xid <> all (open));",
        "where open = '{}');",
        test_watermark.test_one_long_transaction_does_not_hide_what_another_brings,
        OFTEN,
    ),
    Twin(
        "_advance_cursors",
        "pgqueue._watch_passed(was, was.cursor, ",
        "(",
        test_cursors.test_expired_locks_that_all_cursors_have_passed_come_back_within_a_second,
        OFTEN,
    ),
    Twin(
        "_advance_cursors",
        " or horizon_taken_at > pgqueue.clock()",
        "",
        test_watermark.test_a_clock_that_went_back_stops_no_turn,
        OFTEN,
    ),
    Twin(
        "_advance_cursors",
        "and pgqueue._repair_watch(queue.id, 5000) = 5000 then",
        "and false then",
        test_watermark.test_what_was_put_under_watch_before_the_clock_went_back_is_found,
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
        test_sweep.test_a_receive_mends_the_sequence_when_it_meets_a_number_in_use,
    ),
    Twin(
        "_remove_orphans",
        "from pgqueue.dropped_queue as dropped",
        "from (select distinct queue_id from pgqueue.message) as dropped",
        test_sweep.test_what_belongs_to_no_queue_yet_is_left_alone,
    ),
    Twin(
        "receive",
        "abs(extract(epoch from moment)::double precision - scan[1]::double precision)",
        "(extract(epoch from moment)::double precision - scan[1]::double precision)",
        test_watermark.test_a_busy_session_takes_turns_when_the_clock_went_back,
    ),
    Twin(
        "receive",
        "exit when not came_back and scan[2:] operator(pg_catalog.=) passed;",
        "exit when not came_back;",
        test_cursors.test_what_was_given_up_is_found_at_once_by_a_receive_that_finds_nothing_else,
    ),
    Twin(
        "_load_scan",
        "when next.is_free then",
        "when false then",
        test_cursors.test_a_session_that_has_overtaken_nothing_cannot_keep_others_from_what_was_given_up,
    ),
    Twin(
        "_cursor_limit",
        "and locked_until is null",
        "and false",
        test_cursors.test_a_turn_does_not_pass_what_is_free,
    ),
    Twin(
        "_sweep_queue",
        "handled := handled + pgqueue._repair_watch(queue.id, max_messages - handled);",
        "",
        test_sequence.test_what_no_turn_can_notice_the_next_sweep_mends,
    ),
    Twin(
        "_sweep_queue",
        "handled := handled + pgqueue._repair_watch(",
        "perform pgqueue._repair_watch(",
        test_sweep.test_a_sweep_that_puts_back_what_was_overlooked_says_whether_there_is_more,
    ),
    Twin(
        "_is_sequence_behind",
        "if pgqueue._highest_number_in_use(known) > last then",
        "if false then",
        test_sequence.test_a_sweep_puts_the_sequence_above_every_number_in_use,
    ),
    Twin(
        "_repair_sequence",
        "where cursor > 0 or horizon_xid <> all_open;",
        "where cursor > 0;",
        test_sequence.test_who_sends_while_a_cursor_that_has_not_moved_is_mended_is_awaited,
    ),
    Twin(
        "_repair_sequence",
        "where horizon > last_number and (cursor",
        "where (cursor",
        test_sequence.test_the_sequence_is_mended_while_another_queue_is_busy,
    ),
    Twin(
        "_repair_sequence",
        "1000000 +",
        "",
        test_sequence.test_numbers_that_others_draw_while_the_sequence_is_mended_are_not_handed_out_again,
    ),
]


def resolved(database: Database, *, is_pinned: bool, retain_history: str | None = None) -> None:
    test_settling.test_what_a_settlement_returns_tells_whether_its_savepoint_was_undone(
        database, verb="complete", options={}, retain_history=retain_history, is_pinned=is_pinned
    )


OUTCOMES = [
    Twin("complete", "if stamp = whole::pg_catalog.xid then", "if true then", partial(resolved, is_pinned=False)),
    Twin("_settling_xid", "select max(", "select min(", partial(resolved, is_pinned=True)),
    Twin(
        "resolve",
        "then 'aborted' else coalesce(outcome, 'committed') end",
        "then 'committed' else coalesce(outcome, 'committed') end",
        test_dead_letter_queue.test_a_completion_undone_to_a_savepoint_counts_as_aborted,
    ),
    Twin(
        "resolve",
        "        return 'gone';",
        "        return 'committed';",
        test_settling.test_where_nobody_heard_of_a_transaction_the_message_is_looked_at,
    ),
    Twin(
        "_notify",
        "where coalesce(current_setting('pgqueue.notify', true), '') <> 'off'",
        "",
        test_settling.test_a_transaction_that_wakes_nobody_can_be_prepared,
    ),
]

THE_REST = [
    Twin("_due_in", "awaited <> '{}'", "false", test_due.test_while_a_sender_is_awaited_it_is_looked_again_soon),
    *(
        Twin(
            "_due_in",
            condition,
            "false",
            partial(test_due.test_while_something_is_to_be_mended_it_is_looked_again_soon, change=change),
        )
        for condition, change in [
            ("horizon > pgqueue._last_number_drawn()", test_due.SEQUENCE_WENT_BACK),
            ("horizon_taken_at > moment + interval '1 second'", test_due.CLOCK_WENT_BACK),
        ]
    ),
    Twin(
        "_due_in",
        "message.position > progress.cursor",
        "false",
        test_due.test_while_a_lock_is_not_under_watch_it_is_looked_again_soon,
    ),
    Twin(
        "_due_in",
        "source.lock_duration < interval '5 seconds'",
        "false",
        test_due.test_where_all_locks_are_short_it_is_looked_again_soon,
    ),
    Twin("_due_in", "select min(due)", "select max(null::timestamptz)", test_due.test_it_is_known_when_a_lock_runs_out),
    Twin(
        "_due_in",
        "select min(scheduled_enqueue_time)",
        "select max(scheduled_enqueue_time)",
        test_due.test_the_earliest_counts,
    ),
    Twin(
        "_notify_early",
        "and queue.lock_duration >= interval '5 seconds'",
        "",
        test_due.test_where_all_locks_are_short_they_ring_no_bell,
    ),
    Twin(
        "_notify_early",
        "lock_duration < interval '5 seconds'",
        "true",
        partial(
            test_due.test_a_lock_that_lasts_rings_no_bell, lock=test_due.renewed_together_for, time=LOCK_DURATION / 2
        ),
    ),
    Twin(
        "_notify_early",
        "and queue.awaited_until > pgqueue.clock()",
        "",
        partial(
            test_due.test_who_waits_is_told_of_what_is_due_soon,
            step=partial(test_due.locked_for, time=SECOND),
            awaited=False,
        ),
    ),
    *(
        Twin(
            verb,
            f"perform pgqueue._notify_early(source, {verb}.lock_duration);",
            "null;",
            partial(test_due.test_who_waits_is_told_of_what_is_due_soon, step=partial(step, time=SECOND), awaited=True),
        )
        for verb, step in [("receive", test_due.locked_for), ("renew_lock_batch", test_due.renewed_together_for)]
    ),
    Twin(
        "renew_claim",
        "perform pgqueue._notify_early(source, lock_duration);",
        "null;",
        test_claims.test_who_waits_is_told_of_a_claim_that_is_shortened,
    ),
    Twin(
        "_redeliver_watched",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_locks.test_a_renewed_lock_is_not_returned_early_by_those_who_watch_it,
    ),
    Twin(
        "_extend_locks",
        "and watch.due > until",
        "and false",
        partial(test_locks.test_a_lock_that_was_shortened_is_noticed_in_time, verb="renew_lock"),
    ),
    *(
        Twin(
            verb,
            f"and greatest(locked_until, moment) < moment + coalesce({verb}.lock_duration, source.lock_duration)",
            "",
            partial(test_locks.test_a_lock_that_was_shortened_is_noticed_in_time, verb=verb),
        )
        for verb in ("renew_lock", "renew_lock_batch")
    ),
    Twin(
        "renew_lock",
        "greatest(locked_until, moment) <",
        "locked_until <",
        test_locks.test_a_lock_that_has_expired_is_not_renewed_for_less_than_no_time,
    ),
    *(
        Twin(
            verb,
            f"queue_id = (select id from pgqueue.queue where name = {verb}.queue",
            "queue_id in (select id from pgqueue.queue where true",
            partial(test_fence.test_no_verb_finds_a_message_under_the_name_of_another_queue, verb=verb, options={}),
        )
        for verb in ("pin", "complete", "abandon")
    ),
    Twin(
        "renew_lock",
        "name = renew_lock.queue",
        "true",
        partial(test_fence.test_no_verb_finds_a_message_under_the_name_of_another_queue, verb="renew_lock", options={}),
    ),
    Twin(
        "complete_batch",
        "queue_id = (select id from pgqueue.queue where name = complete_batch.queue",
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
        "if many = cardinality(sequence_numbers) and many = cardinality(lock_tokens) then",
        "if many > 0 then",
        test_locks.test_a_batch_of_which_some_came_back_is_renewed,
    ),
    Twin(
        "renew_lock_batch",
        " and many = cardinality(lock_tokens) then",
        " then",
        partial(test_settling.test_a_token_too_many_is_refused_even_when_all_are_found, verb="renew_lock_batch"),
    ),
    Twin(
        "abandon",
        "if pg_catalog.num_nonnulls(delay, properties) = 0 then",
        "if properties is null then",
        test_settling.test_a_message_abandoned_with_a_delay_comes_when_its_time_has_come,
    ),
    Twin(
        "abandon",
        "if pg_catalog.num_nonnulls(delay, properties) = 0 then",
        "if delay is null then",
        test_settling.test_properties_given_when_abandoning_are_merged,
    ),
    Twin(
        "abandon",
        "if awaited then",
        "if false then",
        partial(test_settling.test_who_waits_is_told_of_a_message_that_is_abandoned, verb="abandon"),
    ),
    Twin(
        "receive",
        "            moment := pgqueue.clock();       -- a turn may have waited",
        "            -- a turn may have waited",
        partial(test_locks.test_a_lock_that_is_taken_after_a_long_turn_lasts_as_long_as_any, when="before it scans"),
    ),
    Twin(
        "receive",
        "            moment := pgqueue.clock();\n",
        "",
        partial(
            test_locks.test_a_lock_that_is_taken_after_a_long_turn_lasts_as_long_as_any, when="after it found nothing"
        ),
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
        test_settling.test_what_nobody_has_begun_is_given_back_without_counting_and_before_the_fresh_ones,
    ),
    Twin(
        "release_batch",
        "settled => true",
        "settled => false",
        test_settling.test_what_was_given_back_has_no_holder,
    ),
    Twin(
        "_sweep_queue",
        "where message.locked_until is null or message.locked_until <= moment",
        "",
        test_sweep.test_a_newer_delivery_is_never_dead_lettered,
    ),
    Twin(
        "_find_over_delivered",
        "due <= moment and position <= cursor",
        "false",
        test_sweep.test_what_the_cursors_have_passed_is_dead_lettered_instead_after_its_last_delivery,
    ),
    Twin(
        "_find_over_delivered",
        "where progress.queue_id = queue.id",
        "where false",
        test_sweep.test_what_was_delivered_too_often_is_dead_lettered_once_its_lock_has_expired,
    ),
    Twin(
        "sweep",
        "not pg_try_advisory_xact_lock(hashtextextended('pgqueue.sweep', 0))",
        "false",
        test_sweep.test_one_sweeps_at_a_time,
    ),
    Twin(
        "receive",
        "deliveries < source.max_delivery_count",
        "true",
        test_dead_letters.test_poison_among_sound_messages_does_not_shorten_a_receive_to_nothing,
    ),
    Twin(
        "_repair_sequence",
        "pgqueue._is_repairing() or ",
        "",
        test_sequence.test_a_mending_that_is_rolled_back_is_begun_again,
        OFTEN,
    ),
    Twin(
        "_repair_sequence",
        "set cursor = 0, ",
        "set ",
        test_sequence.test_messages_below_the_cursors_are_found_when_the_sequence_went_back,
        OFTEN,
    ),
    Twin(
        "_repair_sequence",
        "horizon_xid = all_open, ",
        "horizon_xid = '0', ",
        test_sequence.test_a_message_that_is_still_being_sent_when_cursors_begin_again_is_found,
        OFTEN,
    ),
]

LIFETIMES = [
    Twin(
        "receive",
        "elsif earliest <= moment then",
        "elsif false then",
        partial(test_expiring.test_what_has_expired_is_never_delivered, verb="receive"),
    ),
    Twin(
        "receive",
        "places) and expires_at <= moment",
        "places)",
        partial(test_expiring.test_what_has_expired_is_never_delivered, verb="receive_and_delete"),
    ),
    Twin(
        "receive_deferred",
        "places) and expires_at <= moment",
        "places) and false",
        test_deferring.test_what_has_expired_is_not_received,
    ),
    Twin(
        "_expire_due",
        "and (locked_until is null or locked_until <= moment)",
        "",
        partial(
            test_expiring.test_a_locked_message_does_not_expire_and_its_holder_may_settle_it_after_its_time,
            verb="complete",
        ),
    ),
    Twin(
        "_expire_due",
        "and expires_at <= moment",
        "and expires_at is not null",
        test_expiring.test_a_sweep_leaves_what_has_not_expired_yet,
    ),
    Twin(
        "_expire",
        "if queue.dead_lettering_on_message_expiration then",
        "if true then",
        partial(test_expiring.test_what_has_expired_is_never_delivered, verb="receive"),
    ),
    Twin(
        "_send_any",
        "moment) + least(time_to_live, target.default_message_time_to_live)",
        "moment) + coalesce(time_to_live, target.default_message_time_to_live)",
        test_expiring.test_the_time_to_live_of_the_queue_is_the_default_and_the_ceiling,
    ),
    Twin(
        "_send_any",
        "greatest(scheduled_enqueue_time, moment) + least",
        "moment + least",
        test_expiring.test_the_time_to_live_of_a_scheduled_message_runs_from_its_activation,
    ),
    Twin(
        "_move_from_dead_letters",
        "pgqueue.clock() + time_to_live",
        "enqueued_time + time_to_live",
        test_dead_letter_queue.test_the_time_to_live_of_a_resubmitted_message_runs_anew,
    ),
    Twin(
        "_activate_scheduled",
        "and scheduled_enqueue_time <= moment",
        "",
        test_scheduling.test_what_is_not_due_stays_when_another_comes,
    ),
    Twin(
        "cancel_scheduled",
        "if found then",
        "if false then",
        test_scheduling.test_what_is_not_scheduled_cannot_be_cancelled_and_then_none_is,
    ),
]

DEFERRAL = [
    Twin(
        "receive_deferred",
        "sequence_number = number and lane >= 800",
        "sequence_number = number",
        test_deferring.test_what_is_not_deferred_cannot_be_received_by_its_number_and_then_nothing_is,
    ),
    Twin(
        "receive_deferred",
        "sequence_number = any (sequence_numbers) and lane >= 800",
        "sequence_number = any (sequence_numbers)",
        test_deferring.test_what_is_resubmitted_while_a_receive_looks_for_it_is_not_taken,
    ),
    Twin(
        "receive_deferred",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_deferring.test_what_others_hold_is_not_received_and_not_waited_for,
    ),
    Twin(
        "receive_deferred",
        "and delivery_count >= source.max_delivery_count",
        "and false",
        test_deferring.test_the_delivery_limit_holds,
    ),
    Twin(
        "defer_batch",
        "delivery_count - 1",
        "delivery_count",
        test_deferring.test_a_deferral_is_not_counted_and_a_delivery_is,
    ),
    Twin(
        "_move_to_dead_letters",
        "2 * pgqueue._priority(lane)",
        "lane & ~1",
        test_deferring.test_dead_lettered_and_resubmitted_it_is_an_ordinary_message_of_its_priority,
    ),
]

DUPLICATES = [
    Twin(
        "_record_message_ids",
        f"where {WINDOW}",
        "where true",
        test_duplicates.test_the_second_send_succeeds_and_stores_nothing,
    ),
    Twin("_record_message_ids", f"where {WINDOW}", "where false", test_duplicates.test_after_the_window_an_id_is_new),
    Twin(
        "_record_message_ids",
        "order by message_id",
        "order by min(number)",
        test_duplicates.test_batches_with_the_same_ids_in_opposite_order_do_not_deadlock,
    ),
    Twin(
        "_record_message_ids",
        "queue_id = target.id and message_id = id",
        "message_id = id",
        test_duplicates.test_other_queues_do_not_matter,
    ),
    Twin(
        "_delete_old_records",
        "and sent_at <= moment - queue.duplicate_detection_history_time_window",
        "",
        test_duplicates.test_ids_are_forgotten_by_a_sweep_when_their_window_is_over_and_not_before,
    ),
    Twin(
        "_delete_old_records",
        "from pgqueue.recorded_effect\n                where queue_id = queue.id and forget_at <= moment",
        "from pgqueue.recorded_effect\n                where queue_id = queue.id",
        test_effects.test_a_sweep_forgets_effects_that_need_not_be_kept_and_no_others,
    ),
    Twin(
        "record_effect",
        "where recorded_effect.forget_at <= moment",
        "where true",
        test_effects.test_an_effect_is_recorded_once,
    ),
    Twin(
        "record_effect",
        "where recorded_effect.forget_at <= moment",
        "where false",
        test_effects.test_an_effect_is_kept_as_long_as_was_asked_for,
    ),
]

DEAD_LETTERS = [
    Twin(
        "receive_dead_letters",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_dead_letter_queue.test_dead_letters_are_received_under_lock_in_the_order_they_were_sent,
    ),
    Twin(
        "receive_dead_letters",
        "from unnest(places) as held (place)\n         where ctid = place",
        "where ctid = any (places)",
        test_dead_letter_queue.test_dead_letters_are_received_under_lock_in_the_order_they_were_sent,
    ),
    Twin(
        "resubmit",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_dead_letter_queue.test_a_resubmission_skips_what_is_held_under_lock,
    ),
    Twin(
        "resubmit",
        "after is null or sequence_number > after",
        "true",
        test_dead_letter_queue.test_many_are_resubmitted_in_batches_each_after_the_last,
    ),
    Twin(
        "_settle_dead_letters",
        "case when until is not null then gen_random_uuid() end",
        "case when until is not null then lock_token end",
        test_dead_letter_queue.test_a_dead_letter_abandoned_with_a_delay_can_be_received_after_that,
    ),
    Twin(
        "_settle_dead_letters",
        "delivery_count - (verb = 'RELEASE')::integer",
        "delivery_count",
        test_dead_letter_queue.test_a_released_dead_letter_is_given_back_uncounted,
    ),
]

ROOM_AND_HISTORY = [
    Twin(
        "_check_queue_length",
        "if known[1] + known[4] + adding",
        "if known[1] + adding",
        partial(test_limits.test_a_long_queue_is_not_filled_beyond_its_bound_by_one_who_sends_fast, at_once=1),
    ),
    Twin(
        "_check_queue_length",
        "known[1] + number - known[2] + adding",
        "known[1] + adding",
        test_limits.test_a_session_that_counted_before_others_sent_does_not_go_by_that,
    ),
    Twin(
        "_delete_messages",
        "if queue.retain_history is null then",
        "if true then",
        test_history.test_what_is_purged_or_cancelled_is_written_down,
    ),
    Twin(
        "complete",
        " and retain_history is null",
        "",
        test_history.test_a_fresh_message_is_written_down_when_it_is_completed,
    ),
    Twin(
        "complete_batch",
        " and retain_history is null",
        "",
        partial(test_history.test_a_batch_is_written_down_message_by_message, came_back=False),
    ),
    Twin(
        "_reclaim_history",
        "1 + ceil",
        "ceil",
        partial(
            test_history.test_a_sweep_reclaims_a_day_when_no_row_of_it_is_retained_and_not_before,
            retain_history=timedelta(days=1),
        ),
    ),
    Twin(
        "_reclaim_history",
        "today - 63",
        "today - 64",
        test_history.test_a_day_of_the_ring_that_is_in_use_again_is_not_reclaimed,
    ),
    Twin(
        "_reclaim_history",
        "exception when lock_not_available then\n            null;",
        "exception when lock_not_available then\n            return false;",
        test_history.test_a_day_that_is_being_read_is_left_and_the_next_is_reclaimed,
    ),
]

SEARCH_PATH = [
    Twin("send", "number := pg_catalog.nextval", "number := nextval", test_search_path.a_send_makes_nobody_a_superuser),
    Twin("send_batch", "pg_catalog.nextval", "nextval", test_search_path.a_send_makes_nobody_a_superuser),
    Twin(
        "_send_any",
        "set search_path = pg_catalog, pg_temp\n",
        "",
        test_search_path.a_send_makes_nobody_a_superuser,
    ),
    Twin("_advance_cursors", "set search_path = pg_catalog, pg_temp\n", "", test_search_path.every_function_is_pinned),
]

TWINS = TOKENS + WAITS + PINNING + WATERMARK + OUTCOMES + THE_REST
TWINS += LIFETIMES + DEFERRAL + DUPLICATES + DEAD_LETTERS + ROOM_AND_HISTORY + FENCES + CLAIMS_BY_NAME + PUBLISHED
TWINS += SEARCH_PATH


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_a_broken_twin_is_caught(database: Database, database_server: SharedServer, twin: Twin) -> None:
    assert twin.text in twin.original, f"{twin.function} does not say that any more: change the twin's text, too"
    assert twin.original.count(twin.text) == 1, f"{twin.function} says that more than once: quote more of it"
    twin.caught_by(database)
    for _ in range(twin.attempts):
        with created(database_server.dsn, database_server.template) as another:
            with psycopg.connect(another.dsn) as connection:
                connection.execute(twin.broken.encode())
            if fails(twin.caught_by, another):
                return
    pytest.fail(f"{twin}: its test passes with it. Does the test still come by this piece of the code?")


@pytest.mark.parametrize(
    ("condition", "twins"),
    [(TOKEN_CHECK, TOKENS), (SKIP_LOCKED, WAITS), (FENCE, FENCES)],
    ids=["lock tokens", "skip locked", "epochs and claims"],
)
def test_no_condition_is_without_its_twin(condition: re.Pattern[str], twins: list[Twin]) -> None:
    known = sorted(twin.function for twin in twins)
    found = [path.stem for path in FUNCTIONS.rglob("*.sql") for _ in condition.findall(without_comments(path.stem))]
    assert sorted(found) == known


def fails(test: Callable[[Database], None], database: Database) -> bool:
    try:
        test(database)
    except (AssertionError, ValueError):
        return True
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("PQ"):
            raise
        return True
    return False


def source(function: str) -> str:
    (file,) = FUNCTIONS.rglob(f"{function}.sql")
    return file.read_text()


def without_comments(function: str) -> str:
    return re.sub(r"--.*", "", source(function))
