"""Emptying queues, as ``manage.py flush`` empties tables."""

from __future__ import annotations

from typing import Final, LiteralString

from django.db import DEFAULT_DB_ALIAS
from django.db.transaction import atomic

from pgqueue.django import driver_connection
from pgqueue.django.placing import in_schema

#: Tables of messages and of records about them; queues, topics, schedules and settings are kept.
EMPTIED: Final[tuple[LiteralString, ...]] = (
    "consumer",
    "message",
    "scheduled_message",
    "scheduled_on_topic",
    "dead_letter",
    "failed_message",
    "session",
    "waiting_session",
    "waiting_consumer",
    "watch",
    "sent_message_id",
    "unique_key",
    "outcome",
    "batch_change",
    "batch_member",
    "batch_stripe",
    "batch",
    "waiting_for_outcome",
    "message_group",
    "recorded_effect",
    "published_batch",
    "settled_message",
    "sample",
    "audited_action",
    "worker",
    "registered_worker",
)
DELETE: Final = "; ".join(f"delete from pgqueue.{table}" for table in EMPTIED)
#: Limits that were used up are free again: a queue with limits has a row that ends its slots, and maybe a bucket.
RESET: Final = """
delete from pgqueue.slot;
insert into pgqueue.slot (queue_id, position, first_position) select queue_id, 1, 1 from pgqueue.flow;
select setval(bucket, 1, false)
  from pgqueue.flow
 cross join to_regclass('pgqueue.full_at_' || queue_id) as bucket
 where bucket is not null
"""


def empty_queues(using: str = DEFAULT_DB_ALIAS) -> None:
    """Deletes all messages, dead letters and records of them. Queues, topics, schedules and their settings stay.

    ``manage.py flush`` does it, and with it each ``TransactionTestCase`` at its end, except with
    ``serialized_rollback``. The role must be a member of ``pgqueue_owner``, as the one that migrates is.
    """
    with atomic(using=using):
        driver_connection(using).execute(in_schema(f"{DELETE}; {RESET}"))
