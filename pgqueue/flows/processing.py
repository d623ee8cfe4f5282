"""Work in a transaction that the library begins.

The lock is pinned before any work starts, and the message completed before the commit. A transaction that fails for a
passing reason is begun again on the same lock: back to step 3 of receiving by locking, not to step 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import tenacity
from tenacity import DoAttempt, DoSleep, RetryCallState

from pgqueue.errors import (
    CommitInDoubtError,
    ConnectionLostError,
    DeadLetter,
    LockLostError,
    PGQueueError,
    logger,
)
from pgqueue.flows import settling
from pgqueue.flows.flow import Begun, Executor, Flow, Pause
from pgqueue.model.about import about
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock
from pgqueue.model.policy import backoff, pauses, transient_only
from pgqueue.statements import settling as verbs

#: For how long the database is asked about a COMMIT whose connection broke, before its outcome is left open.
PATIENCE_WITH_A_COMMIT = timedelta(seconds=15)

SETTLED_BY_THE_WORK = (ReceiveState.COMPLETING, ReceiveState.COMPLETED, ReceiveState.ABANDONED)

Work = Callable[[Any], Any]
Begin = Callable[[], Flow[Begun]]


@dataclass
class Delivery:
    """What these flows need of a received message, and the id of the transaction that they have begun for it."""

    lock: Lock
    context: ReceiveContext
    delivery_count: int
    own: Executor
    begun: str | None = None


def enter(delivery: Delivery, begin: Begin) -> Flow[Begun]:
    """Begins a transaction and pins the lock in it: nobody can take the message over until it ends."""
    yield from settling.resolve(delivery.context, delivery.lock, delivery.own, None)
    delivery.context.require("transaction()", ReceiveState.RECEIVED)
    begun = yield from begin()
    try:
        delivery.begun = yield from begun.execute(verbs.pin(delivery.lock))
    except BaseException as error:
        yield from retreat(delivery, begun, error)
        raise
    return begun


def leave(delivery: Delivery, begun: Begun) -> Flow[None]:
    """Completes the message, unless the work has settled it, and commits."""
    context = delivery.context
    try:
        yield from settling.resolve(
            context, delivery.lock, begun, None
        )  # a savepoint may have undone what the work did
        if context.state not in SETTLED_BY_THE_WORK:
            context.begin(Event.COMPLETE, Outcome.COMPLETED)
            context.transaction_id = yield from begun.execute(verbs.complete(delivery.lock))
        yield from commit(delivery, begun)
    except BaseException as error:
        yield from retreat(delivery, begun, error)
        raise
    context.apply(Event.COMMITTED)
    delivery.begun = None
    yield from begun.release()


def retreat(delivery: Delivery, begun: Begun, error: BaseException) -> Flow[None]:
    """Rolls back: the message is still there and locked by us, unless its lock is what was lost."""
    delivery.begun = None
    yield from roll_back(begun)
    if isinstance(error, LockLostError):
        delivery.context.fault()
    elif not isinstance(error, CommitInDoubtError):
        delivery.context.apply(Event.ABORTED)


def roll_back(begun: Begun) -> Flow[None]:
    try:
        yield from begun.rollback()
    except PGQueueError as failure:
        logger.debug("the rollback did not reach the database, which does it by itself: %s", failure)
    yield from begun.release()


def process(delivery: Delivery, tried: Flow[Any]) -> Flow[Any]:
    """Answers with what the :func:`attempts` answer.

    When the policy gives up, or the failure will not pass, the message is abandoned with backoff and the error raised.
    """
    try:
        return (yield from tried)
    except DeadLetter as verdict:
        statement = verbs.dead_letter(delivery.lock, reason=verdict.reason, description=verdict.description)
        yield from settling.settle(delivery.context, statement, Outcome.DEAD_LETTERED, delivery.own, None)
    except Exception:
        yield from _give_up(delivery)
        raise


def attempts(delivery: Delivery, work: Work, begin: Begin, retry: tenacity.BaseRetrying) -> Flow[Any]:
    """Runs ``work`` in transactions on one lock until one commits, or raises what the last one failed with."""

    def attempt(number: int) -> Flow[Any]:
        if number > 1:
            yield from delivery.own.execute(verbs.renew_lock(delivery.lock, lock_duration=None))
        return (yield from _try(delivery, work, begin))

    return (yield from insist(attempt, retry))


def insist(attempt: Callable[[int], Flow[Any]], retry: tenacity.BaseRetrying) -> Flow[Any]:
    """Attempts something until it succeeds; raises what it failed with at last, or with no prospect of success."""
    policy = transient_only(retry)
    policy.begin()
    tries = RetryCallState(policy, None, (), {})
    while True:
        match policy.iter(retry_state=tries):
            case DoAttempt():
                try:
                    tries.set_result((yield from attempt(tries.attempt_number)))
                except Exception as error:  # noqa: BLE001 - the policy decides what to do about it
                    tries.set_exception((type(error), error, error.__traceback__))
            case DoSleep() as pause:
                tries.prepare_for_next_attempt()
                yield Pause(timedelta(seconds=pause))
            case result:
                return result


def _try(delivery: Delivery, work: Work, begin: Begin) -> Flow[Any]:
    begun = yield from enter(delivery, begin)
    try:
        result = yield lambda: work(begun.handle)
    except BaseException as error:
        yield from retreat(delivery, begun, error)
        raise
    yield from leave(delivery, begun)
    return result


def commit(delivery: Delivery, begun: Begun) -> Flow[None]:
    """Commits a transaction that completes this delivery, among others perhaps.

    When the connection breaks meanwhile, the outcome is asked of the database, not guessed.
    """
    try:
        yield from begun.commit()
    except ConnectionLostError as error:
        if delivery.context.transaction_id is None or not (yield from _was_committed(delivery, error)):
            raise


def _was_committed(delivery: Delivery, error: ConnectionLostError) -> Flow[bool]:
    assert delivery.context.transaction_id is not None
    question = verbs.resolve(delivery.lock, delivery.context.transaction_id)
    for pause in pauses(PATIENCE_WITH_A_COMMIT):
        try:
            answer = yield from delivery.own.execute(question)
        except PGQueueError as failure:
            if not failure.is_transient:
                raise
        else:
            if answer != "in progress":
                return answer == "committed"
        yield Pause(pause)
    raise CommitInDoubtError(
        f"the outcome of transaction {delivery.context.transaction_id} is not known yet"
    ) from error


def _give_up(delivery: Delivery) -> Flow[None]:
    """Abandons with backoff. If that fails too, the lock runs out by itself."""
    if delivery.context.state is not ReceiveState.RECEIVED:
        return
    statement = verbs.abandon(delivery.lock, delay=backoff(delivery.delivery_count), properties=None)
    try:
        yield from settling.abandon(delivery.context, statement, delivery.own, None)
    except PGQueueError as failure:
        logger.warning(
            "message %s of %s could not be abandoned, its lock runs out by itself: %s",
            delivery.lock.sequence_number,
            delivery.lock.queue,
            failure,
            extra=about(delivery.lock, delivery.delivery_count, failure),
        )
