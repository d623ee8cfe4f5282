"""Spark's filters as SQL, if they have the same result for every row in PostgreSQL, including nulls.

Spark compares text by its bytes, so the SQL uses the collation "C". A filter that PostgreSQL might evaluate
differently is not translated: Spark then applies it itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, TimestampType

from pgqueue.spark.relations import Column, literal

COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "{} = {}",
    EqualNullSafe: "{} is not distinct from {}",
    GreaterThan: "{} > {}",
    GreaterThanOrEqual: "{} >= {}",
    LessThan: "{} < {}",
    LessThanOrEqual: "{} <= {}",
}

PATTERNS: dict[type[Filter], str] = {
    StringStartsWith: "starts_with({0}, {1})",
    StringEndsWith: "right({0}, char_length({1})) = {1}",
    StringContains: "strpos({0}, {1}) > 0",
}

NULLNESS: dict[type[Filter], str] = {IsNull: "{} is null", IsNotNull: "{} is not null"}

PYTHON_TYPES: dict[DataType, type] = {
    StringType(): str,
    BinaryType(): bytes,
    IntegerType(): int,
    LongType(): int,
    TimestampType(): datetime,
}


def condition(asked: Filter, columns: Mapping[str, Column]) -> str | None:
    """A filter as an SQL condition, or None if Spark has to apply it."""
    if isinstance(asked, Not):
        inner = condition(asked.child, columns)
        return None if inner is None else f"not ({inner})"
    column = _column(asked, columns)
    if column is None:
        return None
    if type(asked) in NULLNESS:
        return NULLNESS[type(asked)].format(_operand(column))
    if isinstance(asked, In):
        return _among(column, asked.value)
    return _compared(asked, column)


def _column(asked: Filter, columns: Mapping[str, Column]) -> Column | None:
    """The column that a filter tests; None for a field inside a column."""
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    return columns.get(path[0]) if len(path) == 1 else None


def _compared(asked: Filter, column: Column) -> str | None:
    form = COMPARISONS.get(type(asked))
    if form is None and isinstance(column.type, StringType):
        form = PATTERNS.get(type(asked))
    value = getattr(asked, "value", None)
    if form is None or not _fits(value, column):
        return None
    return form.format(_operand(column), literal(value))


def _among(column: Column, values: object) -> str | None:
    """An ``in`` condition; None for an empty list, whose meaning is a setting of Spark."""
    if not isinstance(values, list | tuple) or not values:
        return None
    if not all(value is None or _fits(value, column) for value in values):
        return None
    return f"{_operand(column)} in ({', '.join(map(literal, values))})"


def _operand(column: Column) -> str:
    return f'(({column.sql}) collate "C")' if isinstance(column.type, StringType) else f"({column.sql})"


def _fits(value: object, column: Column) -> bool:
    """Whether a value has the column's type and can be sent to PostgreSQL, whose text contains no NUL."""
    if type(value) is not PYTHON_TYPES[column.type]:
        return False
    if isinstance(value, str):
        return "\0" not in value and _is_unicode(value)
    return not isinstance(value, datetime) or value.tzinfo is not None


def _is_unicode(text: str) -> bool:
    """Whether the text contains no half of a surrogate pair, which only Python strings may contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
