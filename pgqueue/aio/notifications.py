# this face only: what it is
"""Notifications, asynchronous: recipients may also be coroutine functions. See :mod:`pgqueue.notifications`."""
# end

from __future__ import annotations

from pgqueue.aio.transmitter import Bridge, QueuedTransmitter, Transmitter
from pgqueue.notifications.notification import Notification, Pace, QueueNotification, Recipient
from pgqueue.notifications.queued import Processed
from pgqueue.notifications.receipts import AGGREGATION, REMOVAL, Fate, ReceiptStatus, Rule, Timing
from pgqueue.notifications.registry import NotificationTypes

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
