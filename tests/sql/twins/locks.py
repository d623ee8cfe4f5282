"""Locks last as long as they were asked to, and are noticed when they have run out."""

from __future__ import annotations

from functools import partial

from tests.sql import test_locks
from tests.sql.twins.twin import Twin

TWINS = [
    Twin(
        "_redeliver_watched",
        "and (locked_until is null or locked_until <= moment)",
        "",
        test_locks.test_a_renewed_lock_is_not_returned_early_by_sessions_that_watch_it,
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
            f"and locked_until < moment + coalesce({verb}.lock_duration, source.lock_duration)",
            "",
            partial(test_locks.test_a_lock_that_was_shortened_is_noticed_in_time, verb=verb),
        )
        for verb in ("renew_lock", "renew_lock_batch")
    ),
    Twin(
        "renew_lock_batch",
        "if many = cardinality(sequence_numbers) and many = cardinality(lock_tokens) then",
        "if many > 0 then",
        test_locks.test_a_batch_of_which_some_came_back_is_renewed,
    ),
    Twin(
        "receive",
        "            moment := pgqueue.clock();       -- a turn may have waited",
        "            -- a turn may have waited",
        partial(test_locks.test_a_lock_that_is_taken_after_a_long_turn_lasts_as_long_as_any, when="before it scans"),
    ),
    Twin(
        "receive",
        "            came_back := pgqueue._take_turn(source);\n            moment := pgqueue.clock();\n",
        "            came_back := pgqueue._take_turn(source);\n",
        partial(
            test_locks.test_a_lock_that_is_taken_after_a_long_turn_lasts_as_long_as_any, when="after it found nothing"
        ),
    ),
    Twin(
        "receive",
        "_expire_due(source, ahead);\n            moment := pgqueue.clock();\n",
        "_expire_due(source, ahead);\n",
        partial(test_locks.test_a_lock_that_is_taken_after_a_long_removal_lasts_as_long_as_any, over="expired"),
    ),
    Twin(
        "receive_deferred",
        "moment := pgqueue.clock();           -- these",
        "-- these",
        partial(
            test_locks.test_a_lock_that_is_taken_after_a_long_removal_lasts_as_long_as_any, over="deferred and expired"
        ),
    ),
]
