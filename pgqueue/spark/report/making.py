"""Makes the report from a history: Parquet for each figure, and one page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.paths import check_output, url_of
from pgqueue.spark.report.columns import FIGURES
from pgqueue.spark.report.digest import digest_of
from pgqueue.spark.report.figures import figures, settled_messages, waiting_messages
from pgqueue.spark.report.page import page
from pgqueue.spark.report.requirements import HISTORY, WAITING, NotReportable, check
from pgqueue.spark.report.span import check_span, micros, moment_of, span_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGE = "report.html"
TITLE = "Outcomes of the messages"


@dataclass(frozen=True)
class Report:
    """A report that was written."""

    page: Path
    """The HTML page."""
    figures: Mapping[str, Path]
    """The directory of each figure's Parquet files, by the figure's name."""
    messages: int
    """The number of settled messages in the report."""
    since: datetime | None
    """The beginning: the given time, or the first settlement; None if there was none."""
    until: datetime | None
    """The end, exclusive: the given time, or just after the last settlement; None if there was none."""
    bucket: timedelta
    """The length of time that one row over time stands for."""


def report(
    history: DataFrame,
    output: str | Path,
    *,
    waiting: DataFrame | None = None,
    title: str = TITLE,
    since: datetime | None = None,
    until: datetime | None = None,
    bucket: timedelta | None = None,
    top: int = 10,
) -> Report:
    """Write the report on a history: Parquet under `<output>/<figure>/`, and the page `<output>/report.html`.

    The history is read once, and kept by Spark while the figures are computed. The driver gets buckets and queues,
    never messages. Percentiles are approximate: their rank is off by one in ten thousand at most
    (`pgqueue.spark.report.figures`). An earlier report is replaced, figure by figure, and the page last.

    Args:
        history: settled messages with the columns of the view `pgqueue.history`; others are ignored.
        output: a directory, created if it does not exist. On a cluster: one that driver and executors share.
        waiting: `queue` and `enqueued_time` of messages that still wait; without them the backlog is that of settled
            messages.
        title: the heading of the page.
        since: report only on what was settled at this time or later; with a time zone.
        until: report only on what was settled before this time; with a time zone. Messages settled later count as
            waiting, so do not leave them out of the history yourself.
        bucket: the length of time that one row over time stands for, in whole seconds; by default a round one, by
            the span.
        top: how many reasons and kinds the page lists; the Parquet files have them all.

    Raises:
        NotReportable: a column is missing or of another type, or an argument makes no sense. Nothing was written.
    """
    check(history, "history", HISTORY, "select it from the view pgqueue.history, or add it as null")
    if waiting is not None:
        remedy = "add it, or leave `waiting` out: the backlog then has settled messages only"
        check(waiting, "waiting", WAITING, remedy)
    check_span(since, until, bucket)
    if top < 1:
        raise NotReportable(f"top must be 1 or more, not {top}")
    directory = Path(output).absolute()
    check_output(str(directory), NotReportable)
    messages = settled_messages(history)
    with _kept(messages if since is None else messages.where(F.col("settled") >= micros(since))) as kept:
        settled, later = _parted(kept, until)
        first, last = _first_and_last(settled)
        span = span_of(since or first, until or (last and last + timedelta(microseconds=1)), bucket)
        if waiting is not None:
            later = later.unionByName(waiting_messages(waiting))
        written = _written(figures(settled, later, span), directory)
        digest = digest_of(written, span, top, has_waiting=waiting is not None)
    _replace(directory / PAGE, page(title, digest, span.bucket))
    known = span.buckets > 0
    return Report(
        page=directory / PAGE,
        figures={name: directory / name for name in written},
        messages=digest.messages,
        since=span.since if known else None,
        until=span.until if known else None,
        bucket=span.bucket,
    )


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache a DataFrame, so that it is read only once: several reads of a live history would differ."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


def _parted(kept: DataFrame, until: datetime | None) -> tuple[DataFrame, DataFrame]:
    """The messages settled before ``until``, and those that still waited then."""
    is_later = F.lit(False) if until is None else F.col("settled") >= micros(until)
    return kept.where(~is_later), kept.where(is_later).select("queue", "enqueued")


def _first_and_last(settled: DataFrame) -> tuple[datetime | None, datetime | None]:
    row = settled.agg(F.min("settled"), F.max("settled")).first()
    first, last = row or (None, None)
    return (None, None) if first is None or last is None else (moment_of(first), moment_of(last))


def _written(frames: Mapping[str, DataFrame], directory: Path) -> dict[str, DataFrame]:
    """Write the figures, and read them back: nothing is computed twice, and the page agrees with the files."""
    written = {}
    for name, frame in frames.items():
        where = url_of(directory / name)
        frame.coalesce(1).sortWithinPartitions(*FIGURES[name].keys).write.mode("overwrite").parquet(where)
        written[name] = frame.sparkSession.read.schema(frame.schema).parquet(where)
    return written


def _replace(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader never sees a part of it."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False) as fresh:
        fresh.write(text)
    Path(fresh.name).chmod(0o644)
    os.replace(fresh.name, path)  # noqa: PTH105
