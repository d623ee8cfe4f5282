"""A program that is killed, with its JVM and all their workers, at one point of what Spark does for each micro-batch.

It consumes ``q`` in claims of ten: into the table ``effects``, in one transaction (``effects``), or into the queue
``next`` (``queue``). Run as ``python -m tests.spark.killed SINK POINT BATCH DSN CHECKPOINT``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
import psycopg
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import pgqueue.spark
from pgqueue.spark.consuming import QueueStream
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueSink, Staged

#: In the order in which they come in a micro-batch: claimed, logged, staged, published or committed, done.
POINTS = {
    "effects": ["claimed", "committed", "done"],
    "queue": ["logged", "staged", "published"],
}


def strike(point: str, batch: int | None = None) -> None:
    """Ends it all, if this is the point and the batch."""
    aim, number, root = os.environ["KILL_POINT"], int(os.environ["KILL_BATCH"]), int(os.environ["KILL_ROOT"])
    if point == aim and batch in (number, None):
        program = psutil.Process(root)
        for process in [program, *program.children(recursive=True)]:
            if process.pid != os.getpid():
                process.send_signal(signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class KilledStream(QueueStream):
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        strike("done", start["claim"])
        latest = super().latestOffset(start, limit)
        if latest != start:
            strike("claimed", latest["claim"])
        return latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        strike("logged", end["claim"])
        return super().partitions(start, end)


class KilledSink(QueueSink):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if staged.rows:
            strike("staged")
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        strike("published", batchId + 1)


class KilledSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamReader(self, schema: StructType) -> QueueStream:
        return KilledStream(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueSink:
        return KilledSink(self.options, schema, overwrite)


def start(spark: SparkSession, form: str, sink: str, dsn: str, checkpoint: str) -> StreamingQuery:
    """The query; with the form ``pgqueue`` it is the same, and nobody dies."""
    options = {"dsn": dsn, "queue": "q", "consumer": "ledger", "maxMessagesPerTrigger": "10"}
    frame = spark.readStream.format(form).options(**options).load().select("body", "message_id")
    if sink == "queue":
        writer = frame.writeStream.format(form).options(dsn=dsn, queue="next")
    else:
        writer = frame.writeStream.foreachBatch(_post(dsn) if form == "pgqueue" else _struck(dsn))
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def _post(dsn: str) -> Callable[[DataFrame, int], None]:
    @pgqueue.spark.in_transaction("ledger", dsn=dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        for row in batch.collect():
            transaction.execute("insert into effects values (%s)", [row["body"]])

    return post


def _struck(dsn: str) -> Callable[[DataFrame, int], None]:
    def post(batch: DataFrame, number: int) -> None:
        _post(dsn)(batch, number)
        strike("committed", number + 1)

    return post


def main(sink: str, point: str, batch: str, dsn: str, checkpoint: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    os.environ.update(KILL_POINT=point, KILL_BATCH=batch, KILL_ROOT=str(os.getpid()))
    spark = pgqueue.spark.session(
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    spark.dataSource.register(KilledSource)
    start(spark, "killed", sink, dsn, checkpoint).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
