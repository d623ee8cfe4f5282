"""One round trip to the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, LiteralString, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Statement(Generic[T]):
    """SQL text with named parameters, and how its rows become a result."""

    sql: LiteralString
    parameters: Mapping[str, Any]
    read: Callable[[Sequence[Row]], T]


def nothing(rows: Sequence[Row]) -> None:
    """For a statement whose rows do not matter."""


def scalar(rows: Sequence[Row]) -> Any:
    """The one value of the one row."""
    return rows[0][0]


def column(rows: Sequence[Row]) -> list[Any]:
    """The first value of every row."""
    return [row[0] for row in rows]


def rows(found: Sequence[Row]) -> list[Any]:
    """The rows as they are."""
    return list(found)
