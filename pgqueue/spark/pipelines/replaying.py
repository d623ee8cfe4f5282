"""Replays dead letters, or the messages in a lake, to a queue."""

from __future__ import annotations

import uuid
from array import array
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pgqueue.spark
from pgqueue.model.columns import STAGED
from pgqueue.spark import staging
from pgqueue.spark.connections import Instance
from pgqueue.spark.pipelines import files
from pgqueue.spark.pipelines.files import InputError
from pgqueue.spark.pipelines.ingesting import check_queue
from pgqueue.spark.pipelines.progress import Progress, Tell
from pgqueue.spark.pipelines.sending import published, sample, send_once

AT_ONCE = 1_000

#: The fields that a message keeps when it is sent again; its times and its number are new.
KEPT = tuple(column.name for column in STAGED if column.name not in ("time_to_live", "scheduled_enqueue_time"))


@dataclass(frozen=True)
class Replayed:
    """The result of a replay; in a dry run, what would be replayed."""

    queue: str
    source: str | None
    """The directory; None for the dead letters of the queue."""
    found: int
    """How many rows matched."""
    sent: int
    """How many messages went to the queue."""
    duplicates: int
    """How many were duplicates of earlier messages, in a queue that detects them."""
    job: str | None
    """The name under which the job is remembered, for 30 days; None for dead letters, which are moved."""
    done_before: bool
    """Whether everything had been sent earlier; the counts are then those of the earlier run."""
    dry_run: bool
    sample: tuple[dict[str, Any], ...] = ()
    """In a dry run: a few rows."""


def replay(
    queue: str,
    *,
    dsn: str,
    schema: str = "pgqueue",
    source: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    again: bool = False,
    dry_run: bool = False,
    progress: Tell | None = None,
    spark: SparkSession | None = None,
) -> Replayed:
    """Send dead letters of a queue back to it, or messages that a lake holds to a queue as new ones.

    Dead letters are moved a thousand at a time; locked ones stay. Rows of a lake are sent in one transaction, and the
    same rows of the same files only once within 30 days.

    Args:
        queue: the queue to send to.
        dsn: the database.
        schema: the schema of pgqueue there.
        source: a directory that `drain` wrote, or the dead letters of an `export`; None for the queue's own dead
            letters.
        where: send only rows for which this expression of Spark SQL is true. Bodies are text that holds JSON:
            ``get_json_object(body, '$.shop') = 'berlin'``.
        limit: send this many at most, the oldest.
        again: send what a lake holds although it was sent before.
        dry_run: count and show, send nothing.
        progress: called with the number of rows that were sent.
        spark: the session to use; by default :func:`pgqueue.spark.session`.

    Raises:
        pgqueue.errors.QueueNotFoundError: no queue has that name.
        pgqueue.spark.pipelines.InputError: the directory holds no messages.
    """
    instance = Instance(dsn, schema)
    check_queue(instance, queue)
    session = spark or pgqueue.spark.session()
    if source is None:
        return _resubmit(session, queue, instance, where, limit, dry_run, progress)
    name = files.digest(files.find(session, [source]), "replay", queue, where, limit)
    if again:
        name = f"{name}-{uuid.uuid4().hex[:8]}"
    sent = published(instance, queue, name)
    done_before = sent.parts > 0
    if not done_before:
        rows = _chosen(_messages(session, source), where, limit, "enqueued_time")
        if dry_run:
            found = rows.count()
            return Replayed(queue, source, found, 0, 0, name, done_before, dry_run, sample=sample(rows))
        messages = rows.select(*(name for name in KEPT if name in rows.columns))
        staging.message_columns(messages.schema)
        sent = send_once(messages, queue, instance=instance, job=name, progress=progress)
    both = sent.sent + sent.duplicates
    return Replayed(queue, source, both, sent.sent, sent.duplicates, name, done_before, dry_run)


def _messages(session: SparkSession, source: str) -> DataFrame:
    rows = files.parquet(session, [source])
    if not {"body", "binary_body"} & set(rows.columns):
        raise InputError(f"{source} has no messages: there is no column body")
    return rows


def _chosen(rows: DataFrame, where: str | None, limit: int | None, order: str) -> DataFrame:
    chosen = rows if where is None else rows.where(where)
    if limit is None:
        return chosen
    ordered = [column for column in (order, "queue", "sequence_number") if column in rows.columns]
    return chosen.orderBy(*ordered).limit(limit)


def _resubmit(
    session: SparkSession,
    queue: str,
    instance: Instance,
    where: str | None,
    limit: int | None,
    dry_run: bool,
    progress: Tell | None,
) -> Replayed:
    options = {**asdict(instance), "queue": queue, "table": "dead_letters", "columns": "*"}
    dead = session.read.format("pgqueue").options(**options).load()
    rows = _chosen(dead, where, limit, "sequence_number")
    if dry_run:
        return Replayed(queue, None, rows.count(), 0, 0, None, done_before=False, dry_run=True, sample=sample(rows))
    numbers = array("q", (row[0] for row in rows.select("sequence_number").toLocalIterator(prefetchPartitions=True)))
    sent = 0
    with instance.client() as client:
        for first in range(0, len(numbers), AT_ONCE):
            together = numbers[first : first + AT_ONCE].tolist()
            sent += len(client.queue(queue).dead_letters.resubmit(sequence_numbers=together))
            if progress is not None:
                progress(Progress(sent))
    return Replayed(queue, None, len(numbers), sent, 0, None, done_before=False, dry_run=False)
