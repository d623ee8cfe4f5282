"""Schedules: messages that are sent again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import count as numbers
from itertools import islice, takewhile
from typing import Any

from pgqueue.errors import MessageNotReadableError
from pgqueue.model import arguments, recurrence
from pgqueue.model.body_type import BodyType
from pgqueue.model.cipher import NO_KEYS, is_encrypted
from pgqueue.model.encoding import EncodedMessage, encode
from pgqueue.model.json_text import without_version
from pgqueue.model.message import Message
from pgqueue.model.properties import decode_properties


class CatchUp(StrEnum):
    """The handling of due times that passed unnoticed for ten seconds, or at which the queue refused the message."""

    NONE = "none"
    """Only the latest is sent, and only within a minute."""
    LAST = "last"
    """Only the latest is sent, however late."""
    ALL = "all"
    """Each is sent, up to the latest 1000."""


@dataclass(frozen=True)
class Schedule:
    """A message that is sent to a queue again and again.

    It is due at the times of the ``cron`` expression in ``timezone``, or ``every`` so often, not before ``start`` and
    not after ``end``; it can be received up to ``jitter`` later, at random. ``next_due`` is None while it is paused,
    when it has ended, and until a schedule that was created by SQL is noticed by a worker or a sweep. ``last_due`` is
    the due time that was sent last. ``last_error`` is the error of the last attempt to send, if it failed; it is tried
    again. ``read_at`` is the time of the database at which all this was true.
    """

    name: str
    queue: str
    cron: str | None
    every: timedelta | None
    timezone: str
    catch_up: CatchUp
    jitter: timedelta | None
    start: datetime
    end: datetime | None
    is_paused: bool
    next_due: datetime | None
    last_due: datetime | None
    last_error: str | None
    created_at: datetime
    read_at: datetime
    _message: EncodedMessage = field(repr=False)
    _body_type: BodyType = field(default=BodyType(None), repr=False)

    @property
    def message(self) -> Message[Any]:
        """The message that is sent; the id that each gets is ``message_id``, or the schedule's name, with the due time.

        Raises:
            MessageNotReadableError: its JSON was stored by SQL, and Python cannot read it; or it is encrypted.
        """
        fields = self._message._asdict()
        text, binary = fields.pop("body"), fields.pop("binary_body")
        try:
            body = self._body_type.read(without_version(text) if binary is None else binary)
            properties = decode_properties(fields.pop("application_properties"))
        except ValueError as error:
            raise MessageNotReadableError(f"the message of schedule {self.name} cannot be read: {error}") from None
        return Message(body, application_properties=properties, **fields)

    def upcoming(self, count: int = 10) -> list[datetime]:
        """Returns the next due times, in UTC: while it is paused, those that follow if it is resumed now."""
        following = takewhile(lambda due: self.end is None or due <= self.end, self._following())
        return list(islice(following, arguments.count("count", count)))

    def _following(self) -> Iterator[datetime]:
        first = self.next_due or max(self.read_at, self.start)
        since = first - timedelta.resolution
        if self.cron is not None:
            return recurrence.due_times(self.cron, self.timezone, since)
        assert self.every is not None
        start, every = self.start.astimezone(UTC), self.every
        return _recurring(start, every, max((since - start) // every + 1, 0))


def _recurring(start: datetime, every: timedelta, first: int) -> Iterator[datetime]:
    with suppress(OverflowError):  # the calendar ends
        for n in numbers(first):
            yield start + n * every


def sends(schedule: Schedule, message: Message[Any], body_type: BodyType | None) -> bool:
    """Whether its message has this body, subject and unique key. A body that cannot be read is another.

    Raises:
        MessageNotReadableError: it is encrypted, and ``body_type`` has no keys: plaintext must not replace it.
    """
    known, wanted = schedule._message, encode(message)  # noqa: SLF001 - a function beside its class
    if body_type is None and is_encrypted(known.binary_body):
        raise MessageNotReadableError(f"the message of schedule {schedule.name} cannot be read: {NO_KEYS}")
    same = (known.subject, known.unique_key) == (wanted.subject, wanted.unique_key)
    return same and _plain(known, body_type) == _plain(wanted, None)


def _plain(message: EncodedMessage, body_type: BodyType | None) -> Any:
    """The body, with numbers by their digits: jsonb writes 1e300 as a whole number. Equal to nothing if unreadable."""
    raw = without_version(message.body) if message.binary_body is None else message.binary_body
    try:
        plain = (body_type or BodyType(None)).decrypted(raw)
        return plain if isinstance(plain, bytes) else json.loads(plain, parse_float=_digits, parse_int=_digits)
    except (ValueError, RecursionError):
        return object()


def _digits(number: str) -> tuple[Decimal]:
    return (Decimal(number),)  # not equal to a boolean
