"""The settings of a queue, and the number of its messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, TypedDict

from pgqueue.model.json_text import JsonHolder, json_fields


class QueueStatus(StrEnum):
    """Whether a queue accepts sends and receives."""

    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"
    SEND_DISABLED = "SEND_DISABLED"
    RECEIVE_DISABLED = "RECEIVE_DISABLED"


class ReceiveMode(Enum):
    """Whether a receiver locks each message, or deletes it at once (at most once)."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


class SubQueue(StrEnum):
    """The other queues that belong to a queue and can be received from."""

    DEAD_LETTER = "deadletter"


class QueueSettings(TypedDict, total=False):
    """The settings to give a queue: omitted ones have their defaults, or stay as they are.

    See :class:`QueueProperties` for their meaning. The defaults: ``lock_duration`` 60 s, ``max_delivery_count`` 10,
    ``status`` ACTIVE, ``duplicate_detection_history_time_window`` 10 minutes (20 s to 7 days); the rest is off or
    unset. In a new queue None means the default; in an existing one it removes an optional setting.
    """

    lock_duration: timedelta | None
    """How long a receive locks a message, 1 ms to 7 days; by default 60 s."""
    max_delivery_count: int | None
    """The number of deliveries after which a message is dead-lettered; by default 10."""
    max_message_size: int | None
    """The maximum size of a message in bytes (``docs/limits.md``)."""
    status: QueueStatus | str | None
    """Whether the queue accepts sends and receives; by default ACTIVE."""
    user_metadata: Any
    """Any JSON value, for the application."""
    default_message_time_to_live: timedelta | None
    """How long until messages expire (``docs/expiry.md``)."""
    dead_lettering_on_message_expiration: bool | None
    """Whether expired messages are dead-lettered; by default False."""
    requires_duplicate_detection: bool | None
    """Whether a message id is stored only once (``docs/duplicates.md``); by default False."""
    duplicate_detection_history_time_window: timedelta | None
    """How long a message id is remembered, 20 s to 7 days; by default 10 minutes."""
    max_queue_length: int | None
    """The maximum number of messages, dead letters not counted (``docs/limits.md``)."""
    retain_history: timedelta | None
    """How long the history of settled messages is kept, 1 minute to 60 days (``docs/history.md``)."""


@json_fields("user_metadata")
@dataclass(frozen=True, repr=False)
class QueueProperties(JsonHolder):
    """The settings of a queue.

    A receive locks a message for ``lock_duration``. After ``max_delivery_count`` deliveries a message is dead-lettered.
    ``max_message_size`` limits the body and the application properties, in bytes; ``max_queue_length`` limits the
    number of messages, dead letters not counted; None means no limit. ``status`` says whether the queue accepts sends
    and receives; ``user_metadata`` is any JSON value of your own.

    A message expires after its own time to live or ``default_message_time_to_live``, whichever is shorter. An expired
    message is deleted, or dead-lettered with ``dead_lettering_on_message_expiration``. With
    ``requires_duplicate_detection`` a message id is stored only once within
    ``duplicate_detection_history_time_window``. The history of settled messages is kept for ``retain_history``; None
    keeps no history.
    """

    name: str
    lock_duration: timedelta
    max_delivery_count: int
    max_message_size: int | None
    status: QueueStatus
    user_metadata: Any
    default_message_time_to_live: timedelta | None
    dead_lettering_on_message_expiration: bool
    requires_duplicate_detection: bool
    duplicate_detection_history_time_window: timedelta
    max_queue_length: int | None
    retain_history: timedelta | None
    created_at: datetime
    updated_at: datetime

    @property
    def raw_user_metadata(self) -> str | None:
        """The user metadata as the database holds it: JSON as text, or None."""
        metadata: str | None = self._raw("user_metadata")
        return metadata

    def _title(self) -> str:
        return f"queue {self.name}"


@dataclass(frozen=True)
class QueueRuntimeProperties:
    """The number of messages in a queue by state, and when the oldest receivable message was enqueued.

    ``expired`` counts messages that will not be delivered any more, but that no receive and no sweep has removed yet.
    """

    name: str
    ready: int
    locked: int
    deferred: int
    expired: int
    scheduled: int
    dead_letters: int
    oldest_enqueued_time: datetime | None


@dataclass(frozen=True)
class Depth:
    """The number of messages in a queue, and the age of the oldest receivable message in seconds."""

    ready: int
    locked: int
    scheduled: int
    dead_letters: int
    oldest_age: float


@dataclass(frozen=True, slots=True)
class SettlementResult:
    """The result for one message of a batch: it was settled if ``error`` is None."""

    sequence_number: int
    error: Exception | None = None
    locked_until: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the message was settled, or its lock renewed."""
        return self.error is None
