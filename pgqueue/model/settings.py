"""The settings of a queue, and the number of its messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, TypedDict

from pgqueue.model.json_text import JsonHolder, lazy_fields


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

    # generated lines: {all settings: $declared}
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
    retain_errors: int | None
    """How many errors of failed deliveries each message keeps, 1 to 100; None keeps the last one only."""
    auto_delete_on_idle: timedelta | None
    """How long the queue may be idle before a sweep deletes it, 5 minutes or more (``docs/sweeper.md``)."""
    requires_session: bool | None
    """Whether messages belong to sessions (``docs/sessions.md``); by default False. It cannot be changed."""
    forward_to: str | None
    """The queue to which what is sent here goes instead (``docs/forwarding.md``)."""
    forward_dead_lettered_messages_to: str | None
    """The queue to which what dies here goes, instead of the dead letters (``docs/forwarding.md``)."""
    max_receive_rate: float | None
    """How many messages a second the queue hands out, 0.001 to 10,000 (``docs/flow.md``)."""
    max_concurrent: int | None
    """How many messages the queue hands out at a time, 1 to 10,000 (``docs/flow.md``)."""
    priority_ageing: timedelta | None
    """After how long a waiting message rises by one priority, 1 s to 30 days (``docs/flow.md``)."""
    result_retention: timedelta | None
    """How long results of settled messages are kept, 1 minute to 60 days (``docs/results.md``)."""
    max_concurrent_per_group: int | None
    """How many messages of each group the queue hands out at a time, 1 to 1,000 (``docs/groups.md``)."""
    max_receive_rate_per_group: float | None
    """How many messages of each group the queue hands out a second, 0.001 to 10,000 (``docs/groups.md``)."""
    fair: bool | None
    """Whether groups take turns (``docs/groups.md``); by default True if they have limits. It cannot be changed."""
    # end


class GroupLimits(TypedDict, total=False):
    """The limits of one group; one that is left out is that of its queue, None is no limit (``docs/groups.md``)."""

    max_concurrent: int | None
    """How many of its messages are handed out at a time, 1 to 1,000."""
    max_receive_rate: float | None
    """How many of its messages are handed out a second, 0.001 to 10,000."""


@lazy_fields("user_metadata")
@dataclass(frozen=True, repr=False)
class QueueProperties(JsonHolder):
    """The settings of a queue.

    A receive locks a message for ``lock_duration``. After ``max_delivery_count`` deliveries a message is dead-lettered.
    ``max_message_size`` limits the body and the application properties, in bytes; ``max_queue_length`` limits the
    number of messages, dead letters not counted; None means no limit. ``status`` is whether the queue accepts sends
    and receives; ``user_metadata`` is any JSON value of your own.

    A message expires after its own time to live or ``default_message_time_to_live``, whichever is shorter. An expired
    message is deleted, or dead-lettered with ``dead_lettering_on_message_expiration``. With
    ``requires_duplicate_detection`` a message id is stored only once within
    ``duplicate_detection_history_time_window``. The history of settled messages is kept for ``retain_history``; None
    keeps no history. Each message keeps its last ``retain_errors`` errors of failed deliveries; None keeps only the
    last one. A sweep deletes the queue with all its messages after ``auto_delete_on_idle`` without a send, a receive or
    a peek; None keeps it. With ``requires_session`` every message belongs to a session. Messages are
    forwarded to the queue ``forward_to``, dead letters to the queue ``forward_dead_lettered_messages_to``; None
    forwards nothing.

    The queue hands out at most ``max_receive_rate`` messages a second and ``max_concurrent`` at a time, over all
    receivers; None means no limit. It has handed out nothing since ``paused_at``; None means that it is not paused.
    A message rises by one priority for every ``priority_ageing`` that it waits; None leaves priorities as they are.
    """

    name: str
    # generated lines: {lock_duration to auto_delete_on_idle: $key: $kept}, {from forward_to: $key: $kept}
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
    retain_errors: int | None
    auto_delete_on_idle: timedelta | None
    forward_to: str | None
    forward_dead_lettered_messages_to: str | None
    max_receive_rate: float | None
    max_concurrent: int | None
    priority_ageing: timedelta | None
    result_retention: timedelta | None
    max_concurrent_per_group: int | None
    max_receive_rate_per_group: float | None
    fair: bool
    # end
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime
    requires_session: bool = False

    @property
    def has_limits(self) -> bool:
        """Whether the queue limits how many messages it hands out; a fair one may have groups with limits."""
        return self.max_receive_rate is not None or self.max_concurrent is not None or self.fair

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

    ``ready`` includes scheduled messages that are due, and ``scheduled`` those that are not.
    ``expired`` and ``exhausted`` count messages that will not be delivered any more, because they have expired or were
    delivered as often as the queue allows, but that no receive and no sweep has removed yet. ``size_in_bytes`` is the
    size of the bodies and application properties of all messages but dead letters, as the database stores them: it
    compresses large ones. Where ``is_exact`` is false, some of the numbers are estimates.
    """

    name: str
    ready: int
    locked: int
    deferred: int
    expired: int
    scheduled: int
    dead_letters: int
    oldest_enqueued_time: datetime | None
    exhausted: int = 0
    size_in_bytes: int = 0
    is_exact: bool = True


@dataclass(frozen=True)
class SessionProperties:
    """A session that is locked, has messages or state.

    ``locked_by`` holds it, or held it last, until ``locked_until``. ``messages`` counts all that are there, received
    ones too; the oldest was sent ``oldest_age`` ago. It can be accepted from ``available_at`` on. ``state_size`` is in
    bytes, and ``state_set_at`` is when the state was set; None for no state.
    """

    session_id: str
    is_locked: bool
    locked_by: str | None
    locked_until: datetime | None
    messages: int
    oldest_age: timedelta | None
    available_at: datetime | None
    state_size: int | None
    state_set_at: datetime | None


@dataclass(frozen=True)
class Depth:
    """The number of messages in a queue, the age of the oldest receivable one in seconds, and 1 if it is paused."""

    ready: int
    locked: int
    scheduled: int
    dead_letters: int
    oldest_age: float
    paused: int


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
