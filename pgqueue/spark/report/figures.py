"""The figures of a report, each a DataFrame that Spark computes from the history.

Percentiles are approximate, on purpose: `percentile_approx` with an accuracy of 10 000 keeps some thousand values for
each group, while the exact function keeps the values of all messages. The result is the time of a real message, and
its rank is off by at most one in ten thousand. In a group of a few thousand messages it is exact: the shortest time
that at least the given share of the messages did not exceed. Counts, sums and maxima are exact.

Times are in seconds; they are summed as whole microseconds, so that the order of the messages does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.report.columns import FIGURES, PERCENTILES
from pgqueue.spark.report.span import MICROSECOND, Span, micros

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NONE = "(none)"
ACCURACY = 10_000


def settled_messages(history: DataFrame) -> DataFrame:
    """The columns of each settled message that the figures need; rows without `settled_at` are left out.

    `enqueued` and `settled` are microseconds since 1970; `waited` and `processed` are microseconds, and null if the
    time of the first lock is unknown; `kind` is the subject, else the content type.
    """
    enqueued, locked, settled = (_micros_of(name) for name in ("enqueued_time", "first_locked_at", "settled_at"))
    return history.where(F.col("settled_at").isNotNull()).select(
        _named("queue"),
        _named("outcome"),
        _named("reason"),
        F.coalesce(_not_empty("subject"), _not_empty("content_type"), F.lit(NONE)).alias("kind"),
        F.coalesce("delivery_count", F.lit(0)).cast("int").alias("delivery_count"),
        enqueued.alias("enqueued"),
        settled.alias("settled"),
        (locked - enqueued).alias("waited"),
        (settled - locked).alias("processed"),
    )


def waiting_messages(waiting: DataFrame) -> DataFrame:
    """The columns of each message that still waits, for the backlog."""
    return waiting.select(_named("queue"), _micros_of("enqueued_time").alias("enqueued"))


def figures(settled: DataFrame, later: DataFrame, span: Span) -> dict[str, DataFrame]:
    """All figures by name, with the columns that `pgqueue.spark.report.columns` describes.

    Args:
        settled: messages settled in the span, as `settled_messages` returns them.
        later: `queue` and `enqueued` of messages that were not settled when the span ended.
        span: the time span of the report.
    """
    messages = settled.withColumn("bucket", _bucket(F.col("settled"), span))
    count = F.count("*").alias("messages")
    totals = messages.rollup("queue").agg(  # the row of all queues together has no queue
        count,
        (F.count("*") / F.lit(max((span.until - span.since).total_seconds(), 1.0))).alias("per_second"),
        F.count_if(F.col("outcome") == "COMPLETED").alias("completed"),
        *_dead_letter_share(),
        *_percentiles("waited", "waiting_"),
        *_percentiles("processed", "processing_"),
        *_retry_cost(),
    )
    throughput = messages.groupBy("queue", "bucket", "outcome").agg(count)
    dead = messages.where(F.col("outcome") == "DEAD_LETTERED")
    found = {
        "totals": totals,
        "throughput": throughput.withColumn("per_second", F.col("messages") / F.lit(span.bucket.total_seconds())),
        "waiting_time": percentiles_over_time(messages, "waited"),
        "processing_time": percentiles_over_time(messages, "processed"),
        "backlog": backlog(settled, later, span),
        "delivery_counts": messages.groupBy("queue", "bucket", "delivery_count").agg(count),
        "retry_cost": messages.groupBy("queue", "bucket").agg(*_retry_cost()),
        "dead_letters": dead.groupBy("queue", "bucket", "reason").agg(count),
        "kinds": messages.groupBy("queue", "kind").agg(
            count, *_dead_letter_share(), F.sum("delivery_count").alias("deliveries"), *_percentiles("processed")
        ),
    }
    return {name: _described(frame, name) for name, frame in found.items()}


def percentiles_over_time(messages: DataFrame, time: str) -> DataFrame:
    """Percentiles and maximum of a time in each bucket, over the messages for which it is known."""
    known = messages.where(F.col(time).isNotNull())
    return known.groupBy("queue", "bucket").agg(F.count("*").alias("messages"), *_percentiles(time))


def backlog(settled: DataFrame, later: DataFrame, span: Span) -> DataFrame:
    """The number of messages enqueued and settled in each bucket, and the backlog when it ended.

    Every queue has every bucket. A message that was settled before its scheduled time was never part of a backlog.
    """
    waited_for = settled.where(F.col("settled") >= F.col("enqueued"))
    events = (
        waited_for.select("queue", F.col("enqueued").alias("at"), F.lit(1).alias("came"), F.lit(0).alias("went"))
        .unionAll(waited_for.select("queue", F.col("settled"), F.lit(0), F.lit(1)))
        .unionAll(later.select("queue", F.col("enqueued"), F.lit(1), F.lit(0)))
        .where(F.col("at") < micros(span.until))
    )
    before = F.lit(-1)
    index = F.greatest(before, F.floor((F.col("at") - micros(span.start)) / _length(span)))
    changes = events.groupBy("queue", index.alias("index")).agg(
        F.sum("came").alias("came"), F.sum("went").alias("went")
    )
    every = settled.sparkSession.range(-1, span.buckets).withColumnRenamed("id", "index")
    grid = changes.select("queue").distinct().crossJoin(F.broadcast(every))
    so_far = Window.partitionBy("queue").orderBy("index")
    return (
        grid.join(changes, ["queue", "index"], "left")
        .na.fill(0, ["came", "went"])
        .withColumn("backlog", F.sum(F.col("came") - F.col("went")).over(so_far))
        .where(F.col("index") >= 0)
        .select("queue", _moment(F.col("index"), span).alias("bucket"), "came", "went", "backlog")
    )


def _described(frame: DataFrame, figure: str) -> DataFrame:
    columns = FIGURES[figure].columns
    return frame.select(
        *(F.col(c.name).cast(c.type).alias(c.name, metadata={"comment": f"{c.unit}: {c.meaning}"}) for c in columns)
    )


def _named(column: str) -> Column:
    return F.coalesce(_not_empty(column), F.lit(NONE)).alias(column)


def _not_empty(column: str) -> Column:
    return F.nullif(F.col(column), F.lit(""))


def _micros_of(column: str) -> Column:
    return F.unix_micros(F.col(column).cast("timestamp"))


def _length(span: Span) -> int:
    return span.bucket // MICROSECOND


def _bucket(moment: Column, span: Span) -> Column:
    return _moment(F.floor((moment - micros(span.start)) / _length(span)), span)


def _moment(index: Column, span: Span) -> Column:
    return F.timestamp_micros(F.lit(micros(span.start)) + index.cast("long") * _length(span))


def _percentiles(time: str, prefix: str = "") -> list[Column]:
    found = F.percentile_approx(time, list(PERCENTILES.values()), ACCURACY)
    return [
        *(_seconds(found.getItem(index)).alias(prefix + name) for index, name in enumerate(PERCENTILES)),
        _seconds(F.max(time)).alias(prefix + "max"),
    ]


def _seconds(microseconds: Column) -> Column:
    return microseconds / F.lit(1e6)


def _dead_letter_share() -> list[Column]:
    dead = F.count_if(F.col("outcome") == "DEAD_LETTERED")
    return [dead.alias("dead_lettered"), (dead / F.count("*")).alias("dead_letter_share")]


def _retry_cost() -> list[Column]:
    extra = F.greatest(F.col("delivery_count") - 1, F.lit(0))
    retried = F.col("delivery_count") > 1
    spent, again = (F.coalesce(F.sum(time), F.lit(0)) for time in ("processed", F.when(retried, F.col("processed"))))
    return [
        F.sum("delivery_count").alias("deliveries"),
        F.sum(extra).alias("extra_deliveries"),
        F.count_if(retried).alias("retried_messages"),
        _seconds(spent).alias("processing_seconds"),
        _seconds(again).alias("retried_seconds"),
        F.try_divide(again, spent).alias("retried_share"),
    ]
