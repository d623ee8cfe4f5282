"""What a worker does with one message: runs the handler, and settles the message when that fails."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import tenacity

from pgqueue import telemetry
from pgqueue.errors import InvalidArgumentError, InvalidStateError, LockLostError, PGQueueError, logger
from pgqueue.flows import Executor, Flow, processing, settling
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about
from pgqueue.model.calls import checked_result
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.statements import backends
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import Processing, Recorder
from pgqueue.worker.durations import Durations
from pgqueue.worker.policy import Abandon, LeaveLocked, MoveToDeadLetters, RetryPolicy, judge

#: Calls the handler as its driver must: at once, in a thread, in an event loop. With a transaction or without.
Call = Callable[..., Any]


@dataclass(frozen=True)
class HandlerSpec:
    """The handler, where it has its transactions from if it shall have any, and what follows when it fails."""

    call: Call
    transactions: processing.Transactions | None
    retry: RetryPolicy
    durations: Durations = field(default_factory=Durations)
    recorder: Recorder = field(default_factory=telemetry.recorder)

    @cached_property
    def policy(self) -> tenacity.Retrying:
        """How often a transaction is tried on one lock."""
        return self.retry.transaction_retry()


def handle(message: LockedMessage, spec: HandlerSpec, span: Processing) -> Flow[BaseException | None]:
    """Runs the handler on a message; answers with the error it failed with, if it did.

    With a transaction the message is completed then; without one it is left to be completed, with others in a batch.
    """
    with span.at_work():
        try:
            yield from _run(message, spec, span)
        except Exception as failure:  # noqa: BLE001 - a handler may raise anything; the policy says what follows
            span.failed(failure)
            yield from fail(message, failure, spec.retry)
            return failure
    return None


def fail(message: LockedMessage, failure: BaseException, policy: RetryPolicy) -> Flow[None]:
    """Settles a message as the policy says. What cannot be settled is logged, and its lock runs out by itself."""
    verdict = judge(failure, message.delivery_count, policy, random.random())
    _log_failure(message, failure, verdict)
    if message.context.state is not ReceiveState.RECEIVED:
        return
    try:
        match verdict:
            case Abandon(delay):
                statement = verbs.abandon(message.lock, delay=delay, properties=None)
                yield from settling.settle(message, Outcome.ABANDONED, statement)
            case MoveToDeadLetters(reason, description):
                burial = verbs.dead_letter(message.lock, reason=reason, description=description)
                yield from settling.settle(message, Outcome.DEAD_LETTERED, burial)
    except (LockLostError, InvalidStateError) as lost:
        extra = about(message, message.delivery_count, lost)
        logger.info("%s was settled by somebody else meanwhile: %s", _name(message), lost, extra=extra)
    except PGQueueError as error:
        extra = about(message, message.delivery_count, error)
        logger.warning("%s could not be settled, its lock runs out by itself: %s", _name(message), error, extra=extra)


def end_transaction(message: LockedMessage, own: Executor) -> Flow[None]:
    """Ends the transaction that a handler works in from outside: it is rolled back, and releases the message."""
    transaction_id = message.context.pinned_in
    if transaction_id is not None:
        yield from own.execute(backends.end_transaction(transaction_id))


def takes_a_transaction(handler: Callable[..., Any]) -> bool:
    """Whether a handler is called with a message and a transaction, or with a message alone."""
    if not callable(handler):
        raise InvalidArgumentError(f"a handler must be callable, not {handler!r}")
    try:
        signature = inspect.signature(handler)
    except ValueError:
        return False
    for arguments in ((None, None), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise InvalidArgumentError(f"a handler takes (message) or (message, tx), not {signature}")


def _run(message: LockedMessage, spec: HandlerSpec, span: Processing) -> Flow[None]:
    began = time.perf_counter()
    work = partial(spec.call, message)
    try:
        if spec.transactions is None:
            checked_result((yield work))
        else:
            yield from processing.attempts(message, work, spec.transactions, spec.policy, span.tries_again)
    finally:
        spec.durations.observe(time.perf_counter() - began)


def _log_failure(
    message: LockedMessage, failure: BaseException, verdict: Abandon | MoveToDeadLetters | LeaveLocked
) -> None:
    outcome = "is let go"
    match verdict:
        case Abandon(delay):
            outcome = f"rests for {delay.total_seconds():.1f} s"
        case MoveToDeadLetters(reason):
            outcome = f"goes to the dead letters: {reason}"
    logger.warning(
        "the handler failed on %s, delivery %s, which %s",
        _name(message),
        message.delivery_count,
        outcome,
        exc_info=failure if isinstance(verdict, Abandon) else None,
        extra=about(message, message.delivery_count, failure),
    )


def _name(message: LockedMessage) -> str:
    return f"message {message.sequence_number} of {message.queue}"
