"""Several messages in one transaction: if it fails, each message gets a transaction of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import tenacity

from pgqueue.errors import CommitInDoubtError, InvalidStateError, LockLostError, logger
from pgqueue.flows import Begun, Flow, processing, settling
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about_all
from pgqueue.model.calls import checked_result
from pgqueue.model.context import Event, ReceiveState
from pgqueue.model.policy import is_transient
from pgqueue.statements import Statement, backends
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import Processing
from pgqueue.worker.handling import HandlerSpec, handle

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
