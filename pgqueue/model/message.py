"""Messages: what an application sends, and what it finds in a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


@dataclass
class Message:
    """A message to be sent.

    ``body`` is anything JSON can hold, or ``bytes``, which are kept byte for byte. ``priority`` is a whole number from
    -100 to 100, and the smaller is served the sooner, as with Unix ``nice``. The rest is the application's own: the
    names are those of AMQP and Azure Service Bus.
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


@dataclass(kw_only=True)
class PeekedMessage(Message):
    """A message as it stands in a queue: looked at, not locked.

    Times are aware and the database's. ``delivery_count`` is how often it was delivered so far. ``locked_until`` is
    set while somebody holds it; ``locked_by`` names the holder. The ``dead_letter_…`` fields are set on dead letters.
    """

    queue: str
    sequence_number: int
    delivery_count: int
    enqueued_time: datetime
    locked_until: datetime | None = None
    locked_by: str | None = None
    dead_letter_reason: str | None = None
    dead_letter_error_description: str | None = None
    dead_lettered_at: datetime | None = None


class Lock(NamedTuple):
    """The proof that a delivery is ours: every settlement and every renewal shows it to the database."""

    queue: str
    sequence_number: int
    lock_token: UUID
