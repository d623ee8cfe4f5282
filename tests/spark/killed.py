"""A program to be killed while each of its queries stands at another point of what Spark does for a micro-batch.

A query has the name of its point, and consumes the queue of that name in claims of ten: into the table ``effects``, in
one transaction, or into the queue ``<point>-next``. In its second batch it notifies the channel ``reached`` at its
point, and goes no further. Beside them the queue ``landed`` is drained, until its second claim is in the
lake and Spark has not written that down. Run as ``python -m tests.spark.killed DSN DIRECTORY``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

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
from pgqueue.spark.pipelines import draining
from pgqueue.spark.pipelines.lake import Lake
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueSink, Staged
from tests.spark import small

BATCH = 2

#: In the order in which they come in a micro-batch, each with what its query writes to.
POINTS = {
    "claimed": "effects",
    "logged": "queue",
    "staged": "queue",
    "published": "queue",
    "committed": "effects",
    "done": "effects",
}
LANDED = "landed"


def halt(dsn: str, point: str) -> NoReturn:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pg_notify('reached', %s)", [point])
    while True:
        threading.Event().wait()


class HaltedStream(QueueStream):
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._halt_at("done", start)
        latest = super().latestOffset(start, limit)
        if latest != start:
            self._halt_at("claimed", latest)
        return latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._halt_at("logged", end)
        return super().partitions(start, end)

    def _halt_at(self, point: str, offset: dict[str, int]) -> None:
        if self._consumer == point and offset["claim"] == BATCH:
            halt(self._instance.dsn, point)


class HaltedSink(QueueSink):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if staged.rows and self._queue == "staged-next":
            halt(self._instance.dsn, "staged")
        return staged

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        if self._queue == "published-next" and batchId + 1 == BATCH:
            halt(self._instance.dsn, "published")


class HaltedSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "halted"

    def streamReader(self, schema: StructType) -> QueueStream:
        return HaltedStream(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueSink:
        return HaltedSink(self.options, schema, overwrite)


def start(spark: SparkSession, form: str, point: str, dsn: str, checkpoints: Path) -> StreamingQuery:
    """A query; with the form ``pgqueue`` it is the same, and goes through."""
    options = {"dsn": dsn, "queue": point, "consumer": point, "maxMessagesPerTrigger": "10"}
    frame = spark.readStream.format(form).options(**options).load().select("body", "message_id")
    if POINTS[point] == "queue":
        writer = frame.writeStream.format(form).options(dsn=dsn, queue=f"{point}-next")
    else:
        writer = frame.writeStream.foreachBatch(_posting(form, point, dsn))
    return writer.option("checkpointLocation", str(checkpoints / point)).trigger(availableNow=True).start()


def _posting(form: str, point: str, dsn: str) -> Callable[[DataFrame, int], None]:
    @pgqueue.spark.in_transaction(point, dsn=dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        for row in batch.collect():
            transaction.execute("insert into effects values (%s, %s)", [point, row["body"]])

    def post_and_halt(batch: DataFrame, number: int) -> None:
        post(batch, number)
        if point == "committed" and number + 1 == BATCH:
            halt(dsn, point)

    return post_and_halt if form == "halted" else post


def drain_until_landed(dsn: str, directory: Path) -> None:
    claims: list[None] = []
    overwrite = Lake.overwrite

    def overwrite_and_halt(*arguments: Any) -> None:
        overwrite(*arguments)
        claims.append(None)
        if len(claims) == BATCH:
            halt(dsn, LANDED)

    with mock.patch.object(Lake, "overwrite", overwrite_and_halt):
        draining.drain(LANDED, directory, dsn=dsn, max_messages=10)


def main(dsn: str, directory: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = pgqueue.spark.session(master="local[3]", config=small.CONFIGURATION)
    spark.dataSource.register(HaltedSource)
    for point in POINTS:
        start(spark, "halted", point, dsn, Path(directory))
    drain_until_landed(dsn, Path(directory) / "lake")


if __name__ == "__main__":
    main(*sys.argv[1:])
