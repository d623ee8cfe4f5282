"""The sections of the page, each with a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgqueue.spark.report import charts
from pgqueue.spark.report.charts import Chart
from pgqueue.spark.report.digest import Digest


@dataclass(frozen=True)
class Question:
    """A section of the page: the question, how to read the chart, and the chart."""

    name: str
    title: str
    reading: str
    chart: Callable[[Digest, str | None], Chart | None]


QUESTIONS = (
    Question(
        "throughput",
        "How much was done?",
        "Each bar is what was settled in one stretch of time, in a colour for each outcome; the first and the last may "
        "be cut short by the span of the report.",
        charts.throughput,
    ),
    Question(
        "backlog",
        "Did the receivers keep up?",
        "Messages that were there and not yet settled: a curve that climbs for long means that more came than could be "
        "done.",
        charts.backlog,
    ),
    Question(
        "waiting_time",
        "How long did messages wait?",
        "From being enqueued to the first lock, by the time of settlement; p99 is what 99 of 100 messages did not "
        "exceed. The scale is logarithmic: one mark up is many times as long.",
        charts.waiting_time,
    ),
    Question(
        "processing_time",
        "How long did the work take?",
        "From the first lock to the settlement, with everything between the deliveries of a message that needed "
        "several. The scale is logarithmic.",
        charts.processing_time,
    ),
    Question(
        "delivery_counts",
        "How often was a message delivered?",
        "One delivery is how it should be; each bar beyond is work that was done again.",
        charts.delivery_counts,
    ),
    Question(
        "retry_cost",
        "What did retries cost?",
        "The share of all processing time that went into messages which needed more than one delivery.",
        charts.retry_cost,
    ),
    Question(
        "dead_letters",
        "Why were messages given up?",
        "Dead-lettered messages by the reason that was given, the most frequent first.",
        charts.dead_letters,
    ),
)
