"""Handling one message in a worker: runs the handler, and settles the message if the handler fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import tenacity

from pgqueue import telemetry
from pgqueue.errors import (
    DeadLetter,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    SettlementUndoneError,
    logger,
)
from pgqueue.flows import Executor, Flow, processing, settling
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about
from pgqueue.model.calls import checked_result
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.failure import from_users_code, text_of, titled, type_of
from pgqueue.model.handler import Handler
from pgqueue.statements import backends, queues
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import Processing, Recorder
from pgqueue.worker.durations import Durations
from pgqueue.worker.handlers import Routes
from pgqueue.worker.policy import Abandon, MoveToDeadLetters, RetryPolicy, Verdict, judge

#: Calls a handler as its driver requires: directly, in a thread, or in an event loop.
Call = Callable[..., Any]


@dataclass(frozen=True)
class HandlerSpec:
    """The handlers, the source of their transactions if they need any, and the policy for their failures."""

    routes: Routes
    transactions: processing.Transactions | None
    retry: RetryPolicy
    call: Call = Handler.__call__
    durations: Durations = field(default_factory=Durations)
    recorder: Recorder = field(default_factory=telemetry.recorder)

    @cached_property
    def policy(self) -> tenacity.Retrying:
        """The policy for attempts of a transaction on one lock."""
        return self.retry.transaction_retry()


def handle(message: LockedMessage, spec: HandlerSpec, span: Processing) -> Flow[BaseException | None]:
    """Run the handler on a message; return its error, if any.

    With a transaction, the message is completed here; without one, it is completed later, in a batch with others. A
    :class:`SettlementUndoneError` that nothing has followed yet is returned for a settlement that is still in doubt.
    """
    with span.at_work():
        try:
            yield from _run(message, spec, span)
        except Exception as failure:  # noqa: BLE001 - a handler may raise anything; the policy says what follows
            span.failed(failure)
            yield from fail(message, failure, spec.retry)
            return failure
    return SettlementUndoneError(processing.LEFT_OPEN) if message.context.is_in_doubt else None


def fail(message: LockedMessage, failure: BaseException, policy: RetryPolicy) -> Flow[None]:
    """Settle a message as the policy says. If that fails, the error is logged, and the lock expires."""
    verdict = judge(failure, message.delivery_count, policy, random.random())
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
                burial = verbs.dead_letter(message.lock, reason=reason, description=description, error=error)
                yield from settling.settle(message, Outcome.DEAD_LETTERED, burial)
    except (LockLostError, InvalidStateError) as lost:
        extra = about(message, message.delivery_count, lost)
        logger.info("%s was settled by somebody else meanwhile: %s", _name(message), lost, extra=extra)
    except PGQueueError as error:
        extra = about(message, message.delivery_count, error)
        logger.warning("%s could not be settled, its lock runs out by itself: %s", _name(message), error, extra=extra)


def _cause(failure: BaseException) -> BaseException | None:
    """The error to record: not a DeadLetter that describes itself."""
    if not isinstance(failure, DeadLetter):
        return failure
    return failure.__cause__ or (None if failure.description else failure)


def end_transaction(message: LockedMessage, own: Executor) -> Flow[None]:
    """Terminate the transaction that a handler works in: the rollback releases the message's row."""
    transaction_id = message.context.pinned_in
    if transaction_id is not None:
        yield from own.execute(backends.end_transaction(transaction_id))


def _run(message: LockedMessage, spec: HandlerSpec, span: Processing) -> Flow[None]:
    handler = spec.routes.find(message)
    began = time.perf_counter()
    work = partial(spec.call, handler, message)
    try:
        if spec.transactions is None or not handler.takes_transaction:
            checked_result((yield work))
            yield from _learn_outcome(message)
        else:
            yield from processing.attempts(message, work, spec.transactions, spec.policy, span.tries_again)
    finally:
        spec.durations.observe(time.perf_counter() - began)


def _learn_outcome(message: LockedMessage) -> Flow[None]:
    """Learn what became of a settlement in a transaction of the handler's. The worker asks again what is still open.

    Raises:
        SettlementUndoneError: it was undone.
    """
    context = message.context
    try:
        if (yield from processing.is_left_open(message)):
            extra = about(message, message.delivery_count)
            logger.warning("%s: %s", _name(message), processing.LEFT_OPEN, extra=extra)
    except PGQueueError as error:
        logger.debug("%s: the outcome of its settlement is asked again: %s", _name(message), error)
    context.transaction = None  # its connection is the handler's, and may be in use again
    context.refuse_undone()


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
        settings = yield from message._source.execute(queues.get_queue(message.queue))
    except PGQueueError:
        return limit
    return min(Limit(settings.max_delivery_count), limit, key=lambda each: each.deliveries)


def _log_failure(message: LockedMessage, failure: BaseException, verdict: Verdict, limit: Limit) -> None:
    name, count, trace = _name(message), message.delivery_count, None
    line = f"{name} is let go at delivery {count}: {titled(type_of(failure), text_of(failure))}"
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


def _name(message: LockedMessage) -> str:
    session = "" if message.session_id is None else f", session {message.session_id!r}"
    return f"message {message.sequence_number} of {message.queue}{session}"
