"""Work in a transaction that the library begins.

The lock is pinned before any work starts, and the message completed before the commit. A transaction that fails for a
passing reason is begun again on the same lock: back to step 3 of receiving by locking, not to step 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import tenacity
from tenacity import DoAttempt, DoSleep, RetryCallState

from pgqueue.errors import (
    CommitInDoubtError,
    DeadLetter,
    LockLostError,
    PGQueueError,
    logger,
)
from pgqueue.flows import settling
from pgqueue.flows.flow import Begun, Executor, Flow, Pause
from pgqueue.model.about import about
from pgqueue.model.calls import UnfinishedError, finished
from pgqueue.model.context import Event, Outcome, ReceiveContext, ReceiveState, was_refused
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
    resolve: Callable[[], Flow[ReceiveState]]
    begun: str | None = None


def enter(delivery: Delivery, begin: Begin) -> Flow[Begun]:
    """Begins a transaction and pins the lock in it: nobody can take the message over until it ends."""
    yield from delivery.resolve()
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
        yield from _settle_unresolved(delivery, begun)
        if context.state not in SETTLED_BY_THE_WORK:
            yield from complete(delivery, begun)
    except BaseException as error:
        yield from retreat(delivery, begun, error)
        raise
    try:
        yield from commit([delivery], begun)
    finally:
        delivery.begun = None


def complete(delivery: Delivery, begun: Begun) -> Flow[None]:
    """Completes the message in the transaction that was begun for it."""
    context, call = delivery.context, object()
    try:
        yield from context.enter(Event.COMPLETE, Outcome.COMPLETED, call)
        context.transaction_id = delivery.begun
        yield from begun.execute(verbs.complete(delivery.lock))
        context.end(call)
    except BaseException as error:
        context.fail(call, error)
        raise


def _settle_unresolved(delivery: Delivery, begun: Begun) -> Flow[None]:
    """A savepoint may have undone what the work did, or an interruption cut it short: the transaction itself knows."""
    context = delivery.context
    if context.is_in_doubt and context.transaction_id is None:
        context.transaction_id = delivery.begun
    question = settling.Question(context, delivery.lock, None)
    if question.is_open:
        question.answer((yield from begun.execute(question.statement())))


def retreat(delivery: Delivery, begun: Begun, error: BaseException) -> Flow[None]:
    """Rolls back: the message is still there and locked by us, unless its lock is what was lost."""
    delivery.begun = None
    yield from roll_back(begun)
    if isinstance(error, LockLostError):
        delivery.context.fault()
    elif delivery.context.state is not ReceiveState.COMPLETED:  # the work has committed by itself
        delivery.context.apply(Event.ABORTED)


def roll_back(begun: Begun) -> Flow[None]:
    try:
        yield from begun.rollback()
    except PGQueueError as failure:
        logger.debug("the rollback did not reach the database, which does it by itself: %s", failure)
    finally:
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
    except UnfinishedError:  # no delivery of it would end otherwise: it stays received
        raise
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
        result = finished((yield lambda: work(begun.handle)))
    except BaseException as error:
        yield from retreat(delivery, begun, error)
        raise
    yield from leave(delivery, begun)
    return result


def commit(deliveries: Sequence[Delivery], begun: Begun) -> Flow[None]:
    """Commits a transaction that was begun for these deliveries, and tells them.

    A COMMIT that was refused is undone. When it may have been sent and nobody heard the answer, the outcome is asked of
    the database, not guessed. Who is cancelled has no time to ask: it stays open then, and ``resolve`` asks.
    """
    try:
        yield from begun.commit()
    except BaseException as error:
        yield from roll_back(begun)
        if not isinstance(error, Exception):
            for delivery in deliveries:
                delivery.context.retract()
            raise
        if was_refused(error) or not (yield from _was_committed(deliveries[0], error)):
            _tell(deliveries, Event.ABORTED)
            raise
        _tell(deliveries, Event.COMMITTED)
    else:
        _tell(deliveries, Event.COMMITTED)
        yield from begun.release()


def _tell(deliveries: Sequence[Delivery], event: Event) -> None:
    for delivery in deliveries:
        delivery.context.apply(event)


def _was_committed(delivery: Delivery, error: Exception) -> Flow[bool]:
    assert delivery.begun is not None, "it was pinned"
    question = verbs.resolve(delivery.lock, delivery.begun, None)
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
    raise CommitInDoubtError(f"the outcome of transaction {delivery.begun} is not known yet") from error


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
