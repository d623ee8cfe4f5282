"""Settling one delivery, in a transaction of its own or in the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pgqueue.errors import LockLostError, PGQueueError, logger
from pgqueue.flows.flow import Executor, Flow, Shared
from pgqueue.model.about import about_all
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock
from pgqueue.statements import Statement, settling

T = TypeVar("T")


def settle(
    context: ReceiveContext, statement: Statement[str], outcome: Outcome, own: Executor, transaction: Shared | None
) -> Flow[None]:
    """Completes or dead-letters: final once its transaction commits, undone when that aborts."""
    context.begin(Event.COMPLETE, outcome)
    transaction_id = yield from _attempt(context, statement, transaction or own)
    if transaction is None:
        context.apply(Event.COMMITTED)
    else:
        context.transaction_id = transaction_id
        yield from transaction.follow([context])


def abandon(
    context: ReceiveContext, statement: Statement[None], own: Executor, transaction: Shared | None
) -> Flow[None]:
    """Gives the message back. Abandoning twice has no further effect."""
    if context.begin(Event.ABANDON, Outcome.ABANDONED):
        yield from _attempt(context, statement, transaction or own)
        context.apply(Event.COMMITTED)


def release(queue: str, locks: Sequence[Lock], own: Executor) -> Flow[None]:
    """Gives back what nobody has begun to work on, without counting the delivery. If that fails, the locks run out by
    themselves."""
    if not locks:
        return
    try:
        yield from own.execute(settling.release_batch(queue, locks))
    except PGQueueError as failure:
        logger.warning(
            "%d messages of %s could not be given back, their locks run out by themselves: %s",
            len(locks),
            queue,
            failure,
            extra=about_all(queue, locks, failure),
        )


def resolve(context: ReceiveContext, lock: Lock, own: Executor, transaction: Shared | None) -> Flow[ReceiveState]:
    """Asks the database what became of a settlement in a transaction whose end nobody told us.

    While that transaction may still be open it is asked there, so that no second connection is needed.
    """
    if context.transaction_id is not None and context.state in (ReceiveState.COMPLETING, ReceiveState.COMPLETED):
        where = transaction if transaction is not None and transaction.is_open else own
        answer = yield from where.execute(settling.resolve(lock, context.transaction_id))
        if answer != "in progress":
            context.apply(Event.COMMITTED if answer == "committed" else Event.ABORTED)
    return context.state


def _attempt(context: ReceiveContext, statement: Statement[T], where: Executor) -> Flow[T]:
    """Runs a settlement. A lock that is lost faults the context; any other failure leaves the message locked by us."""
    try:
        return (yield from where.execute(statement))
    except LockLostError:
        context.fault()
        raise
    except BaseException:
        context.apply(Event.ABORTED)
        raise
