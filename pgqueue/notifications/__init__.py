"""Notifications: fan-out to recipients in this process, kept in a queue until they are done.

The QueuedTransmitter protocol on an ordinary queue: its locks, delivery counts, dead letters and views apply. The same
names, asynchronous, are in :mod:`pgqueue.aio.notifications`.
"""

from __future__ import annotations

from pgqueue.notifications.notification import Notification, Pace, QueueNotification, Recipient
from pgqueue.notifications.queued import Processed
from pgqueue.notifications.receipts import AGGREGATION, REMOVAL, Fate, ReceiptStatus, Rule
from pgqueue.notifications.registry import NotificationTypes
from pgqueue.notifications.transmitter import Bridge, QueuedTransmitter, Transmitter

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
    "Transmitter",
]
