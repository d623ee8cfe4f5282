"""One round trip to the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar

from pgqueue.model.row import Row

T = TypeVar("T")


#: The limit of a statement that takes the longer, the longer its queue is.
NO_LIMIT = inf


class Statement(NamedTuple, Generic[T]):
    """SQL text with named parameters, and how its rows are converted to a result."""

    sql: LiteralString
    parameters: Mapping[str, Any]
    read: Callable[[Sequence[Row]], T]
    #: In seconds: how long to wait for the answer if that is less than the client's timeout, or infinite.
    limit: float | None = None

    def within(self, seconds: float) -> Statement[T]:
        """The same, to be answered within so many seconds."""
        return self._replace(limit=seconds)

    def text(self) -> str:
        """The SQL with its parameters inserted, to be sent with other commands in one round trip."""
        sql = self.sql.replace(")b::", ")s::")  # placeholders of values that are sent in binary otherwise
        return sql % {name: literal(value) for name, value in self.parameters.items()}


def literal(value: object) -> str:
    """A value as text of SQL, under any setting of ``standard_conforming_strings``."""
    if value is None:
        return "null"
    text = _text(value).replace("'", "''")
    return f"'{text}'" if "\\" not in text else " E'" + text.replace("\\", "\\\\") + "'"


def _text(value: object) -> str:
    """A value as PostgreSQL reads it in any session."""
    match value:
        case str():
            return value
        case list():
            return f"{{{','.join(map(_element, value))}}}"
        case bytes():
            return f"\\x{value.hex()}"
        case timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case datetime():
            return value.isoformat()
    return str(value)


def _element(value: object) -> str:
    """An element of an array."""
    return "NULL" if value is None else '"' + _text(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def nothing(rows: Sequence[Row]) -> None:
    """For a statement whose rows are ignored."""


def scalar(rows: Sequence[Row]) -> Any:
    """The one value of the one row."""
    return rows[0][0]


def column(rows: Sequence[Row]) -> list[Any]:
    """The first value of every row."""
    return [row[0] for row in rows]


def rows(found: Sequence[Row]) -> list[Any]:
    """The rows unchanged."""
    return list(found)
