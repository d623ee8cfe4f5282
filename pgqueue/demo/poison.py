"""Messages that no consumer can post, as every queue meets them one day."""

from __future__ import annotations

from pgqueue import Message

#: Each of these fails again and again until the queue has delivered it often enough.
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

#: This one is well-formed, but trying again would not help: the consumer says so, and why.
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
