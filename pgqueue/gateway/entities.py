"""Addresses: how clients name queues, topics, subscriptions and what belongs to them."""

from __future__ import annotations

import re
from urllib.parse import unquote

CBS, MANAGEMENT = "$cbs", "/$management"
DEAD_LETTERS, TRANSFER = "/$deadletterqueue", "/$transfer/$deadletterqueue"

#: Parts of addresses that Service Bus writes in upper or lower case.
SUBSCRIPTIONS = re.compile("/subscriptions/", re.IGNORECASE)
SUFFIXES = re.compile(r"/\$(management|deadletterqueue|transfer(?=/))", re.IGNORECASE)


def entity_of(address: str) -> str:
    """The entity that an address names, with or without a scheme and a host, as queues are named."""
    path = address.partition("://")[2].partition("/")[2] if "://" in address else address
    named = SUBSCRIPTIONS.sub("/Subscriptions/", unquote(path).strip("/"))
    return SUFFIXES.sub(lambda found: found[0].lower(), named)
