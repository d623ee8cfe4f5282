"""A program for a cluster that is being killed: it sends numbers by jobs, and drains them by a stream into ``drained``.

Started again it goes on: a job that took effect is not written again under its name. It ends when there is a file
``enough``. Arguments: the DSN, and a directory for that file and the checkpoint.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import pgqueue.spark

QUEUE = "numbers"
ROWS = 200


def start(spark: SparkSession, dsn: str, directory: Path) -> StreamingQuery:
    @pgqueue.spark.in_transaction("cluster", dsn=dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        numbers = [int(row["body"]) for row in batch.select("body").collect()]
        transaction.execute("insert into drained select unnest(%s::bigint[])", [numbers])

    stream = spark.readStream.format("pgqueue").options(dsn=dsn, queue=QUEUE, consumer="cluster")
    writer = stream.option("maxMessagesPerTrigger", ROWS).option("numPartitions", 2).load().writeStream
    return writer.foreachBatch(post).option("checkpointLocation", str(directory / "checkpoint")).start()


def send(spark: SparkSession, dsn: str, job: int) -> None:
    frame = spark.range(job * ROWS, (job + 1) * ROWS, 1, 2).selectExpr("string(id) as body")
    frame.write.format("pgqueue").options(dsn=dsn, queue=QUEUE, job=f"numbers {job}").mode("append").save()


def main(dsn: str, directory: Path) -> None:
    spark = pgqueue.spark.session("enduring")
    stream = start(spark, dsn, directory)
    with psycopg.connect(dsn, autocommit=True) as connection:
        [[sent]] = connection.execute("select count(*) from jobs").fetchall()
        for job in count(sent):
            if (directory / "enough").exists():
                break
            send(spark, dsn, job)
            connection.execute("insert into jobs values (%s)", [job])
    stream.processAllAvailable()
    stream.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
