"""What a queue is set to, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any


class QueueStatus(StrEnum):
    """Whether a queue may be sent to and received from."""

    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"
    SEND_DISABLED = "SEND_DISABLED"
    RECEIVE_DISABLED = "RECEIVE_DISABLED"


class ReceiveMode(Enum):
    """Whether a receiver locks what it receives, or deletes it at once (at most once)."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


class Unset:
    """The absence of an argument, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True)
class QueueProperties:
    """The settings of a queue.

    ``lock_duration`` is how long a message is locked by a receive. A message that was delivered ``max_delivery_count``
    times is dead-lettered. ``max_message_size`` bounds body and application properties, in bytes; None is no bound.
    ``status`` says whether it may be sent to and received from; ``user_metadata`` is any JSON of your own.
    """

    name: str
    lock_duration: timedelta
    max_delivery_count: int
    max_message_size: int | None
    status: QueueStatus
    user_metadata: Any
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class QueueRuntimeProperties:
    """What is in a queue: messages by where they are, and when the oldest that can be received was sent."""

    name: str
    ready: int
    locked: int
    scheduled: int
    dead_letters: int
    oldest_enqueued_time: datetime | None


@dataclass(frozen=True)
class Depth:
    """How much is in a queue, and for how many seconds the oldest message that can be received has been there."""

    ready: int
    locked: int
    scheduled: int
    dead_letters: int
    oldest_age: float


@dataclass(frozen=True)
class SettlementResult:
    """What became of one message of a batch: settled when ``error`` is None."""

    sequence_number: int
    error: Exception | None = None
    locked_until: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the message was settled, or its lock renewed."""
        return self.error is None
