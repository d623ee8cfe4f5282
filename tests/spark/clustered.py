"""A program for a cluster, run by spark-submit: slow tasks with copies beside them, a lost executor, a stream.

Arguments: the DSN, a directory for checkpoints. The last line is, in JSON, the origin of the executors' pgqueue.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import psutil
import psycopg
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import pgqueue.spark
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueWriter, Staged

ROWS = 1_000
TRIES = "select count(*) from tries where form = %s"

#: The queues, each with the format and the atomicity with which it is written.
WRITES = {
    "copied": ("copied", "job"),
    "copied-by-task": ("copied", "task"),
    "orphaned": ("orphaned", "job"),
}


class Copied(QueueWriter):
    """The first task that wrote partition 0 lingers until a copy of it has written that, too."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if _task().partitionId() == 0:
            self._wait_for_two()
        return staged

    def _wait_for_two(self) -> None:
        with psycopg.connect(self._instance.dsn, autocommit=True) as connection:
            connection.execute("insert into tries values (%s, %s)", [self._queue, str(_task().taskAttemptId())])
            while connection.execute(TRIES, [self._queue]).fetchone() != (2,):
                time.sleep(0.05)


class Orphaned(QueueWriter):
    """The first task to stage partition 1 kills its executor before the driver learns that it has staged."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if _task().partitionId() == 1 and self._is_first(staged):
            executor = next(process for process in psutil.Process().parents() if process.name() == "java")
            executor.send_signal(signal.SIGKILL)
        return staged

    def _is_first(self, staged: Staged) -> bool:
        """Not who has the lowest number: on a slow machine its copy may be there before."""
        with psycopg.connect(self._instance.dsn, autocommit=True) as connection:
            noted = connection.execute(
                "insert into tries values ('orphaned', %s) on conflict do nothing returning name", [staged.table]
            )
            return noted.fetchone() is not None


class CopiedSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "copied"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return Copied(self.options, schema, overwrite)


class OrphanedSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "orphaned"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return Orphaned(self.options, schema, overwrite)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task


def write(spark: SparkSession, queue: str, dsn: str) -> None:
    form, atomicity = WRITES[queue]
    spark.dataSource.register({"copied": CopiedSource, "orphaned": OrphanedSource}[form])
    frame = spark.range(0, ROWS, 1, 2).selectExpr("to_json(struct(id)) as body")
    frame.write.format(form).options(dsn=dsn, queue=queue, atomicity=atomicity).mode("append").save()


def drain(spark: SparkSession, dsn: str, checkpoint: str) -> None:
    stream = spark.readStream.format("pgqueue").options(dsn=dsn, queue="copied", consumer="cluster")

    @pgqueue.spark.in_transaction("cluster", dsn=dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        for row in batch.collect():
            transaction.execute("insert into drained values (%s)", [row["body"]])

    writer = stream.option("maxMessagesPerTrigger", 600).load().writeStream.foreachBatch(post)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def where_from(_rows: Iterable[Any]) -> Iterable[str]:
    import pgqueue

    yield str(pgqueue.__file__)


def main(dsn: str, directory: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = pgqueue.spark.session("cluster")
    for queue in WRITES:
        write(spark, queue, dsn)
    drain(spark, dsn, os.path.join(directory, "checkpoint"))  # noqa: PTH118 (an address that Spark understands)
    context = spark.sparkContext
    found = context.parallelize(range(2), 2).mapPartitions(where_from).collect()
    sys.stdout.write(json.dumps({"master": context.master, "pgqueue": sorted(set(found))}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
