"""The data of the page, from the written figures: few queues, reasons and kinds, and no messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.report.columns import PERCENTILES
from pgqueue.spark.report.span import EPOCH, ROUND_BUCKETS, Span, micros

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The number of queues with a view of their own; the files contain all queues.
MOST_QUEUES = 8
#: The view of all other queues together; no queue has this name.
OTHERS = ""
OUTCOMES = ("COMPLETED", "RECEIVED_AND_DELETED", "DEAD_LETTERED", "EXPIRED", "PURGED", "DELETED", "CANCELLED", "MOVED")
#: Points of time on the page, those of each view counted: with all tables about a kilobyte each.
MOST_POINTS = 1100
LENGTHS = sorted((*ROUND_BUCKETS, timedelta(days=2), timedelta(days=4)))
#: From this number of deliveries on, messages share a row.
MANY_DELIVERIES = 10
#: Kinds with fewer messages come last: their 99th percentile is the maximum.
FEW_MESSAGES = 100

OVER_TIME = ("throughput", "backlog", "waiting_time", "processing_time", "retry_cost")

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
        others = self.more_queues or any(row["came"] or row["backlog"] for row in self.of("backlog", OTHERS))
        return list(self.queues) if len(self.queues) == 1 and not others else [None, *self.queues]

    def place(self, name: str) -> tuple[int, str]:
        """Where the column of an outcome or a queue is among the others."""
        known = [*OUTCOMES, *self.queues]
        return (known.index(name) if name in known else len(known), name)

    def waiting_at_the_end(self, view: str | None) -> int:
        """The last backlog."""
        rows = self.of("backlog", view)
        return sum(row["backlog"] for row in rows if row["bucket"] == rows[-1]["bucket"])

    def of(self, figure: str, view: str | None) -> list[Row]:
        """The rows of a figure that are shown in a view."""
        return [row for row in self.rows.get(figure, ()) if row["view"] == view]


def digest_of(figures: Mapping[str, DataFrame], span: Span, top: int, *, has_waiting: bool) -> Digest:
    """Collect the data of the page from the written figures: of reasons and kinds, the first `top`."""
    queues = figures["totals"].where(F.col("queue").isNotNull())
    busiest = [row.queue for row in queues.orderBy(F.desc("messages"), "queue").select("queue").collect()]
    shown = busiest[:MOST_QUEUES]
    if not shown:
        return Digest(span, [], 0, has_waiting, {})
    span = page_span(span, 1 + len(shown))
    selected = {**_over_time(figures, shown, span), **_ranked(figures, shown, top)}
    rows = {name: _collected(frame) for name, frame in selected.items()}
    return Digest(span, shown, len(busiest) - len(shown), has_waiting, rows)


def page_span(span: Span, views: int) -> Span:
    """The same time in the shortest round buckets, or else the shortest, that are few enough for the page."""
    most = MOST_POINTS // views
    if span.buckets <= most:
        return span
    needed = -(-span.buckets // most) * span.bucket
    fitting = (each for each in LENGTHS if each >= needed and not each % span.bucket)
    return replace(span, bucket=next(fitting, needed))


def _over_time(figures: Mapping[str, DataFrame], shown: list[str], span: Span) -> dict[str, DataFrame]:
    """Figures by bucket of the page: counts are added, of percentiles the highest is kept, and the last backlog."""
    totals = figures["totals"]
    start, length = micros(span.start), micros(EPOCH + span.bucket)
    bucket = F.lit(start) + F.floor((F.unix_micros("bucket") - start) / length).cast("long") * length
    views = {name: _views(figures[name], shown) for name in OVER_TIME}
    views = {name: frame.withColumns({"bucket": bucket, "at": F.col("bucket")}) for name, frame in views.items()}
    retries = _sums(views["retry_cost"], ["bucket"], ["processing_seconds", "retried_seconds"])
    backlogs = views["backlog"].groupBy("view", "bucket", "own", "queue")
    last = backlogs.agg(F.sum("came").alias("came"), F.max_by("backlog", "at").alias("backlog"))
    return {
        "totals": totals.where(F.col("queue").isNull() | F.col("queue").isin(shown)).withColumn("view", F.col("queue")),
        "throughput": _sums(views["throughput"], ["bucket", "outcome"], ["messages"]),
        "waiting_time": _highest(views["waiting_time"]),
        "processing_time": _highest(views["processing_time"]),
        "backlog": _sums(last.withColumn("queue", F.col("own")), ["bucket", "queue"], ["came", "backlog"]),
        "retry_cost": retries.withColumn("retried_share", F.try_divide("retried_seconds", "processing_seconds")),
    }


def _ranked(figures: Mapping[str, DataFrame], shown: list[str], top: int) -> dict[str, DataFrame]:
    kinds = _views(figures["kinds"], shown)
    few = F.col("messages") < FEW_MESSAGES
    names = [F.col("queue"), F.col("kind")]
    slow = kinds.where(F.col("p99").isNotNull())
    poisonous = kinds.where(F.col("dead_lettered") > 0)
    return {
        "delivery_counts": _delivery_counts(_views(figures["delivery_counts"], shown)),
        "dead_letters": _reasons(_views(figures["dead_letters"], shown), top),
        "slowest": _rank(slow, [few, F.desc("p99"), *names]).where(F.col("rank") <= top),
        "poisonous": _rank(poisonous, [few, F.desc("dead_letter_share"), F.desc("dead_lettered"), *names]).where(
            F.col("rank") <= top
        ),
    }


def _delivery_counts(counts: DataFrame) -> DataFrame:
    rank = F.least("delivery_count", F.lit(MANY_DELIVERIES))
    name = F.when(rank == MANY_DELIVERIES, f"{MANY_DELIVERIES} or more").otherwise(rank.cast("string"))
    return _shares(counts.withColumns({"rank": rank, "delivery_count": name}), "delivery_count")


def _reasons(dead: DataFrame, top: int) -> DataFrame:
    """The most frequent reasons, in order, and all others together."""
    ranked = _rank(_sums(dead, ["reason"], ["messages"]), [F.desc("messages"), F.col("reason")])
    name = F.when(F.col("rank") <= top, F.col("reason")).otherwise("(other reasons)")
    return _shares(ranked.withColumns({"rank": F.least("rank", F.lit(top + 1)), "reason": name}), "reason")


def _shares(frame: DataFrame, name: str) -> DataFrame:
    """The messages of each rank, and their share of those of the view."""
    found = _sums(frame, ["rank", name], ["messages"])
    return found.withColumn("share", F.col("messages") / F.sum("messages").over(Window.partitionBy("view")))


def _views(frame: DataFrame, shown: list[str]) -> DataFrame:
    """Every row for the view of all queues, and again for that of its queue or of the others."""
    own = F.when(F.col("queue").isin(shown), F.col("queue")).otherwise(OTHERS)
    return frame.withColumn("own", own).withColumn("view", F.explode(F.array(F.lit(None).cast("string"), "own")))


def _highest(times: DataFrame) -> DataFrame:
    known = times.where(F.col("own") != OTHERS).groupBy("view", "bucket", "queue")
    return known.agg(*(F.max(name).alias(name) for name in (*PERCENTILES, "max")))


def _sums(frame: DataFrame, by: list[str], summed: list[str]) -> DataFrame:
    return frame.groupBy("view", *by).agg(*(F.sum(name).alias(name) for name in summed))


def _rank(frame: DataFrame, order: list[Column]) -> DataFrame:
    return frame.withColumn("rank", F.row_number().over(Window.partitionBy("view").orderBy(*order)))


def _collected(frame: DataFrame) -> list[Row]:
    """The rows as dictionaries; buckets are microseconds since 1970, which do not depend on a time zone."""
    rows: list[Row] = [row.asDict() for row in frame.collect()]
    order = [name for name in ("rank", "bucket") if name in frame.columns]
    return sorted(rows, key=lambda row: [row[name] for name in order])
