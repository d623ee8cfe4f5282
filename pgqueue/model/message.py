"""Messages: what an application sends, and what it receives or peeks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, Self

from typing_extensions import TypeVar

from pgqueue.errors import InvalidArgumentError, MessageNotReadableError
from pgqueue.model.body_type import BodyType
from pgqueue.model.failure import DeliveryError, Resubmission
from pgqueue.model.json_text import JsonHolder, LazyHolder, lazy_fields, without_version
from pgqueue.model.row import FIELDS, LOCK_TOKEN, PROPERTIES, SEQUENCE_NUMBER, Row, raw_body

T = TypeVar("T")

#: The type of a body: anything by default.
BodyT = TypeVar("BodyT", default=Any)
BodyT_co = TypeVar("BodyT_co", default=Any, covariant=True)
PeekedT = TypeVar("PeekedT", bound="PeekedMessage")

#: How to send a message whose unique key another one has.
OnConflict = Literal["ignore", "replace", "raise"]

#: How long a message has its unique key to itself.
UniqueScope = Literal["waiting", "unsettled"]


@dataclass
class Message(Generic[BodyT_co]):
    """A message to send. For a type checker it is generic in the type of its body.

    ``body`` is any JSON value, or ``bytes``, which are stored unchanged. ``application_properties`` are JSON,
    datetimes, UUIDs, Decimals and bytes; each comes back as what it was. ``priority`` is an integer from -100 to 100;
    lower numbers are delivered first, as with Unix ``nice``. The message is enqueued at once, or at
    ``scheduled_enqueue_time``, an aware time. It expires ``time_to_live`` later, or sooner if its queue has a shorter
    default. A queue that requires sessions delivers the messages of each ``session_id`` in their order, to one receiver
    at a time; a fair queue lets groups take turns, and ``group_id`` is another name of it. At most one message of a
    queue has a ``unique_key`` while it waits, or with the ``unique_scope`` ``"unsettled"`` until it is settled; see
    :meth:`Queue.send`. The application defines the meaning of the other
    fields; their names are those of AMQP and Azure Service Bus.
    """

    body: BodyT_co
    _: KW_ONLY
    message_id: str | None = None
    application_properties: Mapping[str, Any] | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    priority: int = 0
    time_to_live: timedelta | None = None
    scheduled_enqueue_time: datetime | None = None
    # generated lines: {after session_id: $key: $optional = $unset}
    reply_to_session_id: str | None = None
    to: str | None = None
    partition_key: str | None = None
    unique_key: str | None = None
    unique_scope: UniqueScope | None = None
    # end
    if TYPE_CHECKING:
        group_id: str | None = None
    else:
        group_id: InitVar[str | None] = None

    def __post_init__(self, group_id: str | None = None) -> None:  # noqa: RUF033 - to a type checker it is a field
        """Take the group for the session."""
        if group_id is not None:
            if self.session_id not in (None, group_id):
                raise InvalidArgumentError("session_id must be left out, or the same as group_id: it is another name")
            self.session_id = group_id


if not TYPE_CHECKING:

    def _group_id(message: Message) -> str | None:
        """The group of the message: another name of its ``session_id``."""
        return message.session_id

    Message.group_id = property(_group_id, lambda message, group_id: setattr(message, "session_id", group_id))
    del Message.__dataclass_fields__["group_id"]  # dataclasses.replace() would give it beside the session


class SequenceNumber(int):
    """The sequence number of a message that was sent, an ``int``.

    ``is_duplicate`` means that nothing was stored: the number is that of the message that was sent first with the same
    message id, because the queue detects duplicates, or of the one that has the same unique key.
    """

    is_duplicate: bool = False


@lazy_fields(*FIELDS)
@dataclass(kw_only=True, repr=False)
class PeekedMessage(LazyHolder, Message[BodyT_co]):
    """A message as it is in a queue, without a lock for the reader.

    Times are aware, by the database's clock. ``delivery_count`` is the number of deliveries so far. While the message
    is locked, ``locked_until`` is set and ``locked_by`` names the holder. After ``expires_at`` it is not delivered any
    more; None means never. ``time_to_live`` is always None here. If ``is_deferred``, it is received only by its
    sequence number. The ``dead_letter_…`` fields are set on dead letters, and on messages that were forwarded when
    they died: of these ``dead_letter_source`` names the queue in which that was.

    ``last_error`` is the error that a delivery failed with most recently, None if none did since the message was sent
    or resubmitted. ``delivery_log`` has the last errors, oldest first, as many as the queue retains
    (``retain_errors``). ``resubmitted_from`` is why a resubmitted message was a dead letter before. Messages of
    ``receive_and_delete`` come without these.

    ``body`` and ``application_properties`` are decoded on first access. A message sent by SQL may contain JSON that
    Python cannot read: only the access raises :class:`~pgqueue.errors.MessageNotReadableError`.
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
    last_error: DeliveryError | None = None
    delivery_log: tuple[DeliveryError, ...] = ()
    resubmitted_from: Resubmission | None = None

    if TYPE_CHECKING:
        _row: Row
        _body_type: BodyType | None
    else:
        _body_type = None  # no field: what makes the bodies of its queue, if that has a type

    def _read(self, name: str) -> Any:
        if name == "body" and self._body_type is not None:
            return self._body_type.read(self.raw_body)
        return FIELDS[name](self._row)

    @property
    def raw_body(self) -> str | bytes:
        """The body as the queue holds it: JSON as text, or bytes."""
        body: str | bytes = raw_body(self._row) if hasattr(self, "_row") else vars(self)["body"]
        return body

    @property
    def raw_application_properties(self) -> str | None:
        """The application properties as the queue holds them: JSON as text, or None."""
        held = self._row[PROPERTIES] if hasattr(self, "_row") else vars(self)["application_properties"]
        properties: str | None = without_version(held)
        return properties

    def _shown(self, name: str) -> str:
        is_secret = name == "body" and self._body_type is not None and self._body_type.cipher is not None
        return "<encrypted>" if is_secret else super()._shown(name)

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, readable or not."""
        if type(other) is not type(self):
            return NotImplemented
        return all(_compared(self, each.name) == _compared(other, each.name) for each in fields(PeekedMessage))

    def _title(self) -> str:
        return f"message {self.sequence_number} of {self.queue}"


def _compared(message: PeekedMessage, name: str) -> Any:
    try:
        return getattr(message, name)
    except MessageNotReadableError:
        return getattr(message, f"raw_{name}")


class Typed(Protocol):
    """A queue, or one of its messages."""

    _body_type: BodyType | None


def from_row(kind: type[PeekedT], queue: str, row: Row, body_type: BodyType | None = None) -> PeekedT:
    """A message of a row, which decodes its fields on first access; its number is always asked for."""
    message = kind.__new__(kind)
    message.queue, message._row = queue, row  # noqa: SLF001 - a function beside its class
    message.sequence_number = row[SEQUENCE_NUMBER]
    if body_type is not None:
        message._body_type = body_type  # noqa: SLF001 - the same
    return message


def body_type_of(holder: Typed) -> BodyType | None:
    """The type of the bodies of a queue, or of the queue of a message, if it has one."""
    return holder._body_type  # noqa: SLF001 - a public name would be a promise to users


@dataclass(frozen=True)
class SettledMessage:
    """A message in the history of a queue: how it ended, when, and after how many deliveries.

    ``outcome`` is COMPLETED, DEAD_LETTERED (for this ``reason``), EXPIRED, RECEIVED_AND_DELETED, PURGED, DELETED,
    CANCELLED or MOVED (to the queue that is the ``reason``). ``locked_by`` names the last holder of its lock.
    ``body_size`` is in bytes, as stored; the body itself is not kept.
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
    session_id: str | None = None


