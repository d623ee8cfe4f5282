"""The public names of :mod:`pgqueue`, in one module."""

from __future__ import annotations

from pgqueue import errors
from pgqueue.client import QueueClient
from pgqueue.errors import DeadLetter, LockLostError, PGQueueError
from pgqueue.model.context import ReceiveContext, ReceiveState
from pgqueue.model.message import Message, PeekedMessage, RecordedEffect, SequenceNumber, SettledMessage
from pgqueue.model.settings import (
    QueueProperties,
    QueueRuntimeProperties,
    QueueSettings,
    QueueStatus,
    ReceiveMode,
    SettlementResult,
    SubQueue,
)
from pgqueue.model.sweeping import SweepReport
from pgqueue.queue import DeadLetters, Queue
from pgqueue.received import ReceivedMessage, process
from pgqueue.receiver import Receiver
from pgqueue.sender import PendingSend, Sender
from pgqueue.worker import Health, RetryPolicy, Tally, Worker
from pgqueue.worker.auto_lock_renewer import AutoLockRenewer

__all__ = [
    "AutoLockRenewer",
    "DeadLetter",
    "DeadLetters",
    "Health",
    "LockLostError",
    "Message",
    "PGQueueError",
    "PeekedMessage",
    "PendingSend",
    "Queue",
    "QueueClient",
    "QueueProperties",
    "QueueRuntimeProperties",
    "QueueSettings",
    "QueueStatus",
    "ReceiveContext",
    "ReceiveMode",
    "ReceiveState",
    "ReceivedMessage",
    "Receiver",
    "RecordedEffect",
    "RetryPolicy",
    "Sender",
    "SequenceNumber",
    "SettledMessage",
    "SettlementResult",
    "SubQueue",
    "SweepReport",
    "Tally",
    "Worker",
    "errors",
    "process",
]
