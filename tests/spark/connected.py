"""A client of Spark Connect, with a server of its own: reads, writes, and two streams, of which one is refused.

Arguments: the DSN, a directory for checkpoints. The last line says, in JSON, what came of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psycopg
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import pgqueue.spark
from pgqueue.spark import pipelines
from pgqueue.spark.session import DEFAULTS
from tests.spark import small

ROWS = 10

#: On a busy machine: for the process of foreachBatch, Spark Connect waits ten seconds, whatever its settings.
LATE = "Python worker failed to connect back."


def connected() -> SparkSession:
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**DEFAULTS, **small.CONFIGURATION}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def consume(spark: SparkSession, dsn: str, consumer: str) -> DataFrame:
    return spark.readStream.format("pgqueue").options(dsn=dsn, queue="first", consumer=consumer).load()


def run(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def reason(error: Exception) -> str:
    return pgqueue.spark.reason_of(error).line


def main(dsn: str, directory: str) -> None:
    spark = connected()
    pgqueue.spark.register(spark)
    said: dict[str, Any] = {"is_ours": pgqueue.spark.session() is spark, "kind": type(spark).__module__}
    rows = spark.range(ROWS).selectExpr("to_json(struct(id)) as body")
    rows.write.format("pgqueue").options(dsn=dsn, queue="first").mode("append").save()
    said["read"] = spark.read.format("pgqueue").options(dsn=dsn, queue="first").load().count()

    @pgqueue.spark.in_transaction("refused", dsn=dsn)
    def post(_batch: DataFrame, _transaction: psycopg.Connection[Any]) -> None:
        raise AssertionError("this is not called")

    while said.get("in_transaction", LATE) == LATE:
        try:
            run(consume(spark, dsn, "refused").writeStream.foreachBatch(post), Path(directory, "refused"))
        except PySparkException as error:
            said["in_transaction"] = reason(error)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgqueue.release_claim(consumer, open_claim, epoch) from pgqueue.consumers")

    sink = consume(spark, dsn, "moves").select("body").writeStream.format("pgqueue").options(dsn=dsn, queue="second")
    run(sink, Path(directory, "moves"))
    try:
        pipelines.drain("first", directory, dsn=dsn, spark=spark)
    except pipelines.LakeError as error:
        said["drain"] = reason(error)
    sys.stdout.write(f"\n{json.dumps(said)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
