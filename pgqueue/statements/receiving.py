"""Receiving and browsing: how the rows of pgqueue.message are asked for and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from pgqueue.model.json_text import json_text
from pgqueue.model.message import PeekedMessage
from pgqueue.model.names import dead_letters_of, is_dead_letter_queue
from pgqueue.statements.arguments import duration, numbers, queue_name, whole
from pgqueue.statements.statement import Row, Statement, scalar

COLUMNS: Final = """sequence_number, lock_token, locked_until, locked_by, delivery_count, enqueued_time, expires_at,
       lane, body, binary_body, message_id, correlation_id, subject, content_type, reply_to, application_properties"""

RECEIVED_COLUMNS: Final = COLUMNS + ", locked_until - pgqueue.clock()"

DEATH: Final = "dead_letter_reason, dead_letter_error_description, dead_lettered_at"

LETTER_COLUMNS: Final = COLUMNS.replace("expires_at", "null")

RECEIVED_LETTER_COLUMNS: Final = LETTER_COLUMNS + ", null, " + DEATH + ", locked_until - pgqueue.clock()"

PEEKED_COLUMNS: Final = COLUMNS + ", scheduled_enqueue_time"

PEEKED_LETTER_COLUMNS: Final = LETTER_COLUMNS + ", null, " + DEATH


DEFERRED_LANES: Final = 800
"""The lanes of deferred messages stand above those that are received; see ``sql/functions/_priority.sql``."""


class MessageRow(NamedTuple):
    """A row of a message, read: the fields of the message, and the token of its lock if it has one.

    ``lasts`` is for how much longer the lock of a received message lasts, by the database's clock alone.
    """

    lock_token: UUID | None
    fields: dict[str, Any]
    lasts: timedelta | None = None

    def peeked(self) -> PeekedMessage:
        return PeekedMessage(**self.fields)


def receive(
    queue: str, *, max_messages: int, lock_duration: timedelta | None, locked_by: str
) -> Statement[list[MessageRow]]:
    columns, function, name = RECEIVED_COLUMNS, "receive", queue_name(queue)
    if is_dead_letter_queue(name):
        columns, function, name = RECEIVED_LETTER_COLUMNS, "receive_dead_letters", dead_letters_of(name)
    return Statement(
        f"""select {columns}
              from pgqueue.{function}(
                   %(queue)s::text, %(max_messages)s::integer, %(lock_duration)s::interval, %(locked_by)s::text)""",
        {
            "queue": name,
            "max_messages": whole("max_messages", max_messages),
            "lock_duration": duration("lock_duration", lock_duration),
            "locked_by": locked_by,
        },
        partial(_read_received, queue),
    )


def receive_deferred(
    queue: str, sequence_numbers: Sequence[int], *, lock_duration: timedelta | None, locked_by: str
) -> Statement[list[MessageRow]]:
    return Statement(
        "select "
        + RECEIVED_COLUMNS
        + """
          from pgqueue.receive_deferred(
               %(queue)s::text, %(sequence_numbers)s::bigint[], %(lock_duration)s::interval, %(locked_by)s::text)""",
        {
            "queue": queue_name(queue),
            "sequence_numbers": numbers("sequence_numbers", sequence_numbers),
            "lock_duration": duration("lock_duration", lock_duration),
            "locked_by": locked_by,
        },
        partial(_read_received, queue),
    )


def receive_and_delete(queue: str, *, max_messages: int) -> Statement[list[MessageRow]]:
    return Statement(
        "select " + COLUMNS + " from pgqueue.receive_and_delete(%(queue)s::text, %(max_messages)s::integer)",
        {"queue": queue_name(queue), "max_messages": whole("max_messages", max_messages)},
        _reader(queue),
    )


def clock() -> Statement[datetime]:
    """The time that the database goes by."""
    return Statement("select pgqueue.clock()", {}, scalar)


def take_turn(queue: str) -> Statement[bool]:
    return Statement("select pgqueue.take_turn(%(queue)s::text)", {"queue": queue}, scalar)


def peek(queue: str, *, max_messages: int, from_sequence_number: int) -> Statement[list[MessageRow]]:
    columns, function, name = PEEKED_COLUMNS, "peek", queue_name(queue)
    if is_dead_letter_queue(name):
        columns, function, name = PEEKED_LETTER_COLUMNS, "peek_dead_letters", dead_letters_of(name)
    return Statement(
        f"""select {columns}
              from pgqueue.{function}(%(queue)s::text, %(max_messages)s::integer, %(from_sequence_number)s::bigint)""",
        {
            "queue": name,
            "max_messages": whole("max_messages", max_messages),
            "from_sequence_number": whole("from_sequence_number", from_sequence_number, bits=64),
        },
        _reader(queue),
    )


def _reader(queue: str) -> Callable[[Sequence[Row]], list[MessageRow]]:
    return partial(_read_rows, queue)


def _read_rows(queue: str, rows: Sequence[Row]) -> list[MessageRow]:
    return [_read_row(None, queue, *row) for row in rows]


def _read_received(queue: str, rows: Sequence[Row]) -> list[MessageRow]:
    return [_read_row(lasts, queue, *columns) for *columns, lasts in rows]


def _read_row(
    lasts: timedelta | None,
    queue: str,
    sequence_number: int,
    lock_token: UUID | None,
    locked_until: Any,
    locked_by: str | None,
    delivery_count: int,
    enqueued_time: Any,
    expires_at: Any,
    lane: int,
    body: str | None,
    binary_body: bytes | None,
    message_id: str | None,
    correlation_id: str | None,
    subject: str | None,
    content_type: str | None,
    reply_to: str | None,
    application_properties: str | None,
    scheduled_enqueue_time: Any = None,
    dead_letter_reason: str | None = None,
    dead_letter_error_description: str | None = None,
    dead_lettered_at: Any = None,
) -> MessageRow:
    is_deferred = lane >= DEFERRED_LANES
    fields = {
        "queue": queue,
        "sequence_number": sequence_number,
        "locked_until": locked_until,
        "locked_by": locked_by,
        "delivery_count": delivery_count,
        "enqueued_time": enqueued_time,
        "expires_at": expires_at,
        "is_deferred": is_deferred,
        "priority": (lane - 1000 if is_deferred else lane) >> 1,
        "body": json_text(body) if binary_body is None else binary_body,
        "message_id": message_id,
        "correlation_id": correlation_id,
        "subject": subject,
        "content_type": content_type,
        "reply_to": reply_to,
        "application_properties": json_text(application_properties),
        "scheduled_enqueue_time": scheduled_enqueue_time,
        "dead_letter_reason": dead_letter_reason,
        "dead_letter_error_description": dead_letter_error_description,
        "dead_lettered_at": dead_lettered_at,
    }
    return MessageRow(lock_token, fields, lasts)
