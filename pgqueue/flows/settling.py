"""Settling one delivery, in a transaction of its own or in the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pgqueue.errors import ConnectionLostError, LockLostError, PGQueueError, logger
from pgqueue.flows.flow import Executor, Flow, Shared
from pgqueue.model.about import about_all
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock
from pgqueue.statements import Statement, settling


class Question:
    """What became of a settlement: to be asked of the database, which answers for the transaction asked about only."""

    def __init__(self, context: ReceiveContext, lock: Lock, locked_until: datetime | None) -> None:
        self.context = context
        self.transaction_id = context.transaction_id
        self.lock = lock
        self.locked_until = locked_until

    @property
    def is_open(self) -> bool:
        """Whether there is anything to ask. A commit that was announced by somebody else is asked about, too."""
        known = self.context.state is ReceiveState.COMPLETED and self.transaction_id is not None
        return known or self.context.is_in_doubt

    def statement(self) -> Statement[str]:
        return settling.resolve(self.lock, self.transaction_id, self.locked_until)

    def answer(self, answer: str) -> None:
        """Tells the delivery, unless that has been settled anew meanwhile."""
        if not self.is_open or self.context.transaction_id != self.transaction_id:
            return
        match answer:
            case "committed":
                self.context.apply(Event.COMMITTED)
            case "aborted":
                self.context.apply(Event.ABORTED)
            case "gone" if self.context.state is ReceiveState.ABANDONING:
                self.context.apply(Event.COMMITTED)  # whoever has it, it is not ours any more
            case "gone":
                self.context.fault()


def settle(
    context: ReceiveContext, statement: Statement[str], outcome: Outcome, own: Executor, transaction: Shared | None
) -> Flow[None]:
    """Completes or dead-letters: final once its transaction commits, undone when that aborts."""
    call = object()
    try:
        yield from context.enter(Event.COMPLETE, outcome, call)
        transaction_id = yield from (transaction or own).execute(statement)
        if transaction is None:
            context.apply(Event.COMMITTED)
        else:
            context.transaction_id = transaction_id
            yield from transaction.follow([context])
            context.end(call)
    except LockLostError:
        context.fault()
        raise
    except BaseException as error:
        context.fail(call, error)
        raise


def abandon(
    context: ReceiveContext, statement: Statement[None], own: Executor, transaction: Shared | None
) -> Flow[None]:
    """Gives the message back. Abandoning twice has no further effect."""
    call = object()
    try:
        if (yield from context.enter(Event.ABANDON, Outcome.ABANDONED, call)):
            yield from (transaction or own).execute(statement)
            context.apply(Event.COMMITTED)
    except LockLostError:
        context.fault()
        raise
    except BaseException as error:
        context.fail(call, error)
        raise


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


def resolve(question: Question, own: Executor, transaction: Shared | None) -> Flow[ReceiveState]:
    """Asks the database what became of a settlement whose end nobody told us.

    While its transaction may still be open it is asked there, so that no second connection is needed. A connection may
    be dead and not know it: then it is asked where the client's own statements run. So it is where the id of the
    transaction is not known, because a transaction does not see what is undone when it ends.
    """
    if question.is_open:
        yield from _ask(question, own, transaction)
    return question.context.state


def _ask(question: Question, own: Executor, transaction: Shared | None) -> Flow[None]:
    statement = question.statement()
    if transaction is not None and transaction.is_open and question.transaction_id is not None:
        try:
            return question.answer((yield from transaction.execute(statement)))
        except ConnectionLostError as lost:
            logger.debug("the transaction's own connection cannot be asked: %s", lost)
    question.answer((yield from own.execute(statement)))
