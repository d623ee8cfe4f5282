"""What Spark filters by, as SQL: only what gives the same rows there, row by row, null for null.

Spark compares text by its bytes, so the database does, with the collation "C". What Spark and PostgreSQL might see
differently is not translated: Spark then filters by it itself.
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
    """A filter as a condition in SQL, or None where Spark has to filter by itself."""
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
    """The column that a filter is about; None for a field inside of one."""
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
    """Among no values at all is nothing, or null: that is a setting of Spark, so Spark decides."""
    if not isinstance(values, list | tuple) or not values:
        return None
    if not all(value is None or _fits(value, column) for value in values):
        return None
    return f"{_operand(column)} in ({', '.join(map(literal, values))})"


def _operand(column: Column) -> str:
    return f'(({column.sql}) collate "C")' if isinstance(column.type, StringType) else f"({column.sql})"


def _fits(value: object, column: Column) -> bool:
    """Whether a value is of the column's type, and can be said to PostgreSQL, whose text holds no NUL."""
    if type(value) is not PYTHON_TYPES[column.type]:
        return False
    if isinstance(value, str):
        return "\0" not in value and _is_unicode(value)
    return not isinstance(value, datetime) or value.tzinfo is not None


def _is_unicode(text: str) -> bool:
    """Half of a surrogate pair can stand in a Python string, and nowhere else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
