"""The layout of a message's row, and the meaning of its columns. Columns are decoded on first access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final

from pgqueue.model.json_text import json_text

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
    "lane",
    "body",
    "binary_body",
    "message_id",
    "correlation_id",
    "subject",
    "content_type",
    "reply_to",
    "application_properties",
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

#: The lanes of deferred messages have higher numbers than all others; see ``sql/functions/engine/_priority.sql``.
DEFERRED_LANES: Final = 800

_LANE, _BODY, _BINARY, _PROPERTIES = map(COLUMNS.index, ("lane", "body", "binary_body", "application_properties"))


def _is_deferred(row: Row) -> bool:
    return bool(row[_LANE] >= DEFERRED_LANES)


def _priority(row: Row) -> int:
    lane: int = row[_LANE]
    return (lane - 1000 if lane >= DEFERRED_LANES else lane) >> 1


def _body(row: Row) -> Any:
    return row[_BINARY] if row[_BINARY] is not None else json_text(row[_BODY])


def _properties(row: Row) -> Any:
    return json_text(row[_PROPERTIES])


def _if_there(place: int) -> Callable[[Row], Any]:
    return lambda row: row[place] if place < len(row) else None


def _always(value: object) -> Callable[[Row], Any]:
    return lambda _: value


#: How each field of a message is read from its row; except the queue, which is not in the row.
FIELDS: Final[Mapping[str, Callable[[Row], Any]]] = {
    **{name: itemgetter(place) for place, name in enumerate(COLUMNS)},
    **{name: _if_there(place) for place, name in enumerate(MORE, len(COLUMNS))},
    "body": _body,
    "application_properties": _properties,
    "is_deferred": _is_deferred,
    "priority": _priority,
    "time_to_live": _always(None),
    "dead_letter_source": _always(None),
}
