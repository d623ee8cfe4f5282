"""Parts that are published once."""

from __future__ import annotations

from tests.sql import test_staging
from tests.sql.twins.twin import Twin

REFUSES_TO_SEND = """    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
"""

TWINS = [
    Twin(
        "publish",
        "case when not ordered then part end",
        "null",
        test_staging.test_the_parts_of_a_job_do_not_wait_for_each_other,
    ),
    Twin(
        "publish",
        "case when not ordered then part end",
        "part",
        test_staging.test_the_batches_of_a_stream_wait_for_each_other,
    ),
    Twin(
        "publish",
        "    if publisher is not null then\n        select (batch).* into last",
        f"{REFUSES_TO_SEND}    if publisher is not null then\n        select (batch).* into last",
        test_staging.test_a_part_that_was_sent_is_reported_although_the_queue_no_longer_takes_messages,
    ),
    Twin(
        "publish",
        "coalesce(keep, interval '30 days')",
        "interval '30 days'",
        test_staging.test_a_part_is_remembered_as_long_as_was_asked_for,
    ),
    Twin(
        "publish",
        "name = any (staged) and queue_id = target.id order by",
        "name = any (staged) order by",
        test_staging.test_publishing_locks_nothing_that_was_staged_for_another_queue,
    ),
    Twin(
        "_send_staged",
        "if read <> checked then",
        "if false then",
        test_staging.test_a_row_that_comes_while_the_table_is_published_is_not_sent,
    ),
]
