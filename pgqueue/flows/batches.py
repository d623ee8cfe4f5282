"""Settling many deliveries in one round trip, each by its own state machine.

In a transaction of its own, a batch settles the other messages even if some locks are lost; the results show what
happened to each. In the caller's transaction, the first lost lock aborts the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from pgqueue.errors import InvalidArgumentError, InvalidStateError
from pgqueue.flows.flow import Executor, Flow, Shared
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.settling import STILL_LOCKED, WAITS, Question, resolve, waits_for_ourselves
from pgqueue.model.arguments import several, shown
from pgqueue.model.context import Event, Outcome, apply_all, begin_all
from pgqueue.model.message import Lock
from pgqueue.model.settings import SettlementResult
from pgqueue.statements import Statement, settling
from pgqueue.statements.settling import Refusals

BatchStatement = Callable[[Sequence[Lock]], Statement[Refusals]]


def settle(
    queue: str,
    received: Iterable[LockedMessage],
    outcome: Outcome,
    statement: BatchStatement,
    source: Executor,
    transaction: Shared | None = None,
) -> Flow[list[SettlementResult]]:
    messages = yield from _resolved(queue, received, source)
    if transaction is not None and len(_pins(messages)) > 1:
        raise InvalidStateError("the messages are pinned in different transactions: settle each in its own")
    refusals = yield from settle_resolved(messages, outcome, statement, source, transaction)
    return [SettlementResult(message.sequence_number, refusals.get(message.sequence_number)) for message in messages]


def settle_resolved(
    messages: Sequence[LockedMessage],
    outcome: Outcome,
    statement: BatchStatement,
    source: Executor,
    transaction: Shared | None = None,
) -> Flow[Refusals]:
    """Settle distinct messages of one queue, of which none is in doubt; return the errors of those that are refused."""
    call = object()
    try:
        begun, refusals = yield from _begin(messages, outcome, transaction, call)
        if transaction is not None and refusals:
            apply_all([message.context for message in begun], Event.ABORTED)
            raise next(iter(refusals.values()))
        if transaction is None or outcome is Outcome.ABANDONED:
            lost = yield from _execute(begun, statement, transaction or source)
            _apply_answers(begun, lost)
            return {**refusals, **lost}
        yield from _execute_within(begun, statement, transaction, call)
    except BaseException as error:
        for message in messages:
            message.context.fail(call, error)
        raise
    return refusals


def renew_lock_batch(
    queue: str,
    received: Iterable[LockedMessage],
    lock_duration: timedelta | None,
    source: Executor,
    transaction: Shared | None = None,
) -> Flow[list[SettlementResult]]:
    messages = yield from _resolved(queue, received, source)
    is_shared = transaction is not None
    results: dict[int, SettlementResult] = {}
    held: list[LockedMessage] = []
    for message in messages:
        try:
            message.context.require("renew_lock_batch()", *STILL_LOCKED)
            held.append(message)
        except InvalidStateError as refusal:
            if is_shared:
                raise
            results[message.sequence_number] = SettlementResult(message.sequence_number, refusal)
    if held:
        locks = [message.lock for message in held]
        statement = settling.renew_lock_batch(queue, locks, lock_duration=lock_duration, atomic=is_shared)
        renewed = yield from (transaction or source).execute(statement)
        for message, result in zip(held, renewed, strict=True):
            results[message.sequence_number] = result
            if not result.is_settled:
                message.context.lose()
            elif not is_shared:
                message.locked_until = result.locked_until
    return [results[message.sequence_number] for message in messages]


def _begin(
    messages: Sequence[LockedMessage], outcome: Outcome, transaction: Shared | None, call: object
) -> Flow[tuple[list[LockedMessage], dict[int, Exception]]]:
    """Begin the settlement of each delivery; return those that have begun, and the errors of those that refuse."""
    begun: list[LockedMessage] = []
    refusals: dict[int, Exception] = {}
    free = messages
    if _pins(messages):
        free = [message for message in messages if not waits_for_ourselves(message, transaction)]
        waiting = [message for message in messages if waits_for_ourselves(message, transaction)]
        refusals = {message.sequence_number: InvalidStateError(WAITS) for message in waiting}
    answers = begin_all([message.context for message in free], outcome, call)
    for message, answer in zip(free, answers, strict=True):
        context = message.context
        if answer is not True:
            if answer:  # else it is settled already
                refusals[message.sequence_number] = answer
            continue
        if context.calls_back:
            try:
                yield from context.call_back(outcome)
            except Exception as failure:  # noqa: BLE001 - a callback may raise anything, and it concerns its message only
                refusals[message.sequence_number] = failure
                continue
        context.transaction = transaction
        begun.append(message)
    return begun, refusals


def _execute(begun: Sequence[LockedMessage], batch: BatchStatement, executor: Executor) -> Flow[Refusals]:
    return (yield from executor.execute(_statement(begun, batch))) if begun else {}


def _execute_within(
    begun: Sequence[LockedMessage], batch: BatchStatement, transaction: Shared, call: object
) -> Flow[None]:
    """Settle them in the caller's transaction, with which they end."""
    if begun:
        statement = settling.batch_with_transaction_id(_statement(begun, batch))
        transaction_id = yield from transaction.execute(statement)
        for message in begun:
            message.context.transaction_id = transaction_id
    yield from transaction.follow([message.context for message in begun])
    for message in begun:
        message.context.end(call)


