"""Poison messages, which no worker can post."""

from __future__ import annotations

from typing import Any

from pgqueue import Message

FLIGHT = {"carrier": "UA", "number": 1545, "destination": "IAH", "scheduled": "2013-01-01 05:15"}


def _departure(message_id: str, body: Any, content_type: str | None = None) -> Message:
    return Message(body, message_id=message_id, subject="departure", content_type=content_type)


#: Each of these fails until it has reached the queue's maximum delivery count.
HOPELESS = (
    _departure("hopeless-1", "DEP 1545 UA EWR IAH 0517 +2", "text/x-teletype"),
    _departure("hopeless-2", {"flight": "UA 1545"}),
    _departure("hopeless-3", {**FLIGHT, "id": -1, "origin": "EWR", "delay": "eleven"}),
    _departure("hopeless-4", b"\x00\x01\x02", "application/octet-stream"),
)

#: This one is well-formed, but the worker dead-letters it, because a retry would not help.
REFUSED = _departure("refused", {**FLIGHT, "id": -2, "origin": "SFO", "delay": 0})

POISON = (*HOPELESS, REFUSED)
