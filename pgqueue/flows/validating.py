"""Receiving from a queue whose bodies have a type: what does not fit is dead-lettered, and is not handed out."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from pgqueue.errors import PGQueueError, logger
from pgqueue.flows import receiving
from pgqueue.flows.flow import Executor, Flow, WakeableExecutor
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.settling import settle
from pgqueue.model.about import about
from pgqueue.model.arguments import duration
from pgqueue.model.bodies import InvalidBody, read_as
from pgqueue.model.context import Outcome
from pgqueue.model.message import body_type_of
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.row import Row
from pgqueue.statements import Statement
from pgqueue.statements import settling as verbs

MessageT = TypeVar("MessageT", bound=LockedMessage)


def receive(
    queue: str,
    statement: Statement[list[Row]],
    source: WakeableExecutor,
    wait: timedelta | None,
    make: Callable[[Row], MessageT],
) -> Flow[list[MessageT]]:
    """Receive messages that are valid, until there are some or ``wait`` is over."""
    patience = duration("wait", wait) or receiving.NO_WAIT
    over = (yield time.monotonic) + patience.total_seconds()
    while True:
        rows = yield from receiving.wait_for(queue, statement, source, patience)
        messages = yield from keep_valid([make(row) for row in rows])
        if messages or not rows:
            return messages
        patience = max(receiving.NO_WAIT, timedelta(seconds=over - (yield time.monotonic)))


def receive_at_once(
    statement: Statement[list[Row]], source: Executor, make: Callable[[Row], MessageT]
) -> Flow[list[MessageT]]:
    """Receive messages without waiting; return those that are valid."""
    return (yield from keep_valid([make(row) for row in (yield from source.execute(statement))]))


def keep_valid(messages: list[MessageT]) -> Flow[list[MessageT]]:
    """Make the bodies of messages of one queue, if it has a type; return those that fit, and dead-letter the others.

    Dead letters are returned as they are.
    """
    body_type = body_type_of(messages[0]) if messages else None
    if body_type is None or is_dead_letter_queue(messages[0].queue):
        return messages
    valid = []
    for message in messages:
        try:
            message.body = read_as(body_type, message)
        except InvalidBody as verdict:
            yield from _dead_letter(message, verdict)
        else:
            valid.append(message)
    return valid


def _dead_letter(message: LockedMessage, verdict: InvalidBody) -> Flow[None]:
    """Dead-letter an invalid message. If that fails, its lock expires, and the next receiver tries."""
    statement = verbs.dead_letter(
        message.lock, reason=verdict.reason, description=verdict.description, error=verdict.__cause__
    )
    name, extra = (
        f"message {message.sequence_number} of {message.queue}",
        about(message, message.delivery_count, verdict),
    )
    try:
        yield from settle(message, Outcome.DEAD_LETTERED, statement)
        logger.warning(
            "%s is dead-lettered at delivery %s: %s: %s",
            name,
            message.delivery_count,
            verdict.reason,
            verdict.without_values,
            extra=extra,
        )
    except PGQueueError as failure:
        logger.warning("%s is invalid and could not be dead-lettered: %s", name, failure, extra=extra)
