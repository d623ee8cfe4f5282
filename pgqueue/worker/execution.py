"""Handling one message in a worker: runs the handler, and settles the message if the handler fails."""

from __future__ import annotations

import random
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
    DeadLetter,
    InvalidStateError,
    LockLostError,
    PGQueueError,
    SettlementUndoneError,
    logger,
)
from pgqueue.flows import Begun, Executor, Flow, processing, settling
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about, about_all
from pgqueue.model.calls import checked_result
from pgqueue.model.context import Event, Outcome, ReceiveState
from pgqueue.model.failure import from_users_code, text_of, titled, type_of
from pgqueue.model.handler import Handler
from pgqueue.model.policy import is_transient
from pgqueue.statements import Statement, backends, queues
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import Processing, Recorder
from pgqueue.worker.handlers import Routes
from pgqueue.worker.policy import Abandon, MoveToDeadLetters, RetryPolicy, Verdict, judge
from pgqueue.worker.tally import Durations

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
    """How often the message may be delivered, and the option that says so, if it is not the queue."""

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
            rest = f"rests for {delay.total_seconds():.1f} s"
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
    """The traceback to log: from the handler on. An error of ours that no handler has raised is told in one line."""
    begin = from_users_code(failure)
    if begin is None and isinstance(failure, PGQueueError):
        return None
    return type(failure), failure, begin or failure.__traceback__


def _name(message: LockedMessage) -> str:
    session = "" if message.session_id is None else f", session {message.session_id!r}"
    return f"message {message.sequence_number} of {message.queue}{session}"


#: The errors of the handler by sequence number.
Failures = Mapping[int, BaseException]

Spans = Mapping[int, Processing]


class HandlerFailedError(Exception):
    """The handler failed on one of several messages; the work on all of them is rolled back."""

    def __init__(self, message: LockedMessage) -> None:
        super().__init__(f"the handler failed on message {message.sequence_number}")
        self.message = message


def handle_each(messages: Sequence[LockedMessage], spec: HandlerSpec) -> Flow[Failures]:
    """Run the handler on one message after the other; return its errors."""
    failures = {}
    for message in messages:
        with spec.recorder.processing(message) as span:
            failure = yield from handle(message, spec, span)
        if failure is not None:
            failures[message.sequence_number] = failure
    return failures


def handle_together(messages: Sequence[LockedMessage], spec: HandlerSpec) -> Flow[Failures]:
    """Run the handlers on several messages of one queue; return their errors.

    If the transaction cannot be committed, each message gets one of its own; the message that a handler failed on is
    the last. Messages whose handler takes no transaction are handled after the others, without one.
    """
    if spec.routes.is_mixed:
        sharing = [message for message in messages if spec.routes.takes_transaction(message)]
        others = [message for message in messages if not spec.routes.takes_transaction(message)]
        shared = (yield from _handle_together(sharing, spec)) if sharing else {}
        return {**shared, **(yield from handle_each(others, spec))}
    return (yield from _handle_together(messages, spec))


def _handle_together(messages: Sequence[LockedMessage], spec: HandlerSpec) -> Flow[Failures]:
    with ExitStack() as stack:
        span = {message.sequence_number: stack.enter_context(spec.recorder.processing(message)) for message in messages}
        failures = yield from _share(messages, spec, span)
        for number, failure in failures.items():
            span[number].failed(failure)
    return failures


def _share(messages: Sequence[LockedMessage], spec: HandlerSpec, span: Spans) -> Flow[Failures]:
    def told(state: tenacity.RetryCallState) -> None:
        for each in span.values():
            each.tries_again(state)

    try:
        lost: Failures = yield from processing.retry(lambda _: _attempt(messages, spec, span), spec.policy, told)
    except CommitInDoubtError as doubt:
        _log_warning("%s messages of %s: %s", messages, doubt)
        return {message.sequence_number: doubt for message in messages}
    except HandlerFailedError as failed:
        _log_warning("a transaction of %s messages of %s is taken apart: %s", messages, failed)
        others = [message for message in messages if message is not failed.message]
        return (yield from _take_apart([*others, failed.message], spec, span))
    except Exception as error:  # noqa: BLE001 - one by one it is seen whose it is
        _log_warning("a transaction of %s messages of %s is taken apart: %s", messages, error)
        return (yield from _take_apart(messages, spec, span))
    return lost


def _take_apart(messages: Sequence[LockedMessage], spec: HandlerSpec, span: Spans) -> Flow[Failures]:
    failures = {}
    for message in messages:
        if (failure := (yield from handle(message, spec, span[message.sequence_number]))) is not None:
            failures[message.sequence_number] = failure
    return failures


def _attempt(messages: Sequence[LockedMessage], spec: HandlerSpec, span: Spans) -> Flow[Failures]:
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
    held, lost = [], {}
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
            checked_result((yield partial(spec.call, spec.routes.find(message), message, begun.handle)))
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
