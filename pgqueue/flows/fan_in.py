"""Batches of messages that belong together: sends that add members, and the wait for the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from pgqueue.errors import InvalidArgumentError, OperationTimeoutError, PGQueueError
from pgqueue.flows.flow import Executor, Flow, Pause
from pgqueue.model.arguments import shown
from pgqueue.model.backoff import Backoff
from pgqueue.model.batch import BatchCounts, Identified
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import encode
from pgqueue.model.message import Message
from pgqueue.statements import Statement, batches

T = TypeVar("T")

#: In seconds, between polls: a batch may take hours.
PAUSES = Backoff(0.01, 2.0)


class Members(Executor):
    """Where sends run whose messages become members of a batch."""

    pipelines = False

    def __init__(self, where: Executor, queue: str, batch: Identified) -> None:
        if not isinstance(batch_id := getattr(batch, "id", None), UUID):
            raise InvalidArgumentError(f"batch must be one of create_batch() or batch(), not {shown(batch)}")
        self._where = where
        self._joining: Callable[[Statement[T]], Statement[T]] = lambda sent: batches.joining(sent, queue, batch_id)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        return self._where.execute(self._joining(statement))


def create(queue: str, messages: Sequence[Message], body_type: BodyType | None, where: Executor) -> Flow[UUID]:
    """Create a batch with the message for its end, and the one for a failure if there is one."""
    encoded = [encode(message, body_type=body_type) for message in messages]
    if any(message.scheduled_enqueue_time is not None for message in encoded):
        raise InvalidArgumentError("a message for the end of a batch must have no scheduled_enqueue_time")
    return (yield from where.execute(batches.create_batch(queue, encoded)))


def wait(batch: UUID, seconds: float, source: Executor) -> Flow[BatchCounts]:
    """Wait until a batch is finished. Transient errors are retried until the time is over.

    Raises:
        OperationTimeoutError: it was not finished in time.
    """
    ends_at = (yield time.monotonic) + seconds
    pauses = iter(PAUSES)
    while True:
        error: PGQueueError | None = None
        try:
            counts = yield from source.execute(batches.batch_counts(batch))
            if counts.is_finished:
                return counts
        except PGQueueError as failure:
            if not failure.is_transient:
                raise
            error = failure
        left = ends_at - (yield time.monotonic)
        if left <= 0:
            raise OperationTimeoutError(f"batch {batch} is not finished yet: wait again, or see counts()") from error
        yield Pause(timedelta(seconds=min(next(pauses), left)))
