"""Writes DataFrames and streams to a queue: each attempt of a task stages to its own table; the driver publishes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import psycopg
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pgqueue.spark import staging
from pgqueue.spark.claims import QUERY_ID
from pgqueue.spark.connections import (
    RETRIED_SECONDS,
    Instance,
    connect_once,
    first_row,
    is_lost,
    looking,
    retried_until_known,
)
from pgqueue.spark.errors import BadRowError, OptionError, PipelineError
from pgqueue.spark.limiting import Limit
from pgqueue.spark.options import Options

logger = logging.getLogger("pgqueue.spark")

OPTIONS = ("queue", "atomicity", "job", "maxConnections")
SINK_OPTIONS = ("queue", "sink", "maxConnections")

JOB, TASK = "job", "task"

STAGE = "select pgqueue.stage(%s, %s, %s, %s)"
PUBLISH = "select pgqueue.publish(%s, %s, %s, %s, %s, %s, keep => %s)"

#: How long a job without a name is remembered.
KEPT = timedelta(days=7)


@dataclass
class Staged(WriterCommitMessage):
    """The staged rows of one task; empty if the task has published them itself."""

    job: str
    table: str | None
    rows: int
    query: str | None = None


class _Staging:
    """The common part of writers and sinks: each attempt of a task stages to a table of its own."""

    def __init__(self, read: Options, schema: StructType) -> None:
        self._instance = read.instance
        self._queue = read.needed("queue")
        self._job = uuid.uuid4().hex[:16]  # the same in all tasks and on the driver: a writer travels
        self._limit = Limit(self._job, read.number("maxConnections"))
        self._columns = staging.message_columns(schema)

    def _stage(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage in one transaction, so that a failed attempt leaves nothing."""
        task = _task()
        part = f"{task.partitionId()}_{task.taskAttemptId()}"
        with self._limit.connect(self._instance) as connection:
            (table,) = first_row(connection, STAGE, [self._queue, self._job, part, list(self._columns.values())])
            try:
                rows = staging.copy(connection, table, self._columns, batches)
                connection.execute("select pgqueue.check_staged(%s, %s)", [self._queue, table])
            except BadRowError as error:
                raise BadRowError(f"partition {task.partitionId()}, {error}") from error
            except psycopg.Error as error:
                if error.sqlstate not in ("PQ005", "PQ007"):
                    raise
                raise BadRowError(f"partition {task.partitionId()}, {error.diag.message_primary}") from error
        return Staged(self._job, table, rows)

    def _publish(
        self,
        staged: Sequence[Staged],
        publisher: str,
        part: int,
        *,
        ordered: bool = False,
        keep: timedelta | None = None,
        connecting: Callable[..., psycopg.Connection[Any]] = connect_once,
    ) -> None:
        tables, rows = [each.table for each in staged], sum(each.rows for each in staged)
        publication = [self._queue, tables, rows, publisher, part, ordered, keep]
        retried_until_known(
            self._instance, lambda connection: connection.execute(PUBLISH, publication), connecting=connecting
        )


class QueueWriter(_Staging, DataSourceArrowWriter):
    """Writes a DataFrame to a queue exactly once: in one transaction, or with ``atomicity=task`` in one a partition.

    Options: ``queue``; ``atomicity``, ``job`` or ``task``; ``job``, a name under which this is written only once;
    ``maxConnections``, how many tasks are connected at a time, by default all.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        read = Options(options, OPTIONS)
        if overwrite:
            raise OptionError(
                "a queue cannot be overwritten: use mode('append'), and purge the queue first if you want it empty"
            )
        super().__init__(read, schema)
        self._by_task = read.one_of("atomicity", (JOB, TASK)) == TASK
        self._named = read.text("job")

    def look(self) -> None:
        """Stage no rows, in a transaction that is rolled back: what would fail in every task fails now.

        Raises:
            DatabaseError: the database cannot be reached, or refuses to let this role send to the queue.
        """
        _look(self._instance, self._queue, tuple(self._columns.values()))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = self._stage(iterator)
        if self._by_task:
            self._publish_once([staged], _task().partitionId(), self._limit.connect)
            staged.table = None
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self._by_task:
            self._publish_once(_tables(messages), 0, connect_once)
        _discard(self._instance, {self._job})

    def _publish_once(
        self, staged: Sequence[Staged], part: int, connecting: Callable[..., psycopg.Connection[Any]]
    ) -> None:
        """Publish, always under a name: it shows the outcome of a COMMIT whose answer was lost."""
        name = self._named or self._job
        keep = None if self._named else KEPT
        try:
            self._publish(staged, f"job {name}", part, keep=keep, connecting=connecting)
        except psycopg.OperationalError as error:
            if not is_lost(error):
                raise
            raise PipelineError(
                f"the connection was lost, so it is not known whether the job was sent: {error}. Write the same again "
                f"with option('job', {name!r}), which sends nothing twice"
            ) from error

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _discard(self._instance, {self._job})


class QueueSink(_Staging, DataSourceStreamArrowWriter):
    """Writes a stream to a queue, each batch exactly once: the publishing transaction also records the batch number.

    Options: ``queue``; ``sink``, the name under which batches are recorded, by default the id of the query;
    ``maxConnections``, how many tasks are connected at a time, by default all.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        read = Options(options, SINK_OPTIONS)
        if overwrite:
            raise OptionError("a queue cannot be overwritten: use outputMode('append')")
        super().__init__(read, schema)
        self._named = read.text("sink")

    def look(self) -> None:
        """Look as a batch writer does, but once in a process: Spark makes a new writer for each batch, in the same one.

        A restart of the server is waited for as tasks do, because this may be any batch of a stream.

        Raises:
            DatabaseError: the database cannot be reached, or refuses to let this role send to the queue.
        """
        _look_once(self._instance, self._queue, tuple(self._columns.values()), RETRIED_SECONDS)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = self._stage(iterator)
        staged.query = _task().getLocalProperty(QUERY_ID)
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = _tables(messages)
        if not staged:
            return
        publisher = self._named or staged[0].query
        if publisher is None:
            raise PipelineError("Spark gave no id of the query: give it a name of its own with option('sink', ...)")
        self._publish(staged, f"stream {publisher}", batchId, ordered=True)
        _discard(self._instance, {part.job for part in staged})

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _discard(
            self._instance, {part.job for part in _tables(messages)}
        )  # not ours: Spark commits with a writer of its own


def _look(instance: Instance, queue: str, columns: tuple[str, ...], seconds: float | None = None) -> None:
    with looking(instance, seconds) as connection:
        connection.execute(STAGE, [queue, uuid.uuid4().hex[:16], "look", list(columns)])


_look_once = lru_cache(_look)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return context


def _tables(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """The staged tables, in the order of the partitions."""
    return [message for message in messages if isinstance(message, Staged) and message.table is not None]


def _discard(instance: Instance, jobs: set[str]) -> None:
    """Drop the staged tables. An error is only logged: it does not change whether the job succeeded."""
    try:
        with instance.connect(autocommit=True) as connection:
            for job in jobs:
                connection.execute("select pgqueue.discard_staged(%s)", [job])
    except psycopg.Error as error:
        logger.warning(
            "staged tables of job %s were not dropped; a sweep does it in a week: %s", ", ".join(jobs), error
        )
