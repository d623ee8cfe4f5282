"""Settling a delivery, in a transaction of its own or in the caller's, and learning what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pgqueue.errors import ConnectionLostError, InvalidStateError, LockLostError, PGQueueError, logger
from pgqueue.flows.flow import Executor, Flow, Shared
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about_all
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock
from pgqueue.statements import Statement, settling

STILL_LOCKED = (ReceiveState.RECEIVED, ReceiveState.COMPLETING)


def is_open(context: ReceiveContext) -> bool:
    """Whether there is anything to ask. A commit that was announced by somebody else is asked about, too."""
    known = context.state is ReceiveState.COMPLETED and context.transaction_id is not None
    return known or context.is_in_doubt


class Question:
    """What became of a settlement: to be asked of the database, which answers for the transaction asked about only."""

    def __init__(self, message: LockedMessage, locked_until: datetime | None) -> None:
        self.context = message.context
        self.transaction_id = message.context.transaction_id
        self.lock = message.lock
        self.locked_until = locked_until

    def statement(self) -> Statement[str]:
        return settling.resolve(self.lock, self.transaction_id, self.locked_until)

    def answer(self, answer: str) -> None:
        """Tells the delivery, unless that has been settled anew meanwhile."""
        if not is_open(self.context) or self.context.transaction_id != self.transaction_id:
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
    message: LockedMessage, outcome: Outcome, statement: Statement[Any], transaction: Shared | None = None
) -> Flow[None]:
    """Settles: final once its transaction commits, undone when that aborts. Abandoning twice has no further effect."""
    context, call = message.context, object()
    yield from prepare(message, transaction)
    try:
        if not (yield from context.enter(outcome, call)):
            return
        context.transaction = transaction
        transaction_id = yield from (transaction or message._source).execute(statement)
        if transaction is None or outcome is Outcome.ABANDONED:
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


def prepare(message: LockedMessage, transaction: Shared | None) -> Flow[None]:
    """Before a settlement: what became of the one before is known, and this one would not wait for ourselves."""
    if message.context.is_in_doubt:
        yield from resolve(message)
    refuse_to_wait_for_ourselves(message, transaction)


def refuse_to_wait_for_ourselves(message: LockedMessage, transaction: Shared | None) -> None:
    """In the block of ``transaction()`` the message is held by the transaction of that block."""
    if transaction is None and message.context.pinned_in is not None:
        raise InvalidStateError(
            "the message is held by the transaction of this block: settle it there, with transaction=…, or after it"
        )


def renew_lock(message: LockedMessage, lock_duration: timedelta | None) -> Flow[datetime]:
    """Renews the lock; returns until when it lasts."""
    if message.context.is_in_doubt:
        yield from resolve(message)
    message.context.require("renew_lock()", *STILL_LOCKED)
    try:
        locked_until = yield from message._source.execute(
            settling.renew_lock(message.lock, lock_duration=lock_duration)
        )
    except LockLostError:
        message.context.lose()
        raise
    message.locked_until = locked_until
    return locked_until


def release(queue: str, locks: Sequence[Lock], source: Executor) -> Flow[None]:
    """Gives back messages that nobody has begun to work on, without counting the delivery.

    If that fails, the locks run out by themselves.
    """
    if not locks:
        return
    try:
        yield from source.execute(settling.release_batch(queue, locks))
    except PGQueueError as failure:
        logger.warning(
            "%d messages of %s could not be given back, their locks run out by themselves: %s",
            len(locks),
            queue,
            failure,
            extra=about_all(queue, locks, failure),
        )


def resolve(message: LockedMessage) -> Flow[ReceiveState]:
    """Asks the database what became of a settlement whose end nobody told us.

    While its transaction may still be open it is asked there, so that no second connection is needed. A connection may
    be dead and not know it: then it is asked where the client's own statements run. So it is where the id of the
    transaction is not known, because a transaction does not see what is undone when it ends.
    """
    if is_open(message.context):
        yield from _ask(Question(message, message.locked_until), message._source, message.context.transaction)
    return message.context.state


def _ask(question: Question, source: Executor, transaction: Shared | None) -> Flow[None]:
    statement = question.statement()
    if transaction is not None and transaction.is_open and question.transaction_id is not None:
        try:
            return question.answer((yield from transaction.execute(statement)))
        except ConnectionLostError as lost:
            logger.debug("the transaction's own connection cannot be asked: %s", lost)
    question.answer((yield from source.execute(statement)))
