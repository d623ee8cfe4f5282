"""What a queue is set to, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, TypedDict

from pgqueue.model.json_text import JsonHolder, json_fields


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


class SubQueue(StrEnum):
    """What else belongs to a queue and can be received from."""

    DEAD_LETTER = "deadletter"


class QueueSettings(TypedDict, total=False):
    """The settings of a queue that are given: what is left out has its default, or stays as it is.

    See :class:`QueueProperties` for what they mean. The defaults: a ``lock_duration`` of 60 s, a ``max_delivery_count``
    of 10, the ``status`` ACTIVE, a ``duplicate_detection_history_time_window`` of 10 minutes (20 s to 7 days), and
    nothing of the rest. None is the default in a new queue; in an existing one it takes away what may be absent.
    """

    lock_duration: timedelta | None
    """How long a receive locks a message, 1 ms to 7 days; by default 60 s."""
    max_delivery_count: int | None
    """After so many deliveries a message is dead-lettered; by default 10."""
    max_message_size: int | None
    """The most bytes of a message (``docs/limits.md``)."""
    status: QueueStatus | str | None
    """Whether it may be sent to and received from; by default ACTIVE."""
    user_metadata: Any
    """Anything JSON, for you."""
    default_message_time_to_live: timedelta | None
    """After how long messages expire (``docs/expiry.md``)."""
    dead_lettering_on_message_expiration: bool | None
    """Whether they go to the dead letters then; by default False."""
    requires_duplicate_detection: bool | None
    """Whether a message id is stored once (``docs/duplicates.md``); by default False."""
    duplicate_detection_history_time_window: timedelta | None
    """For how long a message id is remembered, 20 s to 7 days; by default 10 minutes."""
    max_queue_length: int | None
    """The most messages besides dead letters (``docs/limits.md``)."""
    retain_history: timedelta | None
    """For how long what became of messages is kept, 1 minute to 60 days (``docs/history.md``)."""


@json_fields("user_metadata")
@dataclass(frozen=True, repr=False)
class QueueProperties(JsonHolder):
    """The settings of a queue.

    ``lock_duration`` is how long a message is locked by a receive. A message that was delivered ``max_delivery_count``
    times is dead-lettered. ``max_message_size`` bounds body and application properties, in bytes; ``max_queue_length``
    bounds how many messages there are besides dead letters; None is no bound. ``status`` says whether it may be sent to
    and received from; ``user_metadata`` is any JSON of your own.

    A message expires after its own time to live or ``default_message_time_to_live``, whichever is shorter, and is
    dropped then, or dead-lettered with ``dead_lettering_on_message_expiration``. With ``requires_duplicate_detection``
    a message id is stored once within the ``duplicate_detection_history_time_window``. ``retain_history`` is for how
    long the history keeps what became of settled messages; None keeps nothing.
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
        """The user metadata as the database holds them: JSON as text, or None."""
        metadata: str | None = self._raw("user_metadata")
        return metadata

    def _title(self) -> str:
        return f"queue {self.name}"


@dataclass(frozen=True)
class QueueRuntimeProperties:
    """What is in a queue: messages by where they are, and when the oldest that can be received was sent.

    ``expired`` are those that nobody will receive, and that no receive and no sweep has met yet.
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
    """How much is in a queue, and for how many seconds the oldest message that can be received has been there."""

    ready: int
    locked: int
    scheduled: int
    dead_letters: int
    oldest_age: float


@dataclass(frozen=True, slots=True)
class SettlementResult:
    """What became of one message of a batch: settled when ``error`` is None."""

    sequence_number: int
    error: Exception | None = None
    locked_until: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the message was settled, or its lock renewed."""
        return self.error is None
