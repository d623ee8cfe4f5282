"""Batches of messages that belong together: create, add, close, count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from pgqueue.model.batch import BATCH_END, BatchCounts
from pgqueue.model.encoding import EncodedMessage
from pgqueue.model.row import Row
from pgqueue.statements.sending import send_batch
from pgqueue.statements.statement import Statement, call, nothing

T = TypeVar("T")


def create_batch(queue: str, continuations: Sequence[EncodedMessage]) -> Statement[UUID]:
    """Schedule the message for the end, and the one for a failure if there is one, and create the batch."""
    held = [message._replace(scheduled_enqueue_time=BATCH_END) for message in continuations]
    sent = send_batch(queue, held, "raise")
    return Statement(
        "select pgqueue.create_batch(%(queue)s::text, abs(numbers[1]), abs(numbers[2]))"
        f" from (select array({sent.sql})) as sent (numbers)",
        sent.parameters,
        _id,
    )


def joining(sent: Statement[T], queue: str, batch: UUID) -> Statement[T]:
    """A send whose messages become members of a batch."""
    return sent._replace(
        sql=f"""with sent as materialized (select array({sent.sql}) as numbers),
     added as materialized (select pgqueue.add_to_batch(%(batch)s::uuid, %(queue)s::text, numbers) from sent)
select unnest(numbers) from sent, added""",
        parameters={**sent.parameters, "batch": batch, "queue": queue},
    )


def close_batch(batch: UUID) -> Statement[None]:
    return call("select pgqueue.close_batch(…)", nothing, {"batch": batch})


def batch_counts(batch: UUID) -> Statement[BatchCounts]:
    return call(
        "select total, pending, completed, dead_lettered, deleted, finished_at is not null"
        "  from pgqueue.batch_counts(…)",
        _counts,
        {"batch": batch},
    )


def _id(rows: Sequence[Row]) -> UUID:
    ((batch,),) = rows
    return batch if isinstance(batch, UUID) else UUID(str(batch))


def _counts(rows: Sequence[Row]) -> BatchCounts:
    ((*counts, is_finished),) = rows
    return BatchCounts(*counts, is_finished=is_finished)
