"""Structured fields for log records: the message that a record is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pgqueue.model.message import Lock, PeekedMessage

#: A message or its lock: both have its queue and its sequence number.
Numbered: TypeAlias = PeekedMessage | Lock


def about(message: Numbered, delivery_count: int, error: BaseException | None = None) -> dict[str, Any]:
    """The fields of a log record about one message, and about an error if there is one."""
    session_id = getattr(message, "session_id", None)
    return {
        "queue": message.queue,
        "sequence_number": message.sequence_number,
        "delivery_count": delivery_count,
        "tracking_id": getattr(error, "tracking_id", None),
        **({} if session_id is None else {"session_id": session_id}),
    }


def about_all(queue: str, messages: Iterable[Numbered], error: BaseException | None = None) -> dict[str, Any]:
    """The fields of a log record about several messages of a queue."""
    return {
        "queue": queue,
        "sequence_numbers": [message.sequence_number for message in messages],
        "tracking_id": getattr(error, "tracking_id", None),
    }
