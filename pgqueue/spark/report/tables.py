"""The tables of the page, declared: what each answers, which columns of which figure it shows, and one as bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pgqueue.spark.report import words
from pgqueue.spark.report.columns import COLUMNS, PERCENTILES, Column, Unit
from pgqueue.spark.report.digest import FEW_MESSAGES, Digest, Row
from pgqueue.spark.report.span import micros


class Cell(NamedTuple):
    """A text, and for a bar how much of the longest it is."""

    text: str
    part: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of one figure. The first of its columns names the row; of buckets there is a row for each."""

    figure: str
    title: str
    reading: str
    columns: Sequence[str]
    bar: str | None = None
    """The column that is shown as a bar, too."""
    split: str | None = None
    """The column that has a column for each of its values, beside the bar; the queue only in the view of all."""
    empty: str = "There is nothing to show."

    def shown(self, digest: Digest, view: str | None) -> tuple[list[Column], list[list[Cell]]]:
        """The columns and rows in a view; none if nothing is known."""
        rows = digest.of(self.figure, view)
        columns = [COLUMNS[name] for name in self.columns if name != "queue" or view is None]
        if self.split and (self.split != "queue" or view is None):
            assert self.bar is not None, "it is split beside a bar"
            names = sorted({row[self.split] for row in rows}, key=digest.place)
            value = COLUMNS[self.bar]
            columns = [columns[0], value, *(replace(value, name=name) for name in names)]
            rows = _split(rows, self.split, self.bar, sum if value.unit is Unit.COUNT else max)
        if rows and self.columns[0] == "bucket":
            rows = _of_each_bucket(rows, columns, digest)
        return columns, self._cells(columns, rows)

    def compared(self, rows: Sequence[Row]) -> tuple[list[Column], list[list[Cell]]]:
        """The columns and rows of several queues."""
        columns = [COLUMNS[name] for name in self.columns]
        return columns, self._cells(columns, rows)

    def _cells(self, columns: Sequence[Column], rows: Sequence[Row]) -> list[list[Cell]]:
        most = max((row[self.bar] or 0 for row in rows), default=0) if self.bar else 0
        scale = 1 if self.bar and COLUMNS[self.bar].unit is Unit.SHARE else most or 1
        return [[self._cell(row[column.name], column, scale) for column in columns] for row in rows]

    def _cell(self, value: Any, column: Column, scale: float) -> Cell:
        is_bar = column.name == self.bar and value is not None
        return Cell(words.said(value, column.unit), value / scale if is_bar else None)


def _split(rows: Iterable[Row], split: str, value: str, join: Callable[[Iterable[Any]], Any]) -> list[Row]:
    """A row for each bucket: the value for each name, and all of them joined."""
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in rows:
        if row[value] is not None:
            found[row["bucket"]][row[split]] = row[value]
    return [{"bucket": start, **values, value: join(values.values())} for start, values in found.items()]


def _of_each_bucket(rows: Iterable[Row], columns: Sequence[Column], digest: Digest) -> list[Row]:
    known = {row["bucket"]: row for row in rows}
    missing = {column.name: 0 if column.unit is Unit.COUNT else None for column in columns}
    return [{**missing, **known.get(micros(start), {}), "bucket": start} for start in digest.span.starts()]


KINDS = (
    f"A kind is the subject of a message, else its content type; kinds of fewer than {FEW_MESSAGES} messages come last."
)

QUEUES = Table(
    "totals",
    "Which queues are there?",
    "The queues with the most settled messages, side by side.",
    (
        *("queue", "messages", "per_second", "dead_letter_share", "waiting_p50", "waiting_p99"),
        *("processing_p50", "processing_p99", "extra_deliveries"),
    ),
)

TABLES = (
    Table(
        "throughput",
        "How much was done?",
        "The settled messages by stretch of time, by outcome; the first and the last may be cut short by the span of "
        "the report.",
        ["bucket", "messages"],
        bar="messages",
        split="outcome",
    ),
    Table(
        "backlog",
        "Did the receivers keep up?",
        "Messages that were there and not yet settled when each stretch of time ended: if they become more for long, "
        "more came than could be done.",
        ["bucket", "backlog", "came"],
        bar="backlog",
        split="queue",
    ),
    Table(
        "waiting_time",
        "How long did messages wait?",
        "From being enqueued to the first lock, by the time of settlement; p99 is what 99 of 100 messages did not "
        "exceed. For all queues: the p99 of each, and as a bar the longest.",
        ["bucket", "p99", *(name for name in PERCENTILES if name != "p99"), "max"],
        bar="p99",
        split="queue",
    ),
    Table(
        "processing_time",
        "How long did the work take?",
        "From the first lock to the settlement, with everything between the deliveries of a message that needed "
        "several. For all queues: the p99 of each, and as a bar the longest.",
        ["bucket", "p99", *(name for name in PERCENTILES if name != "p99"), "max"],
        bar="p99",
        split="queue",
    ),
    Table(
        "retry_cost",
        "What did retries cost?",
        "The share of all processing time that went into messages which needed more than one delivery.",
        ["bucket", "retried_share", "retried_seconds", "processing_seconds"],
        bar="retried_share",
    ),
    Table(
        "delivery_counts",
        "How often was a message delivered?",
        "One delivery is how it should be; each delivery beyond is work that was done again.",
        ["delivery_count", "messages", "share"],
        bar="share",
        empty="No message was settled.",
    ),
    Table(
        "dead_letters",
        "Why were messages given up?",
        "Dead-lettered messages by the reason that was given, the most frequent first.",
        ["reason", "messages", "share"],
        bar="share",
        empty="Nothing was dead-lettered.",
    ),
    Table(
        "slowest",
        "Which kinds of message are slow?",
        f"By the 99th percentile of processing time. {KINDS}",
        ["kind", "queue", "messages", "p50", "p99", "max"],
        empty="No processing time is known.",
    ),
    Table(
        "poisonous",
        "Which kinds of message are poisonous?",
        f"By the share of them that were dead-lettered. {KINDS}",
        ["kind", "queue", "messages", "deliveries", "dead_lettered", "dead_letter_share"],
        bar="dead_letter_share",
        empty="Nothing was dead-lettered.",
    ),
)
