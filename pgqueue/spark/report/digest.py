"""The data of the page, taken from the figures: few queues, reasons and kinds, and no messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.report.span import Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The number of queues with a colour and a view of their own; the files contain all queues.
MOST_QUEUES = 8
#: From this number of deliveries on, messages share a bar.
MANY_DELIVERIES = 10
#: Kinds with fewer messages come last: their 99th percentile is the maximum.
FEW_MESSAGES = 100

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Digest:
    """Rows of the figures; their `view` is the queue that they are shown for, or None for all queues together."""

    span: Span
    queues: Sequence[str]
    """The queues with the most messages, the busiest first."""
    more_queues: int
    """The number of other queues."""
    has_waiting: bool
    """Whether the backlog includes the messages that still wait."""
    rows: Mapping[str, Sequence[Row]]

    @property
    def messages(self) -> int:
        """How many messages were settled."""
        return sum(int(row["messages"]) for row in self.of("totals", None))

    @property
    def views(self) -> list[str | None]:
        """The view of all queues together, and one of each queue; if there is only one queue, only its view."""
        return list(self.queues) if len(self.queues) == 1 and not self.has_more else [None, *self.queues]

    @property
    def has_more(self) -> bool:
        """Whether there are other queues: less busy ones, or queues in which messages only wait."""
        seen = sum(self._ever_there(queue) for queue in self.queues)
        return self.more_queues > 0 or self._ever_there(None) > seen

    def of(self, figure: str, view: str | None) -> list[Row]:
        """The rows of a figure that are shown in a view."""
        return [row for row in self.rows.get(figure, ()) if row["view"] == view]

    def _ever_there(self, view: str | None) -> int:
        return sum(int(row["came"]) + int(row["backlog"]) for row in self.of("backlog", view))


def digest_of(figures: Mapping[str, DataFrame], span: Span, top: int, *, has_waiting: bool) -> Digest:
    """Collect the data of the page from the written figures: of reasons and kinds, the first `top`."""
    queues = figures["totals"].where(F.col("queue").isNotNull())
    busiest = [row.queue for row in queues.orderBy(F.desc("messages"), "queue").select("queue").collect()]
    shown = busiest[:MOST_QUEUES]
    if not shown:
        return Digest(span, [], 0, has_waiting, {})
    selected = {**_over_time(figures, shown), **_ranked(figures, shown, top)}
    rows = {name: _collected(frame) for name, frame in selected.items()}
    return Digest(span, shown, len(busiest) - len(shown), has_waiting, rows)


def _over_time(figures: Mapping[str, DataFrame], shown: list[str]) -> dict[str, DataFrame]:
    totals, counts = figures["totals"], figures["delivery_counts"]
    capped = counts.withColumn("delivery_count", F.least("delivery_count", F.lit(MANY_DELIVERIES)))
    work = ["processing_seconds", "retried_seconds"]
    return {
        "totals": totals.where(F.col("queue").isNull() | F.col("queue").isin(shown)).withColumn("view", F.col("queue")),
        "throughput": _sums(_views(figures["throughput"], shown), ["bucket", "outcome"], ["messages"]),
        "waiting_time": _of_queues(figures["waiting_time"], shown),
        "processing_time": _of_queues(figures["processing_time"], shown),
        "backlog": _sums(_views(figures["backlog"], shown), ["bucket"], ["came", "went", "backlog"]),
        "delivery_counts": _sums(_views(capped, shown), ["delivery_count"], ["messages"]),
        "retry_cost": _sums(_views(figures["retry_cost"], shown), ["bucket"], work),
    }


def _ranked(figures: Mapping[str, DataFrame], shown: list[str], top: int) -> dict[str, DataFrame]:
    reasons = _sums(_views(figures["dead_letters"], shown), ["reason"], ["messages"])
    kinds = _views(figures["kinds"], shown)
    few = F.col("messages") < FEW_MESSAGES
    names = [F.col("queue"), F.col("kind")]
    slow = kinds.where(F.col("p99").isNotNull())
    poisonous = kinds.where(F.col("dead_lettered") > 0)
    return {
        "dead_letters": _first(reasons, top, [F.desc("messages"), F.col("reason")]),
        "slowest": _first(slow, top, [few, F.desc("p99"), *names]),
        "poisonous": _first(poisonous, top, [few, F.desc("dead_letter_share"), F.desc("dead_lettered"), *names]),
    }


def _views(frame: DataFrame, shown: list[str]) -> DataFrame:
    """Every row for the view of all queues, and the rows of shown queues again for their own views."""
    of_all = frame.withColumn("view", F.lit(None).cast("string"))
    return of_all.unionAll(_of_queues(frame, shown))


def _of_queues(frame: DataFrame, shown: list[str]) -> DataFrame:
    return frame.where(F.col("queue").isin(shown)).withColumn("view", F.col("queue"))


def _sums(frame: DataFrame, by: list[str], summed: list[str]) -> DataFrame:
    return frame.groupBy("view", *by).agg(*(F.sum(name).alias(name) for name in summed))


def _first(frame: DataFrame, top: int, order: list[Column]) -> DataFrame:
    ranked = frame.withColumn("rank", F.row_number().over(Window.partitionBy("view").orderBy(*order)))
    return ranked.where(F.col("rank") <= top)


def _collected(frame: DataFrame) -> list[Row]:
    """The rows as dictionaries; buckets are microseconds since 1970, which do not depend on a time zone."""
    if "bucket" in frame.columns:
        frame = frame.withColumn("bucket", F.unix_micros("bucket"))
    order = [name for name in ("rank", "bucket", "delivery_count") if name in frame.columns]
    rows: list[Row] = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: [row[name] for name in order])
