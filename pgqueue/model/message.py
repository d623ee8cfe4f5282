"""Messages: what an application sends, and what it finds in a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from uuid import UUID

from pgqueue.model.json_text import JsonField, JsonHolder, held_in, json_fields
from pgqueue.model.row import FIELDS, Row

T = TypeVar("T")


@dataclass
class Message:
    """A message to be sent.

    ``body`` is anything JSON can hold, or ``bytes``, which are kept byte for byte. ``priority`` is a whole number from
    -100 to 100, and the smaller is served the sooner, as with Unix ``nice``. It is enqueued at once, or at the
    ``scheduled_enqueue_time``, an aware time; it expires ``time_to_live`` later, or sooner if its queue says so. The
    rest is the application's own: the names are those of AMQP and Azure Service Bus.
    """

    body: Any
    _: KW_ONLY
    message_id: str | None = None
    application_properties: Mapping[str, Any] | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    priority: int = 0
    time_to_live: timedelta | None = None
    scheduled_enqueue_time: datetime | None = None


class SequenceNumber(int):
    """The number of a message that was sent, an ``int``.

    ``is_duplicate`` says that nothing was stored, because the queue detects duplicates: the number is that of the
    message that was sent before with the same message id.
    """

    is_duplicate: bool = False

    def __new__(cls, number: int, *, is_duplicate: bool = False) -> Self:
        """Make the number; ``is_duplicate`` is kept only where it is true."""
        self = super().__new__(cls, number)
        if is_duplicate:
            self.is_duplicate = True
        return self


class RowField:
    """An attribute of a message that is read from its row when it is asked for first, and kept then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._read = FIELDS[name]

    def __get__(self, message: object, owner: type) -> Any:
        if message is None:
            return self
        value = self._read(message._row)  # type: ignore[attr-defined]  # it was made of one
        setattr(message, self._name, value)
        return value


def row_fields(kind: type[T]) -> type[T]:
    """A decorator for a dataclass of messages: one that was made of a row reads its fields from that."""
    for each in fields(kind):  # type: ignore[arg-type]  # a dataclass
        if each.name in FIELDS and not isinstance(getattr(kind, each.name, None), RowField | JsonField):
            setattr(kind, each.name, RowField(each.name))
    return kind


@row_fields
@json_fields("body", "application_properties")
@dataclass(kw_only=True, repr=False)
class PeekedMessage(JsonHolder, Message):
    """A message as it stands in a queue: looked at, not locked.

    Times are aware and the database's. ``delivery_count`` is how often it was delivered so far. ``locked_until`` is
    set while somebody holds it; ``locked_by`` names the holder. After ``expires_at`` it is not delivered any more; None
    is never. ``time_to_live`` is None here. One that ``is_deferred`` is received by its number only. ``dead_letter_…``
    is set on dead letters; their source only where a message was forwarded before it died, which no queue does yet.

    ``body`` and ``application_properties`` are decoded when they are first asked for. What SQL has sent may be JSON
    that Python cannot read: that raises :class:`~pgqueue.errors.MessageNotReadableError` then, and not before.
    """

    queue: str
    sequence_number: int
    delivery_count: int
    enqueued_time: datetime
    locked_until: datetime | None = None
    locked_by: str | None = None
    expires_at: datetime | None = None
    is_deferred: bool = False
    dead_letter_reason: str | None = None
    dead_letter_error_description: str | None = None
    dead_letter_source: str | None = None
    dead_lettered_at: datetime | None = None

    if TYPE_CHECKING:
        _row: Row

    @classmethod
    def _from_row(cls, queue: str, row: Row) -> Self:
        message = cls.__new__(cls)
        message.queue, message._row = queue, row
        return message

    def _read(self, name: str) -> Any:
        return FIELDS[name](self._row)

    @property
    def raw_body(self) -> str | bytes:
        """The body as the queue holds it: JSON as text, or bytes."""
        body: str | bytes = self._raw("body")
        return body

    @property
    def raw_application_properties(self) -> str | None:
        """The application properties as the queue holds them: JSON as text, or None."""
        properties: str | None = self._raw("application_properties")
        return properties

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __eq__(self, other: object) -> bool:
        """Whether all that is here is the same, be it readable or not."""
        if not isinstance(other, type(self)) or type(other) is not type(self):
            return NotImplemented
        return all(held_in(self, each.name) == held_in(other, each.name) for each in fields(PeekedMessage))

    def _title(self) -> str:
        return f"message {self.sequence_number} of {self.queue}"


@dataclass(frozen=True)
class SettledMessage:
    """What the history of a queue keeps of a message: how it ended, when, and after how many deliveries.

    ``outcome`` is COMPLETED, DEAD_LETTERED (for this ``reason``), EXPIRED, RECEIVED_AND_DELETED, PURGED or CANCELLED.
    ``locked_by`` held it last. ``body_size`` is in bytes, as stored; the body itself is not kept.
    """

    queue: str
    sequence_number: int
    outcome: str
    reason: str | None
    enqueued_time: datetime
    first_locked_at: datetime | None
    settled_at: datetime
    delivery_count: int
    locked_by: str | None
    priority: int
    body_size: int
    message_id: str | None
    correlation_id: str | None
    subject: str | None
    content_type: str | None


@json_fields("result")
@dataclass(frozen=True, repr=False)
class RecordedEffect(JsonHolder):
    """That something was done for a message outside of the database, and what came of it."""

    effect: str
    result: Any
    recorded_at: datetime

    @property
    def raw_result(self) -> str | None:
        """The result as the database holds it: JSON as text, or None."""
        result: str | None = self._raw("result")
        return result

    def _title(self) -> str:
        return f"the effect {self.effect}"


class Lock(NamedTuple):
    """The proof that a delivery is ours: every settlement and every renewal shows it to the database."""

    queue: str
    sequence_number: int
    lock_token: UUID
