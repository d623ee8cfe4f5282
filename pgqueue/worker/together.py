"""Several messages in one transaction, a savepoint each: a failure undoes its own effects only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import tenacity

from pgqueue.errors import CommitInDoubtError, LockLostError, logger
from pgqueue.flows import Begun, Flow, processing
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about_all
from pgqueue.model.calls import finished
from pgqueue.model.context import Event, Outcome, ReceiveState
from pgqueue.model.policy import is_transient
from pgqueue.statements import settling as verbs
from pgqueue.telemetry import Processing
from pgqueue.worker.handling import Task, fail, handle

#: Sequence numbers, each with what the handler failed with.
Failures = Mapping[int, BaseException]

Watched = Mapping[int, Processing]


def handle_each(messages: Sequence[LockedMessage], task: Task) -> Flow[Failures]:
    """Runs the handler on messages one after the other; answers with those it failed on."""
    failures = {}
    for message in messages:
        with task.watcher.processing(message) as watched:
            failure = yield from handle(message, task, watched)
        if failure is not None:
            failures[message.sequence_number] = failure
    return failures


def handle_together(messages: Sequence[LockedMessage], task: Task) -> Flow[Failures]:
    """Runs the handler on several messages of one queue; answers with those it failed on.

    Where the transaction as a whole cannot be committed, each message gets one of its own.
    """
    with ExitStack() as stack:
        watched = {
            message.sequence_number: stack.enter_context(task.watcher.processing(message)) for message in messages
        }
        failures = yield from _share(messages, task, watched)
        for number, failure in failures.items():
            watched[number].failed(failure)
    return failures


def _share(messages: Sequence[LockedMessage], task: Task, watched: Watched) -> Flow[Failures]:
    def tell(state: tenacity.RetryCallState) -> None:
        for each in watched.values():
            each.tries_again(state)

    failures: Failures
    retry = task.retry.transaction_retry()
    retry.before_sleep = tell
    try:
        failures = yield from processing.insist(lambda _: _attempt(messages, task, watched), retry)
    except CommitInDoubtError as doubt:
        _tell("%s messages of %s: %s", messages, doubt)
        return {message.sequence_number: doubt for message in messages}
    except Exception as error:  # noqa: BLE001 - one by one it is seen whose it is
        _tell("a transaction of %s messages of %s is taken apart: %s", messages, error)
        return (yield from _take_apart(messages, task, watched))
    for message in messages:
        if (failure := failures.get(message.sequence_number)) is not None:
            with watched[message.sequence_number].at_work():
                yield from fail(message, failure, task.retry)
    return failures


def _take_apart(messages: Sequence[LockedMessage], task: Task, watched: Watched) -> Flow[Failures]:
    failures = {}
    for message in messages:
        if (failure := (yield from handle(message, task, watched[message.sequence_number]))) is not None:
            failures[message.sequence_number] = failure
    return failures


def _attempt(messages: Sequence[LockedMessage], task: Task, watched: Watched) -> Flow[Failures]:
    assert task.begin is not None
    begun = yield from task.begin()
    try:
        failures = yield from _work(messages, task, begun, watched)
        done = [message for message in messages if message.sequence_number not in failures]
        yield from _complete(done, begun)
    except BaseException:
        _unpin(messages)
        yield from processing.roll_back(begun)
        for message in messages:
            message.context.apply(Event.ABORTED)
        raise
    try:
        if done:
            yield from processing.commit(done, begun)
        else:
            yield from processing.roll_back(begun)
    finally:
        _unpin(messages)
    return failures


def _unpin(messages: Sequence[LockedMessage]) -> None:
    for message in messages:
        message.context.pinned_in = None


def _work(messages: Sequence[LockedMessage], task: Task, begun: Begun, watched: Watched) -> Flow[Failures]:
    failures: dict[int, BaseException] = {}
    pins = yield from begun.execute(verbs.pin_batch(messages[0].queue, [message.lock for message in messages]))
    for message, (refusal, transaction_id) in zip(messages, pins, strict=True):
        if refusal is not None:
            message.context.lose()
            failures[message.sequence_number] = LockLostError(f"the lock on message {message.sequence_number} is lost")
            continue
        message.context.pinned_in = transaction_id
        yield from begun.mark()
        try:
            yield from _call(message, task, begun, watched[message.sequence_number])
        except Exception as failure:
            if is_transient(failure):
                raise
            yield from begun.back()
            message.context.apply(Event.ABORTED)
            failures[message.sequence_number] = failure
    return failures


def _call(message: LockedMessage, task: Task, begun: Begun, watched: Processing) -> Flow[None]:
    began = time.perf_counter()
    try:
        with watched.at_work():
            finished((yield partial(task.call, message, begun.handle)))
    finally:
        task.durations.observe(time.perf_counter() - began)


def _complete(done: Sequence[LockedMessage], begun: Begun) -> Flow[None]:
    """Completes what the handler has not settled itself."""
    unsettled = [message for message in done if message.context.state is ReceiveState.RECEIVED]
    for message in unsettled:
        yield from message.context.enter(Outcome.COMPLETED)
        message.context.transaction_id = message.context.pinned_in
    if unsettled:
        locks = [message.lock for message in unsettled]
        yield from begun.execute(verbs.complete_batch(unsettled[0].queue, locks, atomic=True))


def _tell(line: str, messages: Sequence[LockedMessage], error: Exception) -> None:
    queue = messages[0].queue
    logger.warning(line, len(messages), queue, error, extra=about_all(queue, messages, error))
