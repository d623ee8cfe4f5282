"""The layout of a message's row, and the meaning of its columns. Columns are decoded on first access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from pgqueue.model.cipher import NO_KEYS, is_encrypted
from pgqueue.model.columns import KEPT
from pgqueue.model.failure import DeliveryError, Resubmission, delivery_error, resubmission
from pgqueue.model.json_text import decode_jsonb, without_version
from pgqueue.model.properties import decode_properties

Row = tuple[Any, ...]

#: The columns of every row. Those of :data:`MORE` may follow.
COLUMNS: Final = (
    "sequence_number",
    "lock_token",
    "locked_until",
    "locked_by",
    "delivery_count",
    "enqueued_time",
    "expires_at",
    "priority",
    "is_deferred",
    "failures",
    *(column.name for column in KEPT),
)

#: ``lasts`` is the time left on the lock of a received message, measured by the database's clock alone.
MORE: Final = (
    "lasts",
    "scheduled_enqueue_time",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_lettered_at",
)

SEQUENCE_NUMBER, LOCK_TOKEN = COLUMNS.index("sequence_number"), COLUMNS.index("lock_token")
LASTS: Final = len(COLUMNS)

MORE_AT: Final = {name: place for place, name in enumerate(MORE, len(COLUMNS))}

_BODY, _BINARY, PROPERTIES, _FAILURES = map(
    COLUMNS.index, ("body", "binary_body", "application_properties", "failures")
)


def raw_body(row: Row) -> Any:
    """The body as the database holds it: JSON as text, or bytes."""
    return row[_BINARY] if row[_BINARY] is not None else without_version(row[_BODY])


def _body(row: Row) -> Any:
    binary = row[_BINARY]
    if binary is None:
        return decode_jsonb(row[_BODY])
    if is_encrypted(binary):
        raise ValueError(NO_KEYS)
    return binary


def _lock_token(row: Row) -> UUID | None:
    return None if row[LOCK_TOKEN] is None else UUID(row[LOCK_TOKEN])


def _failures(row: Row) -> Mapping[str, Any]:
    return decode_jsonb(row[_FAILURES]) or {}


def _last_error(row: Row) -> DeliveryError | None:
    entry = _failures(row).get("last_error")
    return None if entry is None else delivery_error(entry)


def _delivery_log(row: Row) -> tuple[DeliveryError, ...]:
    return tuple(map(delivery_error, _failures(row).get("delivery_log") or ()))


def _resubmitted_from(row: Row) -> Resubmission | None:
    entry = _failures(row).get("resubmitted_from")
    return None if entry is None else resubmission(entry)


def _forwarded_from(row: Row) -> Mapping[str, Any]:
    return _failures(row).get("forwarded_from") or {}


def _of_its_death(column: str, name: str) -> Callable[[Row], Any]:
    """The cause of death: a dead letter's column, or the saved copy of a forwarded message."""
    is_dead, there = _if_there(MORE_AT["dead_letter_reason"]), _if_there(MORE_AT[column])
    return lambda row: there(row) if is_dead(row) else _forwarded_from(row).get(name)


def _dead_lettered_at(row: Row) -> datetime | None:
    found = _of_its_death("dead_lettered_at", "dead_lettered_at")(row)
    return datetime.fromisoformat(found) if isinstance(found, str) else found


def _if_there(place: int) -> Callable[[Row], Any]:
    return lambda row: row[place] if place < len(row) else None


#: How each field of a message is read from its row; except the queue, which is not in the row.
FIELDS: Final[Mapping[str, Callable[[Row], Any]]] = {
    **{name: itemgetter(place) for place, name in enumerate(COLUMNS)},
    **{name: _if_there(place) for name, place in MORE_AT.items()},
    "lock_token": _lock_token,
    "body": _body,
    "application_properties": lambda row: decode_properties(row[PROPERTIES]),
    "last_error": _last_error,
    "delivery_log": _delivery_log,
    "resubmitted_from": _resubmitted_from,
    "time_to_live": lambda _: None,
    "dead_letter_reason": _of_its_death("dead_letter_reason", "reason"),
    "dead_letter_error_description": _of_its_death("dead_letter_error_description", "description"),
    "dead_letter_source": lambda row: _forwarded_from(row).get("queue"),
    "dead_lettered_at": _dead_lettered_at,
}
