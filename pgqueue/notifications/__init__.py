# Written by `make generate` from pgqueue/aio/notifications.py: change it there.
# this face only: what it is
"""Notifications: fan-out to recipients in this process, kept in a queue until they are complete.

Implements the QueuedTransmitter protocol on an ordinary queue, with its locks, delivery counts, dead letters and views.
:mod:`pgqueue.aio.notifications` has the same names with asynchronous methods.
"""
# end

from __future__ import annotations

from pgqueue.notifications.notification import Notification, Pace, QueueNotification, Recipient
from pgqueue.notifications.queued import Processed
from pgqueue.notifications.receipts import AGGREGATION, REMOVAL, Fate, ReceiptStatus, Rule, Timing
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
    "Timing",
    "Transmitter",
]
