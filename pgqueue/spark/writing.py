"""DataFrames and streams into a queue: tasks stage, each try into a table of its own, and the driver publishes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pgqueue.spark import staging
from pgqueue.spark.committing import is_lost, retried_until_known
from pgqueue.spark.errors import BadRowError, OptionError, PipelineError
from pgqueue.spark.options import Options

logger = logging.getLogger("pgqueue.spark")

OPTIONS = ("queue", "atomicity", "job")
SINK_OPTIONS = ("queue", "sink")

JOB, TASK = "job", "task"
QUERY_ID = "sql.streaming.queryId"

PUBLISH = "select pgqueue.publish(%s, %s, %s, %s, %s, %s, keep => %s)"

#: For so long a job is remembered that nobody has named.
KEPT = timedelta(days=7)


@dataclass
class Staged(WriterCommitMessage):
    """What one task has staged; nothing is left of it where tasks publish for themselves."""

    job: str
    table: str | None
    rows: int
    query: str | None = None


class QueueWriter(DataSourceArrowWriter):
    """A DataFrame into a queue: all of it, or with ``atomicity=task`` all of each partition, exactly once.

    Options: ``queue``; ``atomicity``, ``job`` or ``task``; ``job``, a name under which this is written only once.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        read = Options(options, OPTIONS)
        if overwrite:
            raise OptionError(
                "a queue is not overwritten: say mode('append'), and purge the queue before if you mean to"
            )
        self._dsn = read.dsn
        self._queue = read.needed("queue")
        self._by_task = read.one_of("atomicity", (JOB, TASK)) == TASK
        self._named = read.text("job")
        self._job = uuid.uuid4().hex[:16]  # the same in all tasks and on the driver: the writer travels
        self._columns = staging.message_columns(schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        with psycopg.connect(self._dsn) as connection:
            staged = _stage(connection, self._queue, self._job, self._columns, iterator)
        if self._by_task:
            self._publish([staged], _task().partitionId())
            staged.table = None
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self._by_task:
            self._publish(_tables(messages), 0)
        _discard(self._dsn, {self._job})

    def _publish(self, staged: Sequence[Staged], part: int) -> None:
        """Under a name in any case: it tells what became of a COMMIT that nobody has answered."""
        name = self._named or self._job
        try:
            _publish(self._dsn, self._queue, staged, f"job {name}", part, keep=None if self._named else KEPT)
        except psycopg.OperationalError as error:
            if not is_lost(error):
                raise
            raise PipelineError(
                f"whether the job was sent is not known, the connection was lost: {error}. Write the same again with "
                f"option('job', {name!r}), which sends nothing twice"
            ) from error

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _discard(self._dsn, {self._job})


class QueueSink(DataSourceStreamArrowWriter):
    """A stream into a queue, each batch exactly once: its number is written down in the transaction that publishes it.

    Options: ``queue``; ``sink``, the name that batches are written down under, else the id of the query.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        read = Options(options, SINK_OPTIONS)
        if overwrite:
            raise OptionError("a queue is not overwritten: say outputMode('append')")
        self._dsn = read.dsn
        self._queue = read.needed("queue")
        self._named = read.text("sink")
        self._job = uuid.uuid4().hex[:16]  # of the tasks; the driver makes a writer of its own to commit
        self._columns = staging.message_columns(schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        with psycopg.connect(self._dsn) as connection:
            staged = _stage(connection, self._queue, self._job, self._columns, iterator)
        staged.query = _task().getLocalProperty(QUERY_ID)
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = _tables(messages)
        if not staged:
            return
        publisher = self._named or staged[0].query
        if publisher is None:
            raise PipelineError("Spark has not said which query this is: say option('sink', ...), a name of its own")
        _publish(self._dsn, self._queue, staged, f"stream {publisher}", batchId, ordered=True)
        _discard(self._dsn, {part.job for part in staged})

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _discard(self._dsn, {part.job for part in _tables(messages)})


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return context


def _stage(
    connection: psycopg.Connection[Any],
    queue: str,
    job: str,
    columns: dict[str, str],
    batches: Iterator[pa.RecordBatch],
) -> Staged:
    """In one transaction: a try that fails leaves nothing."""
    task = _task()
    part = f"{task.partitionId()}_{task.taskAttemptId()}"
    (table,) = _row(connection, "select pgqueue.stage(%s, %s, %s, %s)", queue, job, part, list(columns.values()))
    try:
        rows = staging.copy(connection, table, columns, batches)
        _row(connection, "select pgqueue.check_staged(%s, %s)", queue, table)
    except BadRowError as error:
        raise BadRowError(f"partition {task.partitionId()}, {error}") from error
    except psycopg.Error as error:
        if error.sqlstate not in ("PQ005", "PQ007"):
            raise
        raise BadRowError(f"partition {task.partitionId()}, {error.diag.message_primary}") from error
    return Staged(job, table, rows)


def _publish(
    dsn: str,
    queue: str,
    staged: Sequence[Staged],
    publisher: str,
    part: int,
    *,
    ordered: bool = False,
    keep: timedelta | None = None,
) -> None:
    tables, rows = [each.table for each in staged], sum(each.rows for each in staged)
    retried_until_known(
        dsn, lambda connection: _row(connection, PUBLISH, queue, tables, rows, publisher, part, ordered, keep)
    )


def _tables(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What there is to publish, in the order of the partitions."""
    return [message for message in messages if isinstance(message, Staged) and message.table is not None]


def _discard(dsn: str, jobs: set[str]) -> None:
    """Tidies up, if it can: a job that was sent has not failed for that, nor one that failed for another reason."""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for job in jobs:
                _row(connection, "select pgqueue.discard_staged(%s)", job)
    except psycopg.Error as error:
        logger.warning("what is left of job %s will be dropped by a sweep in a week: %s", ", ".join(jobs), error)


def _row(connection: psycopg.Connection[Any], query: Any, *parameters: Any) -> tuple[Any, ...]:
    row = connection.execute(query, parameters).fetchone()
    assert row is not None, "the function returns a row"
    return tuple(row)
