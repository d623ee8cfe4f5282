"""Notifications: what is told to recipients, and what a queued one remembers between two rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.backoff import Backoff
from pgqueue.notifications.receipts import ReceiptStatus


class Notification:
    """Something that recipients are told. Subclass it, as a dataclass, a pydantic model or plainly."""


class Recipient(Protocol):
    """Somebody who is told of notifications; a plain function or coroutine function will do as well.

    It answers with a :class:`ReceiptStatus`; None stands for NOT_PROCESSED, which is for what it does not know. One
    that needs a second argument gets the transaction that a queued notification is processed in.
    """

    def receive(self, notification: Any) -> ReceiptStatus | None:
        """Is told of a notification, and says what it made of it."""


MEMORY = "_memory_"
LONGEST_LIFE = timedelta(days=36_500)


@dataclass
class Memory:
    """What is kept of a queued notification beside its own fields, in the body of its message.

    ``now`` is the database's time when the round began, ``timed_out`` what a recipient said in it; the rest is as the
    last finished round left it.
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


def _remembered(name: str, doc: str) -> Any:
    def get(self: QueueNotification) -> Any:
        return getattr(self._memory, name)

    def put(self: QueueNotification, value: Any) -> None:
        setattr(self._memory, name, value)

    return property(get, put, doc=doc)


def checked_expiry(value: Any) -> datetime | None:
    """A time that can be compared with the database's."""
    if not (value is None or (isinstance(value, datetime) and value.tzinfo is not None)):
        raise InvalidArgumentError(f"expires_at must be an aware datetime or None, not {value!r}")
    return value


def checked_time_to_live(value: timedelta | None) -> timedelta | None:
    """A duration after which something can expire."""
    if value is not None and not timedelta(0) < value <= LONGEST_LIFE:
        raise InvalidArgumentError(f"time_to_live must be positive and at most 100 years, or None, not {value}")
    return value


class QueueNotification(Notification):
    """A notification that is kept in a queue until it is done, whatever becomes of processes meanwhile.

    A recipient that starts something which ends later writes what it needs to recognise it into ``state``, answers
    PENDING, and at the next invocation, in whatever process, looks it up and sets ``complete``. What it writes is
    persisted when the round is over. As the QueueNotification of the QueuedTransmitter protocol.
    """

    created_at = _remembered("created_at", "When it was stored, by the database's clock; None before.")
    complete = _remembered("complete", "Set by whoever processes it; a complete one is never sent again.")
    state = _remembered("state", "Any JSON that recipients want to find again at the next invocation.")
    attempts = _remembered("attempts", "How many rounds there have been.")

    @property
    def expires_at(self) -> datetime | None:
        """When it times out, an aware time: set it before it is sent, or the transmitter's time to live holds."""
        return self._memory.expires_at

    @expires_at.setter
    def expires_at(self, value: datetime | None) -> None:
        self._memory.expires_at = checked_expiry(value)

    @property
    def is_complete(self) -> bool:
        """Whether it is complete."""
        return bool(self.complete)

    @property
    def timed_out(self) -> bool:
        """Whether its time is over; a recipient may set it, to give up before."""
        memory = self._memory
        is_over = memory.now is not None and memory.expires_at is not None and memory.expires_at <= memory.now
        return memory.timed_out or is_over

    @timed_out.setter
    def timed_out(self, value: bool) -> None:
        self._memory.timed_out = value

    @property
    def is_ready_to_send(self) -> bool:
        """Whether it is to be sent, or sent again, now. The transmitter paces by itself; override it to say more."""
        return True

    @property
    def _memory(self) -> Memory:
        memory: Memory = self.__dict__.setdefault(MEMORY, Memory())  # past pydantic, which knows its own fields only
        return memory


@dataclass(frozen=True)
class Pace:
    """How long a notification rests between two rounds: exponentially longer, up to ``longest``."""

    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    longest: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if self.base <= timedelta(0) or self.factor < 1 or self.longest < self.base:
            raise InvalidArgumentError(
                f"a pace must have a positive base, a factor of 1 or more and a longest rest above the base, not {self}"
            )

    def rest(self, attempts: int) -> timedelta:
        """The rest after so many rounds."""
        return Backoff(self.base, self.longest, self.factor).pause(attempts)

    def rest_unready(self, age: timedelta) -> timedelta:
        """The rest of one that was not ready at that age: as long as the rounds would be apart by then."""
        return min(self.base + max(age, timedelta(0)) * (self.factor - 1), self.longest)
