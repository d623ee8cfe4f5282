"""Settling a delivery, in a transaction of its own or in the caller's, and learning the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pgqueue.errors import (
    ConnectionLostError,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    TransactionRequiredError,
    logger,
)
from pgqueue.flows.flow import Executor, Flow, Shared, source_of
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about_all
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock
from pgqueue.statements import Statement, settling

T = TypeVar("T")

WAITS = "the message is locked by the transaction of this block: settle it with transaction=…, or after the block"

STILL_LOCKED = (ReceiveState.RECEIVED, ReceiveState.COMPLETING)


def is_open(context: ReceiveContext) -> bool:
    """Whether the outcome should be asked for, as also for a commit that only the caller has reported."""
    known = context.state is ReceiveState.COMPLETED and context.transaction_id is not None
    return known or context.is_in_doubt


class Question:
    """The question for the outcome of a settlement; the answer is valid for the transaction in it only."""

    def __init__(self, message: LockedMessage, locked_until: datetime | None) -> None:
        self.context = message.context
        self.transaction_id = message.context.transaction_id
        self.lock = message.lock
        self.locked_until = locked_until

    def statement(self) -> Statement[str]:
        return settling.resolve(self.lock, self.transaction_id, self.locked_until)

    def answer(self, answer: str) -> None:
        """Apply the answer to the delivery, unless another settlement has begun meanwhile."""
        if not is_open(self.context) or self.context.transaction_id != self.transaction_id:
            return
        match answer:
            case "committed":
                self.context.apply(Event.COMMITTED)
            case "aborted":
                self.context.apply(Event.ABORTED)
            case "gone" if self.context.state is ReceiveState.ABANDONING:
                self.context.apply(Event.COMMITTED)  # the message is no longer ours, as an abandonment intends
            case "gone":
                self.context.fault_and_log()


def settle(
    message: LockedMessage, outcome: Outcome, statement: Statement[Any], transaction: Shared | None = None
) -> Flow[None]:
    """Settle: final when the transaction commits, undone when it aborts. Abandoning twice has no further effect."""
    context, call = message.context, object()
    yield from prepare(message, transaction)
    statement = pinned(message, statement)
    try:
        if not (yield from context.enter(outcome, call)):
            return
        context.transaction = transaction
        if transaction is None or outcome is Outcome.ABANDONED:
            yield from (transaction or source_of(message)).execute(statement)
            context.apply(Event.COMMITTED)
        else:
            context.transaction_id = yield from transaction.execute(settling.with_transaction_id(statement))
            yield from transaction.follow([context])
            context.end(call)
    except LockLostError:
        context.fault_and_log()
        raise
    except BaseException as error:
        context.fail(call, error)
        raise


def prepare(message: LockedMessage, transaction: Shared | None) -> Flow[None]:
    """Resolve an earlier settlement in doubt, and refuse one that would wait for our own transaction."""
    if message.context.is_in_doubt:
        yield from resolve(message)
    if waits_for_ourselves(message, transaction):
        raise InvalidStateError(WAITS)


def waits_for_ourselves(message: LockedMessage, transaction: Shared | None) -> bool:
    """Whether a settlement there waits for the transaction of a ``transaction()`` block, which has locked the row."""
    return transaction is None and message.context.pinned_in is not None


def pinned(message: LockedMessage, statement: Statement[T]) -> Statement[T]:
    """The statement, refused outside of the transaction that pins the message, where it would wait or be too late."""
    pinned_in = message.context.pinned_in
    return statement if pinned_in is None else settling.in_transaction(pinned_in, statement)


def renew_lock(
    message: LockedMessage, lock_duration: timedelta | None, transaction: Shared | None = None
) -> Flow[datetime]:
    """Renew the lock, if the transaction commits; return the time at which it expires."""
    if message.context.is_in_doubt:
        yield from resolve(message)
    message.context.require("renew_lock()", *STILL_LOCKED)
    statement = settling.renew_lock(message.lock, lock_duration=lock_duration)
    try:
        locked_until = yield from (
            source_of(message).execute(statement)
            if transaction is None
            else transaction.execute(pinned(message, statement))
        )
    except LockLostError:
        message.context.lose()
        raise
    if transaction is None:
        message.locked_until = locked_until
    return locked_until


def release(queue: str, locks: Sequence[Lock], source: Executor) -> Flow[None]:
    """Release messages that no work has begun on, without counting the delivery.

    If that fails, the locks expire.
    """
    if not locks:
        return
    try:
        yield from source.execute(settling.release_batch(queue, locks))
    except PGQueueError as failure:
        logger.warning(
            "%d messages of %s could not be released; they are delivered again after their locks expire: %s",
            len(locks),
            queue,
            failure,
            extra=about_all(queue, locks, failure),
        )


def resolve(message: LockedMessage) -> Flow[ReceiveState]:
    """Ask the database for the outcome of a settlement in doubt.

    While its transaction is still open, it is asked on that connection, so that no second one is needed. If that
    connection turns out to be lost, or to be in a later transaction, which may be another caller's, or the transaction
    to have failed, or its id is unknown, the client's source is asked. Without the id, the transaction itself could not
    decide that: it does not see what a rollback will undo.
    """
    if is_open(message.context):
        yield from _ask(Question(message, message.locked_until), source_of(message), message.context.transaction)
    return message.context.state


def _ask(question: Question, source: Executor, transaction: Shared | None) -> Flow[None]:
    statement = question.statement()
    if transaction is not None and transaction.is_open and question.transaction_id is not None:
        try:
            match (yield from transaction.execute(settling.transaction_status(question.transaction_id))):
                case "aborted" as undone:
                    return question.answer(undone)
                case "in progress":
                    return question.answer((yield from transaction.execute(statement)))
        except (ConnectionLostError, TransactionRequiredError) as failure:
            logger.debug("the transaction cannot be asked any more; another connection is: %s", failure)
    question.answer((yield from source.execute(statement)))
