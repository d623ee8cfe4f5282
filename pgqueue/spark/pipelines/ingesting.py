"""Sends the rows of files to a queue, once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

import pgqueue.spark
from pgqueue.model.columns import STAGED
from pgqueue.spark import staging
from pgqueue.spark.connections import Instance
from pgqueue.spark.errors import OptionError, PipelineError
from pgqueue.spark.pipelines import files
from pgqueue.spark.pipelines.files import InputError, Source
from pgqueue.spark.pipelines.progress import Tell
from pgqueue.spark.pipelines.sending import (
    in_parts,
    parted,
    parts_of,
    published,
    refuse_other_layout,
    sample,
    send_once,
)
from pgqueue.spark.writing import JOB, TASK

#: The types that fields of a message are cast to; the other fields keep the type of their expression.
TYPES = {"text": "string", "integer": "int", "interval": "interval day to second", "timestamptz": "timestamp"}
CASTS = {column.name: TYPES[column.type] for column in STAGED if column.type in TYPES}
STRUCTURED = (StructType, ArrayType, MapType, VariantType)


@dataclass(frozen=True)
class Ingested:
    """The result of an ingest."""

    queue: str
    files: int
    """How many files there were."""
    sent: int
    """How many messages were sent; in a dry run, how many would be, duplicates among them."""
    duplicates: int
    """How many were duplicates of earlier messages, in a queue that detects them."""
    job: str
    """The name under which the job is remembered, for 30 days."""
    done_before: bool
    """Whether everything had been sent earlier; the counts are then those of the earlier run."""
    dry_run: bool
    sample: tuple[dict[str, Any], ...] = ()
    """In a dry run: a few messages."""


def ingest(
    paths: str | Sequence[str],
    queue: str,
    *,
    dsn: str,
    schema: str = "pgqueue",
    format: str | None = None,  # noqa: A002 - what Spark calls it
    body: str | None = None,
    # generated lines: {from message_id if is_staged: $key: str | None = None,}
    message_id: str | None = None,
    correlation_id: str | None = None,
    subject: str | None = None,
    content_type: str | None = None,
    reply_to: str | None = None,
    application_properties: str | None = None,
    priority: str | None = None,
    time_to_live: str | None = None,
    scheduled_enqueue_time: str | None = None,
    reply_to_session_id: str | None = None,
    to: str | None = None,
    partition_key: str | None = None,
    # end
    where: str | None = None,
    infer_schema: bool = False,
    atomicity: str = JOB,
    job: str | None = None,
    again: bool = False,
    dry_run: bool = False,
    progress: Tell | None = None,
    spark: SparkSession | None = None,
) -> Ingested:
    """Send the rows of files as messages. The same files with the same expressions are sent once, within 30 days.

    The transaction that sends also records what it sent, under a name, ``job``. By default the name is a digest of the
    files (path, size and time of modification), the expressions and the queue: a changed file makes another name.

    A field of a message is an expression of Spark SQL over the columns. A structure is written as JSON. With
    ``atomicity="task"`` every expression must come out the same when it is computed again.

    Args:
        paths: files, directories or patterns, wherever Spark can read; and Parquet in S3.
        queue: the queue to send to.
        dsn: the database.
        schema: the schema of pgqueue there.
        format: ``parquet``, ``json`` (an object a line) or ``csv`` (with a header); by default the one that the
            suffixes show.
        body: the body; by default the whole row as JSON, or the line itself where the file is JSON.
        message_id: the message id.
        subject: the subject.
        correlation_id: the correlation id.
        content_type: the content type.
        reply_to: the queue for a reply.
        reply_to_session_id: the session for a reply.
        to: whom the message is meant for.
        partition_key: what the message belongs together with.
        application_properties: the application properties, a structure or text that holds JSON.
        priority: the priority.
        time_to_live: the time to live, an interval: ``interval 2 hours``.
        scheduled_enqueue_time: the time before which the message is not delivered.
        where: send only rows for which this expression is true.
        infer_schema: infer the types of the columns of CSV, which are text otherwise.
        atomicity: ``job`` sends all in one transaction, ``task`` in several, for more than one transaction should hold.
            If that fails, run it again: what is missing is sent.
        job: a name to use in place of the digest; nothing is sent if something was sent under it before.
        again: send although it was sent before.
        dry_run: read, count and show; send nothing.
        progress: called with the number of rows that were read.
        spark: the session to use; by default :func:`pgqueue.spark.session`.

    Raises:
        pgqueue.errors.QueueNotFoundError: no queue has that name.
        pgqueue.spark.pipelines.InputError: a file cannot be read; the text names it, and the line.
        pgqueue.spark.errors.PipelineError: the result of an expression does not fit its field. Nothing was sent.
    """
    fields = {
        "body": body,
        # generated lines: {from message_id if is_staged: "$key": $key,}
        "message_id": message_id,
        "correlation_id": correlation_id,
        "subject": subject,
        "content_type": content_type,
        "reply_to": reply_to,
        "application_properties": application_properties,
        "priority": priority,
        "time_to_live": time_to_live,
        "scheduled_enqueue_time": scheduled_enqueue_time,
        "reply_to_session_id": reply_to_session_id,
        "to": to,
        "partition_key": partition_key,
        # end
    }
    if atomicity not in (JOB, TASK):
        raise OptionError(f"atomicity must be one of {JOB}, {TASK}, not {atomicity!r}")
    instance = Instance(dsn, schema)
    check_queue(instance, queue)
    session = spark or pgqueue.spark.session()
    source = Source(session, [paths] if isinstance(paths, str) else list(paths), format, infer=infer_schema)
    name = job or files.digest(
        source.files,
        queue,
        sorted((name, sql) for name, sql in fields.items() if sql is not None),
        where,
        source.format,
        infer_schema,
        atomicity,
    )
    if again:
        name = f"{name}-{uuid.uuid4().hex[:8]}"
    parts = 1 if atomicity == JOB else parts_of(sum(file.size for file in source.files), source.count())
    refuse_other_layout(instance, queue, name, parts)
    name = in_parts(name, parts)
    before = published(instance, queue, name)
    done = before.parts >= parts
    ingested = Ingested(queue, len(source.files), before.sent, before.duplicates, name, done, dry_run)
    if done:
        return ingested
    try:
        rows = _rows(source, fields, where)
        messages = parted(rows, atomicity, parts).select(*_columns(rows, fields))
        staging.message_columns(messages.schema)
        if dry_run:
            return _foreseen(ingested, source, messages)
        sent = send_once(messages, queue, instance=instance, job=name, atomicity=atomicity, progress=progress)
    except Exception as error:
        if isinstance(error, PipelineError | AnalysisException | ParseException):
            raise
        _refuse_broken(source, error)
        raise
    return replace(ingested, sent=sent.sent, duplicates=sent.duplicates)


def check_queue(instance: Instance, queue: str) -> None:
    """Raise :class:`~pgqueue.errors.QueueNotFoundError` if the queue does not exist."""
    with instance.client() as client:
        client.get_queue(queue)


def _rows(source: Source, fields: dict[str, str | None], where: str | None) -> DataFrame:
    """The rows to send. Lines of JSON are not parsed if no expression needs their columns."""
    if source.format == files.JSON and where is None and not any(fields.values()):
        return source.lines()
    rows = source.rows()
    chosen = rows.where(where) if where else rows
    return chosen if fields["body"] is None else chosen.drop(files.LINE)


def _refuse_broken(source: Source, error: Exception | None = None) -> None:
    """Raise an error that names the first unreadable line, if there is one."""
    broken = source.broken_line()
    if broken is not None:
        raise InputError(broken) from error


def _columns(rows: DataFrame, fields: dict[str, str | None]) -> list[Column]:
    whole_row = F.col(files.LINE) if files.LINE in rows.columns else F.to_json(F.struct("*"))
    columns = [whole_row.alias("body")] if fields["body"] is None else []
    for name, expression in fields.items():
        if expression is not None:
            columns.append(_column(rows, name, expression).alias(name))
    return columns


def _column(rows: DataFrame, name: str, expression: str) -> Column:
    column = F.expr(expression)
    is_structured = isinstance(rows.select(column.alias(name)).schema[name].dataType, STRUCTURED)
    if is_structured:
        return F.to_json(column)
    return column.cast(CASTS[name]) if name in CASTS else column


def _foreseen(ingested: Ingested, source: Source, messages: DataFrame) -> Ingested:
    _refuse_broken(source)
    return replace(ingested, sent=messages.count(), duplicates=0, sample=sample(messages))
