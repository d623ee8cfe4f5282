"""Execution: runs handlers on messages, one in a transaction or several, and settles those that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import tenacity

from pgqueue import telemetry
from pgqueue.errors import (
    CommitInDoubtError,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    SettlementUndoneError,
    logger,
)
from pgqueue.flows import Begun, Flow, Pause, processing, settling
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about, about_all
from pgqueue.model.backoff import by_chance
from pgqueue.model.calls import checked_result
from pgqueue.model.context import Event, ReceiveState
from pgqueue.model.handler import Handler
from pgqueue.model.policy import Tries, is_transient
from pgqueue.statements import Statement, backends
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import PROCESSING, Processing, Recorder
from pgqueue.worker.failures import fail, name_of
from pgqueue.worker.handlers import Routes
from pgqueue.worker.policy import RetryPolicy, TryAgain, judge
from pgqueue.worker.tally import Durations

#: Calls a handler as its driver requires: directly, in a thread, or in an event loop.
Call = Callable[..., Any]

#: By sequence number: the errors of handlers, and what telemetry records.
Failures = dict[int, BaseException]
Spans = Mapping[int, Processing]


@dataclass(frozen=True)
class HandlerSpec:
    """The handlers, the source of their transactions if they need any, and the policy for their failures."""

    routes: Routes
    transactions: processing.Transactions | None
    retry: RetryPolicy
    call: Call = Handler.__call__
    durations: Durations = field(default_factory=Durations)
    recorder: Recorder = field(default_factory=telemetry.recorder)
    #: Whether the thread that handles was given up: what follows there concerns no message any more.
    is_given_up: Callable[[], bool] = lambda: False

    @cached_property
    def policy(self) -> tenacity.Retrying:
        """The policy for attempts of a transaction on one lock."""
        return self.retry.transaction_retry()

    def tries(self, message: LockedMessage) -> Tries | None:
        """The attempts to handle this message on one lock; None if its handler takes no transaction."""
        return Tries(self.policy) if self.routes.takes_transaction(message) else None


def execute(message: LockedMessage, spec: HandlerSpec) -> Flow[Failures]:
    """Run the handler on a message until it succeeds or the policy gives up; return its error, if any.

    With a transaction, the message is completed here; without one, it is completed later, in a batch with others. A
    :class:`SettlementUndoneError` that nothing has followed yet is returned for a settlement that is still in doubt.
    """
    return _recorded(message, spec) if spec.recorder.is_on else _execute(message, spec, PROCESSING)


def _recorded(message: LockedMessage, spec: HandlerSpec) -> Flow[Failures]:
    with spec.recorder.processing(message) as span, span.at_work():
        return (yield from _execute(message, spec, span))


def _execute(message: LockedMessage, spec: HandlerSpec, span: Processing) -> Flow[Failures]:
    tries: Tries | None = None
    while True:
        try:
            yield from _attempt(message, spec, tries)
            break
        except Exception as failure:  # noqa: BLE001 - a handler may raise anything; the policy decides what follows
            if spec.is_given_up():
                return {}
            tries = tries or spec.tries(message)
            policy = spec.routes.policy(message, spec.retry)
            verdict = judge(failure, message.delivery_count, policy, by_chance(), tries)
            if not isinstance(verdict, TryAgain):
                span.failed(failure)
                yield from fail(message, failure, policy, verdict)
                return {message.sequence_number: failure}
            span.tries_again(verdict.number, failure)
        yield Pause(verdict.pause)
    if message.context.is_in_doubt:
        return {message.sequence_number: SettlementUndoneError(processing.LEFT_OPEN)}
    return {}


def _attempt(message: LockedMessage, spec: HandlerSpec, tries: Tries | None) -> Flow[None]:
    """Run the handler once. If it takes a transaction, the message is completed with it."""
    began = time.perf_counter()
    try:
        handler = spec.routes.find(message)
        call = partial(spec.call, handler)
        if spec.transactions is None or not handler.takes_transaction:
            checked_result((yield processing.handling(message, call)))
            if not message.context.is_untouched:
                yield from _learn_outcome(message)
            return
        if tries is not None:
            yield from processing.renew(message)
        begun = yield from spec.transactions.enter(message)
        try:
            checked_result((yield processing.handling(message, call, begun.handle)))
        except BaseException as error:
            yield from processing.roll_back_delivery(message, begun, error)
            raise
        yield from spec.transactions.leave(message, begun)
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
            logger.warning("%s: %s", name_of(message), processing.LEFT_OPEN, extra=extra)
    except PGQueueError as error:
        logger.debug("%s: the outcome of its settlement is asked again: %s", name_of(message), error)
    context.transaction = None  # its connection is the handler's, and may be in use again
    context.refuse_undone()


class HandlerCancelledError(Exception):
    """A handler raised CancelledError without having been cancelled: a failure like any other."""

    def __init__(self) -> None:
        super().__init__("the handler raised CancelledError, but had not been cancelled")


class HandlerFailedError(Exception):
    """The handler failed on one of several messages; the work on all of them is rolled back."""

    def __init__(self, message: LockedMessage) -> None:
        super().__init__(f"the handler failed on message {message.sequence_number}")
        self.message = message


def execute_together(messages: Sequence[LockedMessage], spec: HandlerSpec) -> Flow[Failures]:
    """Run the handlers on several messages of one queue, in one transaction; return their errors.

    If the transaction cannot be committed, each message gets one of its own; the message that a handler failed on is
    the last.
    """
    with ExitStack() as stack:
        span = {message.sequence_number: stack.enter_context(spec.recorder.processing(message)) for message in messages}
        failures, alone = yield from _share(messages, spec, span)
        for number, failure in failures.items():
            span[number].failed(failure)
        for message in alone:
            with span[message.sequence_number].at_work():
                failures |= yield from _execute(message, spec, span[message.sequence_number])
    return failures


def _share(
    messages: Sequence[LockedMessage], spec: HandlerSpec, span: Spans
) -> Flow[tuple[Failures, Sequence[LockedMessage]]]:
    """Handle messages in one transaction; return their errors, and the messages that need one of their own."""
    tries = Tries(spec.policy)
    while True:
        try:
            return (yield from _attempt_together(messages, spec, span)), ()
        except Exception as error:  # noqa: BLE001 - one by one it is seen whose it is
            if spec.is_given_up():
                return {}, ()
            if isinstance(error, CommitInDoubtError):
                _log_warning("%s messages of %s: %s", messages, error)
                return {message.sequence_number: error for message in messages}, ()
            number, pause = tries.number, None if isinstance(error, HandlerFailedError) else tries.pause_after(error)
            if pause is None:
                _log_warning(
                    "the transaction of %s messages of %s failed; retrying them one by one: %s", messages, error
                )
                failed = error.message if isinstance(error, HandlerFailedError) else None
                return {}, sorted(messages, key=lambda message: message is failed)
            for each in span.values():
                each.tries_again(number, error)
        yield Pause(pause)


def _attempt_together(messages: Sequence[LockedMessage], spec: HandlerSpec, span: Spans) -> Flow[Failures]:
    """Handle all messages in one transaction; return those whose locks were lost."""
    assert spec.transactions is not None
    begun = yield from spec.transactions.begin()
    try:
        held, lost = yield from _pin(messages, begun)
        for message in held:
            yield from _call(message, spec, begun, span[message.sequence_number])
            if not begun.is_open:
                yield from _refuse_what_is_undone(held, begun)
        last = yield from _completing_statement(held, begun)
    except BaseException:
        _unpin(messages)
        yield from processing.roll_back(begun)
        for message in messages:
            message.context.apply(Event.ABORTED)
        raise
    try:
        if held:
            yield from processing.commit(held, begun, last)
        else:
            yield from processing.roll_back(begun)
    finally:
        _unpin(messages)
    return lost


def _pin(messages: Sequence[LockedMessage], begun: Begun) -> Flow[tuple[list[LockedMessage], Failures]]:
    held: list[LockedMessage] = []
    lost: Failures = {}
    pins = yield from begun.execute(verbs.pin_batch(messages[0].queue, [message.lock for message in messages]))
    for message, (refusal, transaction_id) in zip(messages, pins, strict=True):
        if refusal is None:
            message.context.pinned_in, message.context.was_undone = transaction_id, False
            held.append(message)
        else:
            message.context.lose()
            number = message.sequence_number
            lost[number] = LockLostError(f"the lock on message {number} of queue {message.queue} is lost")
    return held, lost


def _unpin(messages: Sequence[LockedMessage]) -> None:
    for message in messages:
        message.context.pinned_in = None


def _call(message: LockedMessage, spec: HandlerSpec, begun: Begun, span: Processing) -> Flow[None]:
    began = time.perf_counter()
    try:
        with span.at_work():
            call = partial(spec.call, spec.routes.find(message))
            checked_result((yield processing.handling(message, call, begun.handle)))
    except Exception as failure:
        if is_transient(failure):
            raise
        raise HandlerFailedError(message) from failure
    finally:
        spec.durations.observe(time.perf_counter() - began)


def _refuse_what_is_undone(held: Sequence[LockedMessage], begun: Begun) -> Flow[None]:
    """Refuse to go on after a handler has rolled back the transaction, and with it the work on earlier messages."""
    if len(held) <= 1:
        return
    transaction_id = held[0].context.pinned_in
    assert transaction_id is not None, "it was pinned"
    if (yield from begun.execute(backends.outcome(transaction_id))) == "aborted":
        raise InvalidStateError("a handler has rolled back the transaction that it shares with other messages")


def _completing_statement(held: Sequence[LockedMessage], begun: Begun) -> Flow[Statement[Any] | None]:
    """The last statement: it completes the messages that the handler has not settled."""
    unsettled = []
    for message in held:
        if (yield from processing.begin_completion(message, begun)):
            unsettled.append(message)  # noqa: PERF401 - a comprehension cannot yield
    if unsettled:
        statement = verbs.complete_batch(unsettled[0].queue, [message.lock for message in unsettled], atomic=True)
        return settling.pinned(unsettled[0], statement)
    abandoned = [message for message in held if message.context.state is ReceiveState.ABANDONED]
    return processing.proof_of_transaction(abandoned[0]) if abandoned else None


def _log_warning(line: str, messages: Sequence[LockedMessage], error: Exception) -> None:
    queue = messages[0].queue
    logger.warning(line, len(messages), queue, error, extra=about_all(queue, messages, error))
