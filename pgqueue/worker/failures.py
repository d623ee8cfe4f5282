"""Failures of handlers: they are logged, and their messages are settled by the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgqueue.errors import DeadLetter, InvalidStateError, LockLostError, PGQueueError, logger
from pgqueue.flows import Executor, Flow, settling
from pgqueue.flows.flow import source_of
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about
from pgqueue.model.backoff import by_chance
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.failure import from_users_code, text_of, titled, type_of
from pgqueue.statements import backends, queues
from pgqueue.statements import settling as verbs
from pgqueue.worker.policy import Abandon, MoveToDeadLetters, RetryPolicy, Verdict, judge


def fail(
    message: LockedMessage, failure: BaseException, policy: RetryPolicy, verdict: Verdict | None = None
) -> Flow[None]:
    """Settle a message by the verdict, by default that of the policy. If that fails, the lock expires."""
    verdict = verdict or judge(failure, message.delivery_count, policy, by_chance())
    limit = (yield from _limit(message, policy)) if isinstance(verdict, Abandon) else Limit()
    _log_failure(message, failure, verdict, limit)
    error = _cause(failure)
    if message.context.state is not ReceiveState.RECEIVED:
        return
    try:
        match verdict:
            case Abandon(delay):
                statement = verbs.abandon(message.lock, delay=delay, properties=None, error=error)
                yield from settling.settle(message, Outcome.ABANDONED, statement)
            case MoveToDeadLetters(reason, description):
                move = verbs.dead_letter(message.lock, reason=reason, description=description, error=error)
                yield from settling.settle(message, Outcome.DEAD_LETTERED, move)
    except (LockLostError, InvalidStateError) as lost:
        extra = about(message, message.delivery_count, lost)
        logger.info("%s was settled elsewhere meanwhile: %s", name_of(message), lost, extra=extra)
    except Exception as error:  # noqa: BLE001 - a callback of the application may raise anything
        extra = about(message, message.delivery_count, error)
        trace = None if isinstance(error, PGQueueError) else error
        line = "%s could not be settled, its lock runs out by itself: %s"
        logger.warning(line, name_of(message), error, exc_info=trace, extra=extra)


def fail_without_handler(
    message: LockedMessage, failure: BaseException, policy: RetryPolicy, own: Executor
) -> Flow[None]:
    """Settle the message of a handler that has not returned; its transaction is terminated, which rolls it back."""
    context = message.context
    pinned_in = context.pinned_in
    try:
        if pinned_in is not None:
            yield from own.execute(backends.end_transaction(pinned_in))
            if context.state is ReceiveState.RECEIVED:  # else a COMMIT is at work, and asks for its outcome by this id
                context.pinned_in = None
        yield from fail(message, failure, policy)
    except PGQueueError as error:
        extra = about(message, message.delivery_count, error)
        logger.warning("the transaction of %s could not be terminated: %s", name_of(message), error, extra=extra)
    finally:
        context.pinned_in = pinned_in  # the handler may still return


def _cause(failure: BaseException) -> BaseException | None:
    """The error to record: not a DeadLetter that describes itself."""
    if not isinstance(failure, DeadLetter):
        return failure
    return failure.__cause__ or (None if failure.description else failure)


@dataclass(frozen=True)
class Limit:
    """How often the message may be delivered, and the option with that limit, if it is not the queue's."""

    deliveries: float = float("inf")
    option: str = ""

    def place(self, delivery_count: int) -> str:
        """A delivery among those that are allowed."""
        is_known = self.deliveries < float("inf")
        return f"{delivery_count} of {self.deliveries}{self.option}" if is_known else str(delivery_count)


def _limit(message: LockedMessage, policy: RetryPolicy) -> Flow[Limit]:
    """The lower of the queue's and the worker's limit; the worker's if the queue's cannot be read."""
    limit = Limit() if policy.max_attempts is None else Limit(policy.max_attempts, " (max_attempts)")
    try:
        settings = yield from source_of(message).execute(queues.get_queue(message.queue))
    except PGQueueError:
        return limit
    return min(Limit(settings.max_delivery_count), limit, key=lambda each: each.deliveries)


def _log_failure(message: LockedMessage, failure: BaseException, verdict: Verdict, limit: Limit) -> None:
    name, count, trace = name_of(message), message.delivery_count, None
    line = f"{name} is left locked at delivery {count}: {titled(type_of(failure), text_of(failure))}"
    match verdict:
        case Abandon(delay):
            rest = f"will be redelivered in {delay.total_seconds():.1f} s"
            after = "is dead-lettered as MaxDeliveryCountExceeded" if count >= limit.deliveries else rest
            which = limit.place(count)
            trace = _trace(failure)
            if trace is None:
                line = f"{name} failed at delivery {which}, and {after}: {titled(type_of(failure), text_of(failure))}"
            else:
                line = f"the handler failed on {name}, delivery {which}: it {after}"
        case MoveToDeadLetters(reason, _, summary):
            line = f"{name} is dead-lettered at delivery {count}: {titled(reason, summary)}"
    logger.warning("%s", line, exc_info=trace, extra=about(message, count, failure))


def _trace(failure: BaseException) -> Any:
    """The traceback to log: from the handler on. An error of ours that no handler has raised is logged in one line."""
    begin = from_users_code(failure)
    if begin is None and isinstance(failure, PGQueueError):
        return None
    return type(failure), failure, begin or failure.__traceback__


def name_of(message: LockedMessage) -> str:
    """The message, for people."""
    session = "" if message.session_id is None else f", session {message.session_id!r}"
    return f"message {message.sequence_number} of {message.queue}{session}"
