"""Sending: one message, or many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pgqueue.model.encoding import EncodedMessage
from pgqueue.statements.arguments import queue_name
from pgqueue.statements.statement import Statement, column, scalar


def send(queue: str, message: EncodedMessage) -> Statement[int]:
    return Statement(
        """select pgqueue.send(
               %(queue)s::text, %(body)s::jsonb, %(binary_body)s::bytea, %(message_id)s::text, %(correlation_id)s::text,
               %(subject)s::text, %(content_type)s::text, %(reply_to)s::text, %(application_properties)s::jsonb,
               %(priority)s::integer)""",
        {"queue": queue_name(queue), **asdict(message)},
        scalar,
    )


def send_batch(queue: str, messages: Sequence[EncodedMessage]) -> Statement[list[int]]:
    return Statement(
        """select pgqueue.send_batch(
               %(queue)s::text, %(body)s::text[]::jsonb[], %(binary_body)s::bytea[], %(message_id)s::text[],
               %(correlation_id)s::text[], %(subject)s::text[], %(content_type)s::text[], %(reply_to)s::text[],
               %(application_properties)s::text[]::jsonb[], %(priority)s::integer[])""",
        {
            "queue": queue_name(queue),
            **{field: _column_of(messages, field) for field in EncodedMessage.__dataclass_fields__},
        },
        column,
    )


def _column_of(messages: Sequence[EncodedMessage], field: str) -> list[Any] | None:
    """The values of one field; None when no message sets it, which spares the database the array."""
    values = [getattr(message, field) for message in messages]
    return values if any(value is not None and value != 0 for value in values) else None
