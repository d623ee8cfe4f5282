"""Notifications, asynchronous: recipients may also be coroutine functions. See :mod:`pgqueue.notifications`."""

from __future__ import annotations

from pgqueue.aio.transmitter import Bridge, QueuedTransmitter, Transmitter
from pgqueue.notifications import (
    AGGREGATION,
    REMOVAL,
    Fate,
    Notification,
    NotificationTypes,
    Pace,
    Processed,
    QueueNotification,
    ReceiptStatus,
    Recipient,
    Rule,
    Timing,
)

__all__ = [
    "AGGREGATION",
    "REMOVAL",
    "Bridge",
    "Fate",
    "Notification",
    "NotificationTypes",
    "Pace",
    "Processed",
    "QueueNotification",
    "QueuedTransmitter",
    "ReceiptStatus",
    "Recipient",
    "Rule",
    "Timing",
    "Transmitter",
]
