"""The asynchronous face of pgqueue: the same names and signatures, with methods to be awaited."""

from __future__ import annotations

from pgqueue import errors
from pgqueue.aio.auto_lock_renewer import AutoLockRenewer
from pgqueue.aio.client import QueueClient
from pgqueue.aio.queue import DeadLetters, Queue
from pgqueue.aio.received import ReceivedMessage, process
from pgqueue.aio.receiver import Receiver
from pgqueue.aio.sender import PendingSend, Sender
from pgqueue.aio.worker import Worker
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
from pgqueue.worker import Health, RetryPolicy, Tally

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
