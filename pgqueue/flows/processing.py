"""Work in a transaction that the library begins.

The lock is pinned before any work starts, and the message is completed before the commit. A transaction that fails
with a transient error is begun again on the same lock; the message is not received again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

import tenacity

from pgqueue.errors import (
    DeadLetter,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    SettlementUndoneError,
    WrongTransactionError,
    logger,
)
from pgqueue.flows.flow import Begun, Flow, Pause, Step, in_step, source_of
from pgqueue.flows.in_doubt import was_committed
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.settling import Question, is_open, pinned, resolve, settle
from pgqueue.model.about import about
from pgqueue.model.backoff import Backoff
from pgqueue.model.calls import UnfinishedError, checked_result
from pgqueue.model.context import Event, Outcome, ReceiveState, apply_all, was_refused
from pgqueue.model.policy import OnRetry, Tries
from pgqueue.statements import Statement
from pgqueue.statements import settling as verbs

#: The delay of a message after a failed delivery.
RESTS = Backoff(timedelta(seconds=1), timedelta(minutes=5))

SETTLED_BY_THE_WORK = (ReceiveState.COMPLETING, ReceiveState.COMPLETED, ReceiveState.ABANDONED)

#: The error of opening a transaction for a message that has one.
PINNED = "the message is locked by the transaction that was begun for it: work in that one, and settle it there"

#: The error of settling a message in a transaction that is left open.
LEFT_OPEN = "the work has settled the message in a transaction that it has left open: commit it before it returns"

T = TypeVar("T")

#: Makes the step that works on a message, within the interceptors; called with its transaction if it has one.
Work = Callable[..., Step]
Begin = Callable[[], Flow[Begun]]


def enter(message: LockedMessage, begin: Begin) -> Flow[Begun]:
    """Begin a transaction and pin the lock in it: no other receiver gets the message until it ends."""
    context = message.context
    if context.pinned_in is not None and not source_of(message).is_one_connection:
        raise InvalidStateError(PINNED)
    yield from _begin_work(message, "transaction()")
    begun = yield from begin()
    try:
        context.pinned_in = yield from begun.execute(verbs.pin(message.lock))
    except BaseException as error:
        yield from roll_back_delivery(message, begun, error)
        raise
    return begun


def _begin_work(message: LockedMessage, call: str) -> Flow[None]:
    """Refuse a message that is over; what was undone before does not matter."""
    yield from resolve(message)
    message.context.require(call, ReceiveState.RECEIVED)
    message.context.was_undone = False


def leave(message: LockedMessage, begun: Begun) -> Flow[None]:
    """Complete the message, unless the work has settled it, and commit."""
    last = yield from _last_statement(message, begun)
    yield from commit_one(message, begun, last)


def _last_statement(message: LockedMessage, begun: Begun) -> Flow[Statement[Any] | None]:
    """The last statement of the transaction, which completes the message; None if the work has completed it."""
    context = message.context
    try:
        is_unsettled = yield from begin_completion(message, begun)
    except BaseException as error:
        yield from roll_back_delivery(message, begun, error)
        raise
    if is_unsettled:
        pinned_in = context.pinned_in  # None once a block within this one has ended
        return verbs.complete(message.lock) if pinned_in is None else verbs.complete_pinned(message.lock, pinned_in)
    if context.state is ReceiveState.ABANDONED:  # asked nothing, so the transaction may have failed unnoticed
        return proof_of_transaction(message)
    return None


def proof_of_transaction(message: LockedMessage) -> Statement[None]:
    """A statement that fails unless the transaction that was begun for the message is open, and has not failed."""
    assert message.context.pinned_in is not None, "it is pinned"
    return verbs.prove_transaction(message.context.pinned_in, message.queue)


def commit_one(
    message: LockedMessage, begun: Begun, last: Statement[Any] | None, following: Statement[T] | None = None
) -> Flow[T | None]:
    """Commit the transaction that was begun for the message."""
    try:
        return (yield from commit([message], begun, last, following))
    finally:
        message.context.pinned_in = None


def settle_within(message: LockedMessage, outcome: Outcome, statement: Statement[Any], begun: Begun) -> Flow[None]:
    """Settle the message in the transaction that was begun for it."""
    context, call = message.context, object()
    try:
        yield from context.enter(outcome, call)
        context.transaction_id = context.pinned_in
        yield from begun.execute(pinned(message, statement))
        context.end(call)
    except BaseException as error:
        context.fail(call, error)
        raise


def begin_completion(message: LockedMessage, begun: Begun) -> Flow[bool]:
    """Begin to complete the message in the transaction that was begun for it; False if the work has settled it.

    Raises:
        SettlementUndoneError: the work has settled it in a savepoint that was rolled back.
    """
    context = message.context
    if context.state is not ReceiveState.RECEIVED:
        yield from _settle_unresolved(message, begun)
        if context.state in SETTLED_BY_THE_WORK:
            return False
    context.refuse_undone()
    yield from context.enter(Outcome.COMPLETED)
    context.transaction_id = context.pinned_in
    return True


def _settle_unresolved(message: LockedMessage, begun: Begun) -> Flow[None]:
    """Resolve a settlement by the work, in the transaction: a savepoint or an interruption may have undone it."""
    context = message.context
    if context.is_in_doubt and context.transaction_id is None:
        context.transaction_id = context.pinned_in
    if is_open(context):
        question = Question(message, None)
        question.answer((yield from begun.execute(question.statement())))


def roll_back_delivery(message: LockedMessage, begun: Begun, error: BaseException) -> Flow[None]:
    """Roll back: the message is still there and locked by us, unless the error is a lost lock."""
    context = message.context
    context.pinned_in = None
    yield from roll_back(begun)
    if isinstance(error, LockLostError):
        context.fault_and_log()
    elif context.state is not ReceiveState.COMPLETED:  # if it is, the work itself has committed
        context.apply(Event.ABORTED)


def roll_back(begun: Begun) -> Flow[None]:
    try:
        yield from begun.rollback()
    except PGQueueError as failure:
        logger.debug("the rollback failed; the database rolls back when the connection ends: %s", failure)
    finally:
        yield from begun.release()


def handling(message: LockedMessage, call: Callable[..., Any], *transaction: Any) -> Step:
    """The step that handles a message, within the interceptors."""
    interceptors = source_of(message).interceptors
    if interceptors is None:
        return lambda: call(message, *transaction)
    return partial(
        interceptors.around, "handle", message, lambda received: in_step(partial(call, received, *transaction))
    )


def process(message: LockedMessage, tried: Flow[Any]) -> Flow[Any]:
    """Return the result of :func:`attempts`, or of :func:`without_transaction`.

    If the policy gives up, or the error is not transient, the message is abandoned with backoff and the error raised.
    """
    try:
        return (yield from tried)
    except DeadLetter as verdict:
        statement = verbs.dead_letter(
            message.lock, reason=verdict.reason, description=verdict.description, error=verdict.__cause__
        )
        yield from settle(message, Outcome.DEAD_LETTERED, statement)
    except UnfinishedError:  # every delivery would fail in the same way: the message stays locked
        raise
    except Exception as error:
        yield from _give_up(message, error)
        raise


def renew(message: LockedMessage) -> Flow[None]:
    yield from source_of(message).execute(verbs.renew_lock(message.lock, lock_duration=None))


def without_transaction(
    message: LockedMessage,
    work: Work,
    policy: tenacity.Retrying,
    on_retry: OnRetry,
) -> Flow[Any]:
    """Run ``work`` without a transaction of ours, and complete the message afterwards, unless the work has settled it.

    Raises:
        SettlementUndoneError: the work has settled it in a transaction of its own that is not committed.
    """

    def attempt(number: int) -> Flow[Any]:
        if number > 1:
            yield from renew(message)
        yield from _begin_work(message, "process()")
        result = checked_result((yield work()))
        if (yield from is_left_open(message)):
            raise SettlementUndoneError(LEFT_OPEN)
        message.context.refuse_undone()
        return result

    result = yield from retry(attempt, policy, on_retry)
    yield from retry(lambda _: _complete(message), policy, on_retry)
    return result


def is_left_open(message: LockedMessage) -> Flow[bool]:
    """Learn the outcome of a settlement by the work. True if there is none yet: its transaction was left open."""
    context = message.context
    if context.is_in_doubt:
        yield from resolve(message)
    return context.is_in_doubt and context.transaction is not None and context.transaction.is_open


def _complete(message: LockedMessage) -> Flow[None]:
    if message.context.is_in_doubt:
        yield from resolve(message)
    if message.context.state not in SETTLED_BY_THE_WORK:
        yield from settle(message, Outcome.COMPLETED, verbs.complete(message.lock))


def attempts(
    message: LockedMessage,
    work: Work,
    transactions: Transactions,
    policy: tenacity.Retrying,
    on_retry: OnRetry,
) -> Flow[Any]:
    """Run ``work`` in transactions on one lock until one commits; raise the error of the last one."""

    def attempt(number: int) -> Flow[Any]:
        if number > 1:
            yield from renew(message)
        begun = yield from transactions.enter(message)
        try:
            result = checked_result((yield work(begun.handle)))
        except BaseException as error:
            yield from roll_back_delivery(message, begun, error)
            raise
        yield from transactions.leave(message, begun)
        return result

    return (yield from retry(attempt, policy, on_retry))


def retry(
    attempt: Callable[[int], Flow[Any]],
    policy: tenacity.Retrying,
    on_retry: OnRetry,
) -> Flow[Any]:
    """Call ``attempt`` until it succeeds; raise its error when the policy gives up or does not retry that error."""
    tries = Tries(policy)
    while True:
        tries.begin()
        try:
            return (yield from attempt(tries.number))
        except Exception as error:
            pause = tries.pause_after(error, on_retry)
            if pause is None:
                raise
        yield Pause(pause)


class Transactions:
    """The transactions of work on messages: each begins and ends with the work on one message."""

    def __init__(self, begin: Begin) -> None:
        self.begin = begin

    def enter(self, message: LockedMessage) -> Flow[Begun]:
        return enter(message, self.begin)

    def leave(self, message: LockedMessage, begun: Begun) -> Flow[None]:
        return leave(message, begun)


class Ahead(Protocol):
    """Messages that are locked and wait for a handler."""

    def get_nowait(self) -> LockedMessage | None: ...

    def put_back(self, message: LockedMessage) -> None: ...


class Chain(Transactions):
    """Transactions that follow each other on one connection.

    The COMMIT of one is sent with the BEGIN and the pin of the next, if another message is ready by then. If that
    COMMIT fails, the next message is put back for any thread to take: recovery of the failed one may take long.
    """

    def __init__(self, begin: Begin, ahead: Ahead) -> None:
        super().__init__(begin)
        self._ahead = ahead
        self._begun: Begun | None = None
        #: The message of the next transaction.
        self.next: LockedMessage | None = None

    def enter(self, message: LockedMessage) -> Flow[Begun]:
        begun, self._begun = self._begun, None
        if message is self.next:
            self.next = None
            if begun is not None:
                if message.context.state is ReceiveState.RECEIVED:
                    return begun
                yield from roll_back_delivery(message, begun, InvalidStateError("its lock was lost"))
        return (yield from enter(message, self.begin))

    def leave(self, message: LockedMessage, begun: Begun) -> Flow[None]:
        last = yield from _last_statement(message, begun)
        following = self._ahead.get_nowait() if last is not None and begun.can_commit_and_begin else None
        if following is None:
            yield from commit_one(message, begun, last)
            return
        try:
            pinned_in = yield from commit_one(
                message, begun, last, verbs.pin(following.lock, release_advisory_locks=True)
            )
        except BaseException:
            self._ahead.put_back(following)
            raise
        self.next = following
        if pinned_in is not None:
            following.context.pinned_in, self._begun = pinned_in, begun

    def break_off(self) -> Flow[LockedMessage | None]:
        """Roll back the transaction that was begun for the next message, and return that message."""
        following, begun = self.next, self._begun
        self.next = self._begun = None
        if following is not None and begun is not None:
            following.context.pinned_in = None
            yield from roll_back(begun)
        return following


def commit(
    messages: Sequence[LockedMessage],
    begun: Begun,
    last: Statement[Any] | None = None,
    following: Statement[T] | None = None,
) -> Flow[T | None]:
    """Run the last statement of the transaction of these deliveries, commit, and report the outcome to their contexts.

    A refused COMMIT is undone. If the COMMIT may have been sent but its answer was lost, the database is asked for the
    outcome. A cancelled task does not ask: the outcome stays in doubt until ``resolve`` is called.

    A ``following`` statement begins the next transaction, and its result is returned. If it fails, the result is None
    and no transaction is open.
    """
    result: T | None = None
    try:
        if following is None or last is None:
            yield from begun.commit(last)
        else:
            result = yield from begun.commit_and_begin(last, following)
    except Exception as error:
        yield from roll_back(begun)
        # The transaction that pinned the message may have been committed before, by its work.
        is_undone = isinstance(error, WrongTransactionError) or (following is None and was_refused(error))
        if is_undone or not (yield from _was_committed(messages[0], error)):
            _undo(messages, error)
            raise
        _apply(messages, Event.COMMITTED)
    except BaseException:
        yield from roll_back(begun)
        for message in messages:
            message.context.retract()
        raise
    else:
        _apply(messages, Event.COMMITTED)
        if following is None:
            yield from begun.release()
    return result


def _was_committed(message: LockedMessage, error: Exception) -> Flow[bool]:
    pinned_in = message.context.pinned_in
    assert pinned_in is not None, "it was pinned"
    question = verbs.resolve(message.lock, pinned_in, message.locked_until)
    return (yield from was_committed(pinned_in, question, source_of(message), error))


def _undo(messages: Sequence[LockedMessage], error: Exception) -> None:
    _apply(messages, Event.ABORTED)
    if isinstance(error, LockLostError) and len(messages) == 1:
        messages[0].context.fault_and_log()


def _apply(messages: Sequence[LockedMessage], event: Event) -> None:
    apply_all([message.context for message in messages], event)


def _give_up(message: LockedMessage, error: Exception) -> Flow[None]:
    """Abandon with backoff, and keep the error. If that fails too, the lock expires."""
    if message.context.state is not ReceiveState.RECEIVED:
        return
    delay = RESTS.pause(message.delivery_count)
    statement = verbs.abandon(message.lock, delay=delay, properties=None, error=error)
    try:
        yield from settle(message, Outcome.ABANDONED, statement)
    except Exception as failure:  # noqa: BLE001 - a callback of the application may raise anything
        logger.warning(
            "message %s of %s could not be abandoned; it is delivered again after its lock expires: %s",
            message.sequence_number,
            message.queue,
            failure,
            exc_info=None if isinstance(failure, PGQueueError) else failure,
            extra=about(message, message.delivery_count, failure),
        )
