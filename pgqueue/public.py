# Written by `make generate` from pgqueue/aio/__init__.py: change it there.
"""The synchronous face of pgqueue: all public names, in one module."""

from __future__ import annotations

from pgqueue import errors
from pgqueue.batch import Batch
from pgqueue.client import QueueClient
from pgqueue.errors import DeadLetter, LockLostError, PGQueueError
from pgqueue.interceptor import Interceptor
from pgqueue.leases.auto_lock_renewer import AutoLockRenewer
from pgqueue.model.access import Grant
from pgqueue.model.batch import BatchCounts
from pgqueue.model.context import ReceiveContext, ReceiveState
from pgqueue.model.failure import DeliveryError, Resubmission
from pgqueue.model.message import FoundMessage, Message, PeekedMessage, RecordedEffect, SequenceNumber, SettledMessage
from pgqueue.model.outcome import Outcome
from pgqueue.model.schedule import CatchUp, Schedule
from pgqueue.model.settings import (
    GroupLimits,
    QueueProperties,
    QueueRuntimeProperties,
    QueueSettings,
    QueueStatus,
    ReceiveMode,
    SessionProperties,
    SettlementResult,
    SubQueue,
)
from pgqueue.model.sweeping import SweepReport
from pgqueue.model.topic import (
    CorrelationFilter,
    JsonPathFilter,
    Published,
    RuleProperties,
    SqlFilter,
    SubscriptionProperties,
    TopicProperties,
    TopicSettings,
)
from pgqueue.queue import DeadLetters, Queue
from pgqueue.received import ReceivedMessage, process
from pgqueue.receiver import Receiver
from pgqueue.sender import PendingSend, Sender
from pgqueue.session import Session
from pgqueue.topic import Topic
from pgqueue.transports import deadline
from pgqueue.worker import Handlers, Health, RetryPolicy, Tally
from pgqueue.worker.task import Task, Tasks
from pgqueue.worker.worker import Worker

__all__ = [
    "AutoLockRenewer",
    "Batch",
    "BatchCounts",
    "CatchUp",
    "CorrelationFilter",
    "DeadLetter",
    "DeadLetters",
    "DeliveryError",
    "FoundMessage",
    "Grant",
    "GroupLimits",
    "Handlers",
    "Health",
    "Interceptor",
    "JsonPathFilter",
    "LockLostError",
    "Message",
    "Outcome",
    "PGQueueError",
    "PeekedMessage",
    "PendingSend",
    "Published",
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
    "Resubmission",
    "RetryPolicy",
    "RuleProperties",
    "Schedule",
    "Sender",
    "SequenceNumber",
    "Session",
    "SessionProperties",
    "SettledMessage",
    "SettlementResult",
    "SqlFilter",
    "SubQueue",
    "SubscriptionProperties",
    "SweepReport",
    "Tally",
    "Task",
    "Tasks",
    "Topic",
    "TopicProperties",
    "TopicSettings",
    "Worker",
    "deadline",
    "errors",
    "process",
]
