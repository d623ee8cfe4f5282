"""Waiting for the outcome of a message. No transaction and no connection is held between two polls."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial

from pgqueue.errors import MessageNotFoundError, OperationTimeoutError, PGQueueError
from pgqueue.flows.flow import Flow, Pause, Source, Waiters
from pgqueue.model.arguments import number as checked
from pgqueue.model.outcome import Outcome
from pgqueue.statements import results

#: Of one who is woken by others, in seconds.
LONGEST_PAUSE = 3600.0


def result(queue: str, sequence_number: int, source: Source) -> Flow[Outcome | None]:
    """The outcome of a message; None while it is not settled, or if the queue does not know it."""
    number = checked("sequence_number", sequence_number)
    outcomes = yield from source.execute(results.outcomes(queue, [number]))
    return outcomes.get(number)


def wait_for(queue: str, sequence_number: int, timeout: timedelta | None, source: Source) -> Flow[Outcome]:
    """Wait until a message is settled.

    Raises:
        OperationTimeoutError: it was not settled in time.
        MessageNotFoundError: the queue has neither the message nor its outcome.
    """
    number = checked("sequence_number", sequence_number)
    waiters = source.waiters(queue)
    ends_at = (yield time.monotonic) + (yield partial(waiters.seconds, timeout))
    with waiters.joined(number) as waiter:
        while True:
            for_all, for_one = waiters.count, waiter.count
            if waiters.poller is waiter and not waiter.is_answered:
                yield from _poll(waiters, source)
            if waiter.is_answered:
                break
            now = yield time.monotonic
            if now >= ends_at:
                raise OperationTimeoutError(
                    f"message {number} of queue {queue} is not settled yet: wait again, or see explain_message()"
                ) from waiters.error
            if waiters.poller is waiter:
                yield Pause(timedelta(seconds=min(waiters.rest(now), ends_at - now)), waiters, for_all)
            else:
                yield Pause(timedelta(seconds=min(LONGEST_PAUSE, ends_at - now)), waiter, for_one)
    if waiter.outcome is None:
        raise MessageNotFoundError(
            f"queue {queue} has neither message {number} nor its outcome: the transaction that sends it is still open,"
            " the message went to another queue, or its outcome is forgotten. Commit before you wait, and wait for a"
            " message that is forwarded in the queue where it arrives."
        )
    return waiter.outcome


def _poll(waiters: Waiters, source: Source) -> Flow[None]:
    """Ask for the outcomes that are due, for all waiters. Transient errors are retried until these give up."""
    began = yield time.monotonic
    if not (due := waiters.due(began)):
        return
    try:
        outcomes = yield from source.execute(results.outcomes(waiters.queue, due))
    except PGQueueError as failure:
        if not failure.is_transient:
            waiters.set()
            raise
        waiters.fail(failure)
    except BaseException:
        waiters.set()
        raise
    else:
        waiters.answer(outcomes, (yield time.monotonic) - began)
