"""The verbs that are traced: sends, and work on a message. Sent messages get their trace context here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import tenacity

from pgqueue import telemetry
from pgqueue.flows import processing
from pgqueue.flows.flow import Executor, Flow, Interceptors, around
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.arguments import several
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import are_bodies_alone, encode, encode_bodies
from pgqueue.model.handler import Handler
from pgqueue.model.message import Message, OnConflict, SequenceNumber
from pgqueue.statements import sending


def send(
    queue: str,
    message: Message,
    where: Executor,
    body_type: BodyType | None = None,
    on_conflict: OnConflict = "ignore",
    interceptors: Interceptors | None = None,
) -> Flow[SequenceNumber]:
    if interceptors is not None:
        store = partial(send, queue, where=where, body_type=body_type, on_conflict=on_conflict)
        return (yield from around(interceptors, "send", message, store))
    with telemetry.recorder().sending(queue) as sent:
        number = yield from where.execute(sending.send(queue, encode(message, sent.trace, body_type), on_conflict))
        sent.stored([number])
    return number


def send_batch(
    queue: str,
    messages: Iterable[Message],
    where: Executor,
    body_type: BodyType | None = None,
    on_conflict: OnConflict = "ignore",
    interceptors: Interceptors | None = None,
) -> Flow[list[SequenceNumber]]:
    """Send messages in one statement, with one span."""
    given = several("messages", messages, of="messages")
    if not given:
        return []
    if interceptors is not None:
        store = partial(send_batch, queue, where=where, body_type=body_type, on_conflict=on_conflict)
        return (yield from around(interceptors, "send_batch", given, store))
    with telemetry.recorder().sending(queue, len(given)) as sent:
        if sent.trace is None and on_conflict == "ignore" and are_bodies_alone(given):
            statement = sending.send_bodies(queue, encode_bodies(given, body_type))
        else:
            encoded = [encode(message, sent.trace, body_type) for message in given]
            statement = sending.send_batch(queue, encoded, on_conflict)
        numbers = yield from where.execute(statement)
        sent.stored(numbers)
    return numbers


def process(
    message: LockedMessage, work: Handler, begin: processing.Begin | None, retry: tenacity.Retrying
) -> Flow[Any]:
    """Process the message, in transactions if ``begin`` is given; all attempts of the work are one span."""
    with telemetry.recorder().processing(message) as span, span.at_work():
        called = partial(processing.handling, message, work)
        if begin is None:
            tried = processing.without_transaction(message, called, retry, span.tries_again)
        else:
            transactions = processing.Transactions(begin)
            tried = processing.attempts(message, called, transactions, retry, span.tries_again)
        return (yield from processing.process(message, _recording_failure(tried, span)))


def _recording_failure(tried: Flow[Any], span: telemetry.Processing) -> Flow[Any]:
    """Record an error in the span, even one that :func:`processing.process` does not raise, as DeadLetter."""
    try:
        return (yield from tried)
    except Exception as failure:
        span.failed(failure)
        raise
