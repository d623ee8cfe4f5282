"""A settlement or renewal of a message proves by its token that the lock is still held."""

from __future__ import annotations

from functools import partial

from tests.sql import test_claims, test_dead_letter_queue, test_fence, test_settling
from tests.sql.stage import LOCK_DURATION
from tests.sql.twins.twin import Twin

#: The conditions that lock the two halves of a claim.
FRESH = "position < upper(held.fresh) and lock_token = held.lock_token\n               for update"
RETURNED = "sequence_number < upper(held.numbers) and lock_token = held.lock_token\n               for update"


# The condition that the statements of _lock_dead_letters share.
ASKED_FOR = "             where queue_id = queue.id and sequence_number = any (sequence_numbers)"


ALONE = {"pin": {}, "complete": {}, "abandon": {}, "renew_lock": {"lock_duration": 2 * LOCK_DURATION}}

TWINS = [
    Twin(
        "_lock_claim",
        f"{FRESH});",
        "position < upper(held.fresh)\n               for update);",
        test_claims.test_messages_that_others_have_received_are_reported_as_lost,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED});",
        "sequence_number < upper(held.numbers)\n               for update);",
        test_claims.test_returned_messages_that_others_have_received_are_lost_too,
    ),
    Twin(
        "_lock_claim",
        f"{FRESH} skip locked",
        "position < upper(held.fresh)\n               for update skip locked",
        test_claims.test_the_locks_of_messages_that_others_have_received_are_not_renewed,
    ),
    Twin(
        "_lock_claim",
        f"{RETURNED} skip locked",
        "sequence_number < upper(held.numbers)\n               for update skip locked",
        test_claims.test_the_locks_of_returned_messages_that_others_have_received_are_not_renewed,
    ),
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
        "between number and number and lock_token = token",
        "between number and number",
        test_fence.test_a_late_worker_cannot_complete_a_message_that_came_back_and_was_redelivered,
    ),
    Twin(
        "complete_batch",
        "and lock_token = lock_tokens[array_position(sequence_numbers, position)]",
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
        "between number and number and lock_token = token",
        "between number and number",
        test_fence.test_a_late_worker_cannot_renew_a_message_that_came_back_and_was_redelivered,
    ),
    Twin(
        "_lock_unheld",
        "\n                  and lock_token = found.lock_token",
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
        "renew_lock_batch",
        "queue_id = source.id and sequence_number = number and lock_token = token",
        "queue_id = source.id and sequence_number = number",
        test_dead_letter_queue.test_a_renewal_that_meets_a_redelivery_half_way_does_not_renew_it,
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
        partial(test_dead_letter_queue.test_a_stale_token_is_refused_without_waiting, verb="complete", options={}),
    ),
    Twin(
        "_lock_dead_letters",
        "            on sequence_number = number and lock_token = token",
        "            on sequence_number = number",
        partial(test_dead_letter_queue.test_a_stale_token_is_refused_without_waiting, verb="complete", options={}),
    ),
    Twin(
        "resolve",
        "and dead_letter.lock_token = resolve.lock_token",
        "",
        test_dead_letter_queue.test_a_settlement_is_resolved_after_another_receiver_has_received_the_dead_letter,
    ),
]
