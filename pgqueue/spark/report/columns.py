"""The figures of a report and their columns, described once: for the Parquet files, the page and the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """The unit of the values of a column."""

    TEXT = "text"
    TIME = "time, UTC"
    COUNT = "count"
    RATE = "per second"
    SECONDS = "seconds"
    SHARE = "share of 1"


#: Spark's types; all other units are doubles.
TYPES = {Unit.TEXT: "string", Unit.TIME: "timestamp", Unit.COUNT: "bigint"}


@dataclass(frozen=True)
class Column:
    """A column: it has the same meaning in every figure."""

    name: str
    unit: Unit
    meaning: str

    @property
    def type(self) -> str:
        """Spark's type."""
        return TYPES.get(self.unit, "double")

    @property
    def label(self) -> str:
        """The heading of the column in a table of the page."""
        return self.name.replace("_", " ")


class Figure:
    """A directory of Parquet files: a row for each value of `keys`, and how to read the other columns, `measures`."""

    def __init__(self, keys: str, measures: str, reading: str) -> None:
        self.keys = keys.split()
        self.measures = measures.split()
        self.reading = reading

    @property
    def columns(self) -> list[Column]:
        """All columns, in the order of the files."""
        return [COLUMNS[name] for name in self.keys + self.measures]


PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def _times(prefix: str, time: str) -> list[Column]:
    percentiles = [
        Column(prefix + name, Unit.SECONDS, f"the {time} that {share:.0%} of the messages did not exceed")
        for name, share in PERCENTILES.items()
    ]
    return [*percentiles, Column(f"{prefix}max", Unit.SECONDS, f"the longest {time}")]


_EACH = [
    Column("queue", Unit.TEXT, "the queue"),
    Column("bucket", Unit.TIME, "when the bucket begins; a message is in the bucket in which it was settled"),
    Column("outcome", Unit.TEXT, "the outcome of the messages"),
    Column("reason", Unit.TEXT, "why they were dead-lettered"),
    Column("kind", Unit.TEXT, "the subject, else the content type"),
    Column("delivery_count", Unit.COUNT, "how often they were delivered"),
    Column("messages", Unit.COUNT, "settled messages; beside percentiles over time, those whose time is known"),
    Column("per_second", Unit.RATE, "settled messages per second"),
    Column("came", Unit.COUNT, "messages enqueued in the bucket"),
    Column("went", Unit.COUNT, "messages settled in the bucket"),
    Column("backlog", Unit.COUNT, "messages not yet settled when the bucket ended"),
    Column("completed", Unit.COUNT, "completed messages"),
    Column("dead_lettered", Unit.COUNT, "dead-lettered messages"),
    Column("dead_letter_share", Unit.SHARE, "the share of messages that were dead-lettered"),
    Column("deliveries", Unit.COUNT, "all deliveries"),
    Column("extra_deliveries", Unit.COUNT, "deliveries beyond the first"),
    Column("retried_messages", Unit.COUNT, "messages delivered more than once"),
    Column("processing_seconds", Unit.SECONDS, "the sum of all processing times"),
    Column("retried_seconds", Unit.SECONDS, "the same of messages delivered more than once"),
    Column("retried_share", Unit.SHARE, "the share of processing time in messages delivered more than once"),
    *_times("", "time"),
    *_times("waiting_", "waiting time"),
    *_times("processing_", "processing time"),
    Column("share", Unit.SHARE, "on the page only: the share of the messages that the table counts"),
]
COLUMNS = {column.name: column for column in _EACH}

_TIMES = "p50 p90 p99 max"
_RETRIES = "deliveries extra_deliveries retried_messages processing_seconds retried_seconds retried_share"

FIGURES = {
    "throughput": Figure(
        "queue bucket outcome",
        "messages per_second",
        "settled messages. The first and the last bucket may be cut short",
    ),
    "backlog": Figure(
        "queue bucket",
        "came went backlog",
        "how many messages waited when the bucket ended. If it climbs for long, your receivers cannot keep up",
    ),
    "waiting_time": Figure(
        "queue bucket",
        f"messages {_TIMES}",
        "from `enqueued_time` to `first_locked_at`. Long waiting and short processing: more receivers help",
    ),
    "processing_time": Figure(
        "queue bucket",
        f"messages {_TIMES}",
        "from `first_locked_at` to `settled_at`, with the pauses between deliveries. p50 flat and p99 high: look at "
        "the retries",
    ),
    "delivery_counts": Figure("queue bucket delivery_count", "messages", "1 is normal; 0 was never delivered"),
    "retry_cost": Figure(
        "queue bucket",
        _RETRIES,
        "deliveries beyond the first, and the share of processing time spent in messages that needed more than one",
    ),
    "dead_letters": Figure("queue bucket reason", "messages", "why messages were dead-lettered"),
    "kinds": Figure(
        "queue kind",
        f"messages dead_lettered dead_letter_share deliveries {_TIMES}",
        "the times are processing times",
    ),
    "totals": Figure(
        "queue",
        "messages per_second completed dead_lettered dead_letter_share waiting_p50 waiting_p90 waiting_p99 waiting_max "
        f"processing_p50 processing_p90 processing_p99 processing_max {_RETRIES}",
        "the row whose queue is null is that of all queues together: leave it out when you add up",
    ),
}
