"""Notifications: what recipients receive, and what a queued one keeps between two rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import duration, given, number, real, shown
from pgqueue.model.backoff import Backoff
from pgqueue.notifications.receipts import ReceiptStatus, Timing


class Notification:
    """A notification, delivered to recipients. Subclass it: as a dataclass, a pydantic model or a plain class."""


class Recipient(Protocol):
    """A recipient of notifications; a plain function or a coroutine function works as well.

    It returns a :class:`ReceiptStatus`; None means NOT_PROCESSED, the answer to a notification that the recipient does
    not handle. A recipient with a second parameter gets the transaction in which a queued notification is processed.
    """

    def receive(self, notification: Any) -> ReceiptStatus | None:
        """Handles a notification, and returns the result."""


MEMORY = "_memory_"


@dataclass
class Memory:
    """The part of a queued notification's message body beside the notification's own fields.

    ``now`` is the database's time at the beginning of the round; the other fields are as the last finished round left
    them. ``timed_out`` is set by recipients only.
    """

    created_at: datetime | None = None
    expires_at: datetime | None = None
    time_to_live: timedelta | None = None
    complete: bool = False
    state: Any = None
    attempts: int = 0
    forwarded: list[str] = field(default_factory=list)
    timed_out: bool = False
    now: datetime | None = None

    @property
    def timing(self) -> Timing:
        """Whether the notification is in time; before the first round it is, unless it was timed out by hand."""
        if self.now is not None and self.expires_at is not None and self.expires_at <= self.now:
            return Timing.EXPIRED
        return Timing.TIMED_OUT if self.timed_out else Timing.IN_TIME


def _remembered(name: str, doc: str) -> Any:
    def get(self: QueueNotification) -> Any:
        return getattr(self._memory, name)

    def put(self: QueueNotification, value: Any) -> None:
        setattr(self._memory, name, value)

    return property(get, put, doc=doc)


def checked_expiry(value: Any) -> datetime | None:
    """Return a time that can be compared with the database's.

    Raises:
        InvalidArgumentError: it is not an aware datetime or None.
    """
    if not (value is None or (isinstance(value, datetime) and value.utcoffset() is not None)):
        raise InvalidArgumentError(f"expires_at must be an aware datetime or None, not {shown(value)}")
    return value


def checked_time_to_live(value: timedelta | None) -> timedelta | None:
    """Return a time to live that is positive and at most 100 years, or None.

    Raises:
        InvalidArgumentError: it is out of these bounds.
    """
    life = duration("time_to_live", value)
    if life is not None and life <= timedelta(0):
        raise InvalidArgumentError(f"time_to_live must be positive, or None, not {value}")
    return life


class QueueNotification(Notification):
    """A notification that is kept in a queue until it is complete, even if processes end meanwhile.

    A recipient can start work that ends later: it writes what identifies this work into ``state`` and answers PENDING.
    At the next invocation, in any process, it reads ``state``, checks the work, and sets ``complete`` when it is done.

    Changes, also of its own fields, are persisted at the end of the round. Semantics of the QueueNotification of the
    QueuedTransmitter protocol.
    """

    created_at = _remembered("created_at", "When it was stored, by the database's clock; None before that.")
    complete = _remembered("complete", "Set by a recipient when the work is done; then it is never sent again.")
    state = _remembered("state", "Any JSON that recipients want to read at the next invocation.")
    attempts = _remembered("attempts", "The number of rounds so far.")

    @property
    def expires_at(self) -> datetime | None:
        """When it times out, an aware time. Set it before sending; otherwise the transmitter's time to live applies."""
        return self._memory.expires_at

    @expires_at.setter
    def expires_at(self, value: datetime | None) -> None:
        self._memory.expires_at = checked_expiry(value)

    @property
    def is_complete(self) -> bool:
        """The same as ``complete``, by the protocol's other name for it."""
        return bool(self.complete)

    @is_complete.setter
    def is_complete(self, value: bool) -> None:
        self.complete = value

    @property
    def timed_out(self) -> bool:
        """Whether it has expired, or a recipient has set this: then the next failure is the last."""
        return self._memory.timing is not Timing.IN_TIME

    @timed_out.setter
    def timed_out(self, value: bool) -> None:
        self._memory.timed_out = value

    @property
    def is_ready_to_send(self) -> bool:
        """Whether it may be sent, or sent again, now; override it to add a condition. The transmitter paces anyway."""
        return True

    @property
    def _memory(self) -> Memory:
        memory: Memory = self.__dict__.setdefault(MEMORY, Memory())  # past pydantic, which accepts only its own fields
        return memory


def attached_memory(notification: QueueNotification) -> Memory:
    """The memory of a notification over its rounds."""
    return notification._memory  # noqa: SLF001 - subclasses have names of their own


@dataclass(frozen=True)
class Pace:
    """How long a notification waits between two rounds: exponentially longer, up to ``longest``."""

    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    longest: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        base, longest = (given(name, duration(name, getattr(self, name))) for name in ("base", "longest"))
        factor = given("factor", real("factor", self.factor))
        if base <= timedelta(0) or factor < 1 or longest < base:
            raise InvalidArgumentError(
                f"a pace must have a positive base, a factor of 1 or more and a longest rest above the base, not {self}"
            )

    def rest(self, attempts: int) -> timedelta:
        """The wait after this many rounds."""
        return Backoff(self.base, self.longest, self.factor).pause(number("attempts", attempts))

    def rest_unready(self, age: timedelta) -> timedelta:
        """The wait of a notification of this age that was not ready: as long as between rounds at that age."""
        lived = max(given("age", duration("age", age)), timedelta(0))
        return min(self.base + lived * (self.factor - 1), self.longest)