def _statement(begun: Sequence[LockedMessage], batch: BatchStatement) -> Statement[Refusals]:
    statement = batch([message.lock for message in begun])
    for pinned_in in _pins(begun):
        statement = settling.in_transaction(pinned_in, statement)
    return statement


def _apply_answers(begun: Sequence[LockedMessage], lost: Refusals) -> None:
    for message in begun if lost else ():
        if message.sequence_number in lost:
            message.context.fault_and_log()
    apply_all([message.context for message in begun if message.sequence_number not in lost], Event.COMMITTED)


def _pins(messages: Iterable[LockedMessage]) -> set[str]:
    """The transactions that pin these messages."""
    return {message.context.pinned_in for message in messages if message.context.pinned_in is not None}


def _resolved(queue: str, received: Iterable[LockedMessage], source: Executor) -> Flow[list[LockedMessage]]:
    """The messages, after the outcome of each earlier settlement in doubt has been resolved."""
    messages = _checked(queue, received)
    yield from resolve_all(queue, [message for message in messages if message.context.is_in_doubt], source)
    return messages


def resolve_all(queue: str, messages: Sequence[LockedMessage], source: Executor) -> Flow[None]:
    """Resolve settlements in doubt, in one statement.

    A settlement in the caller's transaction is resolved by itself: on that connection, if it is still open.
    """
    for message in messages:
        if message.context.transaction is not None:
            yield from resolve(message)
    questions = [Question(message, message.locked_until) for message in messages if message.context.transaction is None]
    if questions:
        answers = yield from source.execute(
            settling.resolve_batch(
                queue,
                [question.lock for question in questions],
                [question.transaction_id for question in questions],
                [question.locked_until for question in questions],
            )
        )
        for question, answer in zip(questions, answers, strict=True):
            question.answer(answer)


def _checked(queue: str, received: Iterable[LockedMessage]) -> list[LockedMessage]:
    """The messages; refuses those of another queue, and a message that is given twice."""
    messages = several("received", received, of="received messages")
    others = {kind for kind in {message.__class__ for message in messages} if not issubclass(kind, LockedMessage)}
    for message in messages:
        if message.__class__ in others:
            raise InvalidArgumentError(f"one of received must be a received message, not {shown(message)}")
        if message.queue != queue:
            raise InvalidArgumentError(
                f"message {message.sequence_number} belongs to queue {message.queue}, not to {queue}"
            )
    if len({message.sequence_number for message in messages}) < len(messages):
        raise InvalidArgumentError("a message is in the batch twice: pass each message once")
    return messages
