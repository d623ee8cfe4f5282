"""Poison messages, which no consumer can post."""

from __future__ import annotations

from pgqueue import Message

#: Each of these fails until it has reached the queue's maximum delivery count.
HOPELESS = (
    Message("DEP 1545 UA EWR IAH 0517 +2", subject="departure", content_type="text/x-teletype"),
    Message({"flight": "UA 1545"}, subject="departure"),
    Message(
        {
            "id": -1,
            "scheduled": "2013-01-01 05:15",
            "carrier": "UA",
            "number": 1545,
            "origin": "EWR",
            "destination": "IAH",
            "delay": "eleven",
        },
        subject="departure",
    ),
    Message(b"\x00\x01\x02", subject="departure", content_type="application/octet-stream"),
)

#: This one is well-formed, but the consumer dead-letters it, because a retry would not help.
REFUSED = Message(
    {
        "id": -2,
        "scheduled": "2013-01-01 12:00",
        "carrier": "UA",
        "number": 1,
        "origin": "SFO",
        "destination": "JFK",
        "delay": 0,
    },
    subject="departure",
)

POISON = (*HOPELESS, REFUSED)
