"""One round trip to the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        return self.sql % {name: literal(value) for name, value in self.parameters.items()}


def literal(value: object) -> str:
    """A value as text of SQL, under any setting of ``standard_conforming_strings``."""
    if value is None:
        return "null"
    text = str(value).replace("'", "''")
    return f"'{text}'" if "\\" not in text else " E'" + text.replace("\\", "\\\\") + "'"


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
