"""Checks of the input of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBERS = {"tinyint", "smallint", "int", "bigint"}
TIMES = {"timestamp", "timestamp_ntz"}
TEXT = {"string"}

HISTORY = {
    "queue": TEXT,
    "outcome": TEXT,
    "reason": TEXT,
    "enqueued_time": TIMES,
    "first_locked_at": TIMES,
    "settled_at": TIMES,
    "delivery_count": NUMBERS,
    "subject": TEXT,
    "content_type": TEXT,
}
WAITING = {"queue": TEXT, "enqueued_time": TIMES}


class NotReportable(ValueError):
    """The report cannot be made, and nothing was written; the text has the remedy."""


def check(frame: DataFrame, name: str, needed: dict[str, set[str]], remedy: str) -> None:
    """Refuse a DataFrame that lacks what the report needs; ``remedy`` is that for a missing column.

    Raises:
        NotReportable: a column is missing, or of another type.
    """
    types = {column: kind.split("(")[0] for column, kind in frame.dtypes}
    missing = [column for column in needed if column not in types]
    if missing:
        raise NotReportable(f"{name} has no column {', '.join(map(repr, missing))}: {remedy}")
    for column, good in needed.items():
        if types[column] not in good:
            raise NotReportable(
                f"the column {column!r} of {name} is {types[column]}, not {' or '.join(sorted(good))}: cast it"
            )
