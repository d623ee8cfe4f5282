"""The charts and tables of the page, declared: what they answer, and which columns of which figure they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pgqueue.spark.report.columns import COLUMNS, PERCENTILES, Column, Unit
from pgqueue.spark.report.digest import FEW_MESSAGES, OTHERS, Digest
from pgqueue.spark.report.span import micros


class Mark(Enum):
    """How the values of a chart are drawn."""

    BARS = "stacked bars from zero"
    LINES = "lines on a logarithmic scale"


@dataclass(frozen=True)
class Chart:
    """A chart over time."""

    figure: str
    title: str
    reading: str
    mark: Mark
    columns: Sequence[str]
    """A series for each."""
    by_queue: str | None = None
    """In the view of all queues: the column with a series for each queue."""
    split: str | None = None
    """The column with a series for each of its values."""

    @property
    def unit(self) -> Unit:
        """What all its values are."""
        return COLUMNS[self.columns[0]].unit

    def series(self, digest: Digest, view: str | None) -> list[Series]:
        """The series of a view; those without any value are left out."""
        if self.by_queue and view is None:
            of_queues = {queue: f"queue-{number}" for number, queue in enumerate(digest.queues, 1)} | {OTHERS: "others"}
            found = [self._series(digest, name, name, color, self.by_queue) for name, color in of_queues.items()]
        elif self.split:
            kinds = sorted({row[self.split] for row in digest.of(self.figure, view)}, key=_place)
            found = [self._series(digest, view, kind, _color(kind), self.columns[0], self.split) for kind in kinds]
        else:
            found = [self._series(digest, view, COLUMNS[name].label, name, name) for name in self.columns]
        return [each for each in found if any(value is not None for value in each.values)]

    def _series(
        self, digest: Digest, view: str | None, name: str, color: str, column: str, split: str | None = None
    ) -> Series:
        rows = [row for row in digest.of(self.figure, view) if split is None or row[split] == name]
        values = {row["bucket"]: row[column] for row in rows}
        missing = 0 if rows and self.unit is Unit.COUNT else None
        starts = map(micros, digest.span.starts())
        return Series(name or "other queues", color, [values.get(start, missing) for start in starts])


@dataclass(frozen=True)
class Series:
    """A value for each bucket, None if there is none."""

    name: str
    color: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Table:
    """A table of some rows of a figure, whose first column names the row."""

    figure: str
    title: str
    reading: str
    columns: Sequence[str]
    empty: str
    bar: str | None = None
    """The column that is shown as a bar, too."""

    def shown(self, view: str | None) -> list[Column]:
        """The columns in a view: in that of one queue its name is left out."""
        return [COLUMNS[name] for name in self.columns if name != "queue" or view is None]


OUTCOMES = ("COMPLETED", "RECEIVED_AND_DELETED", "DEAD_LETTERED", "EXPIRED", "PURGED", "CANCELLED")
KINDS = (
    f"A kind is the subject of a message, else its content type; kinds of fewer than {FEW_MESSAGES} messages come last."
)

CHARTS = (
    Chart(
        "throughput",
        "How much was done?",
        "Each bar is what was settled in one stretch of time, in a colour for each outcome; the first and the last may "
        "be cut short by the span of the report.",
        Mark.BARS,
        ["messages"],
        split="outcome",
    ),
    Chart(
        "backlog",
        "Did the receivers keep up?",
        "Messages that were there and not yet settled when each stretch of time ended: if they become more for long, "
        "more came than could be done.",
        Mark.BARS,
        ["backlog"],
        by_queue="backlog",
    ),
    Chart(
        "waiting_time",
        "How long did messages wait?",
        "From being enqueued to the first lock, by the time of settlement; p99 is what 99 of 100 messages did not "
        "exceed, and that of each queue is shown for all queues. The scale is logarithmic: one mark up is many times "
        "as long.",
        Mark.LINES,
        [*PERCENTILES, "max"],
        by_queue="p99",
    ),
    Chart(
        "processing_time",
        "How long did the work take?",
        "From the first lock to the settlement, with everything between the deliveries of a message that needed "
        "several; p99 of each queue for all queues. The scale is logarithmic.",
        Mark.LINES,
        [*PERCENTILES, "max"],
        by_queue="p99",
    ),
    Chart(
        "retry_cost",
        "What did retries cost?",
        "The share of all processing time that went into messages which needed more than one delivery.",
        Mark.BARS,
        ["retried_share"],
    ),
)

QUEUES = Table(
    "totals",
    "Which queues are there?",
    "The queues with the most settled messages, side by side.",
    (
        *("queue", "messages", "per_second", "dead_letter_share", "waiting_p50", "waiting_p99"),
        *("processing_p50", "processing_p99", "extra_deliveries"),
    ),
    "There is no queue.",
)

TABLES = (
    Table(
        "delivery_counts",
        "How often was a message delivered?",
        "One delivery is how it should be; each delivery beyond is work that was done again.",
        ["delivery_count", "messages", "share"],
        "No message was settled.",
        bar="share",
    ),
    Table(
        "dead_letters",
        "Why were messages given up?",
        "Dead-lettered messages by the reason that was given, the most frequent first.",
        ["reason", "messages", "share"],
        "Nothing was dead-lettered.",
        bar="share",
    ),
    Table(
        "slowest",
        "Which kinds of message are slow?",
        f"By the 99th percentile of processing time. {KINDS}",
        ["kind", "queue", "messages", "p50", "p99", "max"],
        "No processing time is known.",
    ),
    Table(
        "poisonous",
        "Which kinds of message are poisonous?",
        f"By the share of them that were dead-lettered. {KINDS}",
        ["kind", "queue", "messages", "deliveries", "dead_lettered", "dead_letter_share"],
        "Nothing was dead-lettered.",
        bar="dead_letter_share",
    ),
)


def _place(outcome: str) -> tuple[int, str]:
    return (OUTCOMES.index(outcome) if outcome in OUTCOMES else len(OUTCOMES), outcome)


def _color(outcome: str) -> str:
    return f"outcome-{outcome.lower().replace('_', '-')}" if outcome in OUTCOMES else "others"
