"""Reports on the history of queues: figures and a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import pgqueue.spark
from pgqueue.spark import report as reports
from pgqueue.spark.connections import Instance
from pgqueue.spark.pipelines.ingesting import check_queue
from pgqueue.spark.pipelines.sending import sample
from pgqueue.spark.report.making import TITLE
from pgqueue.spark.report.requirements import HISTORY, WAITING
from pgqueue.spark.snapshot import snapshot


@dataclass(frozen=True)
class Reported:
    """The result of a report; in a dry run, what would be reported."""

    output: str
    queue: str | None
    """The queue; None for all."""
    messages: int
    """The number of settled messages in the report."""
    page: str | None
    """The page; None in a dry run."""
    dry_run: bool
    sample: tuple[dict[str, Any], ...] = ()
    """In a dry run: a few settled messages."""


def report(
    output: str | Path,
    *,
    dsn: str,
    schema: str = "pgqueue",
    queue: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    bucket: timedelta | None = None,
    top: int = 10,
    title: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
) -> Reported:
    """Report on the history that queues retain, and on what waits in them now, both as they are at one moment.

    Writes Parquet for each figure below ``output``, and the page ``report.html``; see
    :func:`pgqueue.spark.report.report`. An earlier report is replaced.

    Args:
        output: a directory on this machine.
        dsn: the database.
        schema: the schema of pgqueue there.
        queue: report on this queue only.
        since: report only on what was settled at this time or later; with a time zone.
        until: report only on what was settled before this time; with a time zone.
        bucket: the length of time that one row over time stands for; by default a round one.
        top: how many reasons and kinds the page lists.
        title: the heading of the page.
        dry_run: count and show, write nothing.
        spark: the session to use; by default :func:`pgqueue.spark.session`.

    Raises:
        pgqueue.errors.QueueNotFoundError: no queue has that name.
        pgqueue.spark.report.NotReportable: a time, the bucket or the output makes no sense.
    """
    instance = Instance(dsn, schema)
    if queue is not None:
        check_queue(instance, queue)
    session = spark or pgqueue.spark.session()
    with snapshot(dsn, schema=schema) as held:
        read = session.read.format("pgqueue").options(**asdict(instance), queue=queue or "", snapshot=held)
        history = read.options(table="history", columns=",".join(HISTORY)).load()
        if since is not None:
            history = history.where(F.col("settled_at") >= F.lit(since))
        if dry_run:
            settled = history if until is None else history.where(F.col("settled_at") < until)
            return Reported(str(output), queue, settled.count(), None, dry_run=True, sample=sample(settled))
        made = reports.report(
            history,
            output,
            waiting=read.options(table="messages", columns=",".join(WAITING)).load(),
            title=title or (f"{TITLE} of {queue}" if queue else TITLE),
            since=since,
            until=until,
            bucket=bucket,
            top=top,
        )
    return Reported(str(output), queue, made.messages, str(made.page), dry_run=False)
