"""The verbs that are traced: sends, and work on a message. Sent messages get their trace context here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, cast

import tenacity

from pgqueue import telemetry
from pgqueue.errors import MessageSizeExceededError, QueueFullError
from pgqueue.flows import processing
from pgqueue.flows.fan_in import Members
from pgqueue.flows.flow import Executor, Flow, Interceptors, Shared, Source, around
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.arguments import several
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import are_bodies_alone, encode, encode_bodies
from pgqueue.model.handler import Handler
from pgqueue.model.message import Message, OnConflict, SequenceNumber
from pgqueue.statements import sending

#: How many messages are encoded at a time, where the server can store others meanwhile.
PART = 250


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
    where: Shared | Source | Members,
    body_type: BodyType | None = None,
    on_conflict: OnConflict = "ignore",
    interceptors: Interceptors | None = None,
) -> Flow[list[SequenceNumber]]:
    """Send messages in one round trip, with one span."""
    given = several("messages", messages, of="messages")
    if not given:
        return []
    if interceptors is not None:
        store = partial(send_batch, queue, where=where, body_type=body_type, on_conflict=on_conflict)
        return (yield from around(interceptors, "send_batch", given, store))
    with telemetry.recorder().sending(queue, len(given)) as sent:
        if sent.trace is None and on_conflict == "ignore" and are_bodies_alone(given):
            numbers = yield from _send_bodies(queue, given, where, body_type)
        else:
            encoded = [encode(message, sent.trace, body_type) for message in given]
            numbers = yield from where.execute(sending.send_batch(queue, encoded, on_conflict))
        sent.stored(numbers)
    return numbers


def _send_bodies(
    queue: str, messages: Sequence[Message], where: Shared | Source | Members, body_type: BodyType | None
) -> Flow[list[SequenceNumber]]:
    """Send bodies alone. In a transaction of ours, a part is encoded while the server stores the one before.

    Bodies with a type are not: a transaction would be open while code of an application encodes them. Nor are messages
    with keys: two calls could lock the same keys, each in another order.
    """
    if body_type is None and where.pipelines and len(messages) >= 2 * PART:
        with suppress(MessageSizeExceededError, QueueFullError):  # one statement names a place or a length rightly
            return (yield from _send_parts(queue, messages, cast(Source, where)))
    return (yield from where.execute(sending.send_bodies(queue, encode_bodies(messages, body_type))))


def _send_parts(queue: str, messages: Sequence[Message], source: Source) -> Flow[list[SequenceNumber]]:
    parts = (messages[start : start + PART] for start in range(0, len(messages), PART))
    line = yield from source.line()
    try:
        numbers = yield from line.pipeline(sending.send_bodies(queue, encode_bodies(part)) for part in parts)
    finally:
        yield from line.release()
    return list(chain.from_iterable(numbers))


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
