"""A driver that is paused between Spark's hand-over of its first batch and the transaction of that batch.

It notifies on the channel ``reached``, and goes on when the advisory lock ``GATE`` is free: it posts the
bodies of the batch into the table ``effects``, or drains the queue into a lake. Run as
``python -m tests.spark.paused post|drain DSN DIRECTORY CONDITION``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import pgqueue.spark
from pgqueue.spark.pipelines import draining
from tests.spark import small

QUEUE, CONSUMER = "q", "ledger"
GATE = 20
CLAIM = 10

Work = Callable[[DataFrame, int], None]


def pause(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("notify reached")
        connection.execute("select pg_advisory_lock(%s)", [GATE])


def posting(dsn: str) -> Work:
    @pgqueue.spark.in_transaction(CONSUMER, dsn=dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        for row in batch.collect():
            transaction.execute("insert into effects values (%s)", [row["body"]])

    return post


def start(spark: SparkSession, dsn: str, directory: Path, condition: str, work: Work) -> StreamingQuery:
    options = {"dsn": dsn, "queue": QUEUE, "consumer": CONSUMER, "maxMessagesPerTrigger": str(CLAIM)}
    frame = spark.readStream.format("pgqueue").options(**options).load().where(condition)
    writer = frame.writeStream.foreachBatch(work).option("checkpointLocation", str(directory / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def main(what: str, dsn: str, directory: str, condition: str) -> None:
    spark = pgqueue.spark.session(master="local[2]", config=small.CONFIGURATION)
    if what == "drain":
        write = draining.Claims.write

        def write_late(claims: draining.Claims, batch: DataFrame, number: int) -> None:
            pause(dsn)
            write(claims, batch, number)

        with mock.patch.object(draining.Claims, "write", write_late):
            draining.drain(QUEUE, directory, dsn=dsn, consumer=CONSUMER, max_messages=CLAIM)
        return
    post = posting(dsn)

    def post_late(batch: DataFrame, number: int) -> None:
        pause(dsn)
        post(batch, number)

    start(spark, dsn, Path(directory), condition, post_late).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
