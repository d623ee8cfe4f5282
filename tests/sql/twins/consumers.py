"""Consumers by name: an overtaken session does nothing, and verbs on one claim touch no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pgqueue.testing import Database
from tests.sql import test_claims
from tests.sql.twins.twin import Twin

THE_CURRENT_EPOCH = "(select max(known.epoch) from pgqueue.consumer as known)"


def overtaken(verb: str) -> Callable[[Database], None]:
    return partial(test_claims.test_an_overtaken_session_settles_nothing_and_gets_an_error, verb=verb)


FENCES = [
    *(
        Twin(verb, "consumer(consumer, epoch)", f"consumer(consumer, {THE_CURRENT_EPOCH})", overtaken(verb))
        for verb in ("claim_batch", "complete_claim", "release_claim", "drop_consumer")
    ),
    *(
        Twin(verb, "perform pgqueue._check_consumer(known, epoch);", "", overtaken(verb))
        for verb in ("renew_claim", "check_claim")
    ),
    Twin("_find_consumer", "perform pgqueue._check_consumer(known, epoch);", "", overtaken("complete_claim")),
    *(
        Twin(
            verb,
            "claim(known, claim)",
            "claim(known, known.claim)",
            test_claims.test_verbs_on_a_settled_claim_touch_no_other_claim,
        )
        for verb in ("renew_claim", "check_claim", "complete_claim", "release_claim")
    ),
]

CLAIMS = [
    Twin("_check_consumer", "if epoch <> known.epoch then", "if false then", overtaken("complete_claim")),
    Twin("_check_consumer", "epoch <> known.epoch", "epoch < known.epoch - 1", overtaken("complete_claim")),
    Twin(
        "_check_consumer",
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
        test_claims.test_verbs_on_a_settled_claim_touch_no_other_claim,
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
        test_claims.test_verbs_on_a_settled_claim_touch_no_other_claim,
    ),
    Twin("attach_consumer", "greatest(known.epoch + 1, ", "(", test_claims.test_an_epoch_is_never_reused),
    Twin("attach_consumer", "extract(epoch from pgqueue.clock())", "0", test_claims.test_an_epoch_is_never_reused),
    Twin(
        "attach_consumer",
        "name = attach_consumer.consumer for update",
        "name = attach_consumer.consumer",
        test_claims.test_attaching_waits_for_the_transaction_that_completes_a_claim,
    ),
    Twin(
        "drop_consumer",
        "perform pgqueue.release_claim(consumer, known.claim, epoch);",
        "",
        test_claims.test_the_messages_of_a_dropped_consumer_are_released,
    ),
    Twin(
        "renew_claim",
        "perform pgqueue._notify_early(source, lock_duration);",
        "null;",
        test_claims.test_waiting_consumers_are_notified_of_a_shortened_claim,
    ),
]

READS = [
    Twin(
        "_claimed_message",
        f"{lanes} and message.lock_token = claim.lock_token",
        lanes,
        test_claims.test_of_a_claim_only_what_it_holds_is_read_fresh_or_not,
    )
    for lanes in ("lane = any (fresh_lanes)", "lane % 2 = 0")
]

TWINS = FENCES + CLAIMS + READS