@dataclass(frozen=True)
class FoundMessage:
    """A message that was found in a queue, in short.

    ``state`` is READY, SCHEDULED, DEFERRED, EXPIRED, EXHAUSTED, LOCKED or DEAD_LETTERED. ``body`` is the first 200
    characters of its JSON, or of its bytes in hexadecimal. ``last_error`` is that of the last delivery that failed.
    """

    sequence_number: int
    state: str
    delivery_count: int
    enqueued_time: datetime
    scheduled_enqueue_time: datetime | None
    locked_until: datetime | None
    locked_by: str | None
    expires_at: datetime | None
    message_id: str | None
    correlation_id: str | None
    subject: str | None
    session_id: str | None
    dead_letter_reason: str | None
    dead_lettered_at: datetime | None
    last_error: str | None
    body: str | None


@lazy_fields("result")
@dataclass(frozen=True, repr=False)
class RecordedEffect(JsonHolder):
    """The record of an effect that was done for a message outside of the database, with its result."""

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
    """The proof that a delivery holds its message: every settlement and every renewal sends it to the database."""

    queue: str
    sequence_number: int
    lock_token: str

    @classmethod
    def of_row(cls, queue: str, row: Row) -> Self:
        """The lock on a received message, from its row."""
        return cls(queue, row[SEQUENCE_NUMBER], row[LOCK_TOKEN])
