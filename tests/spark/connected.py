"""A client of Spark Connect, with a server of its own: reads, writes, streams and pipelines; some are refused.

Arguments: the DSN, a directory for checkpoints. The last line of its output has the results, in JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import pgqueue.spark
from pgqueue import QueueClient
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


def work_pipelines(spark: SparkSession, dsn: str, directory: Path) -> dict[str, Any]:
    """Run each pipeline, and follow the history that they leave."""
    said: dict[str, Any] = {}
    file = directory / "orders.jsonl"
    file.write_text("".join(f'{{"id": {number}}}\n' for number in range(ROWS)))
    ingest = partial(pipelines.ingest, str(file), "files", dsn=dsn, spark=spark)
    said["ingest"] = [(done.sent, done.done_before) for done in (ingest(dry_run=True), ingest(), ingest())]
    with QueueClient(dsn) as client:
        for number, message in enumerate(client.queue("files").receive(max_messages=ROWS)):
            message.dead_letter("Odd") if number % 2 else message.complete()
    lake = directory / "lake"
    dead = spark.read.format("pgqueue").options(dsn=dsn, queue="files", table="dead_letters", columns="*").load()
    dead.write.parquet(str(lake))
    said["replay"] = [
        pipelines.replay("files", dsn=dsn, source=source, where="body like '%id%'", spark=spark).sent
        for source in (str(lake), str(lake), None, None)
    ]
    done = pipelines.report(directory / "report", dsn=dsn, spark=spark)
    said["report"] = (done.messages, Path(str(done.page)).exists())
    history = spark.readStream.format("pgqueue").options(dsn=dsn, table="history", startingFrom="earliest").load()
    run(history.writeStream.format("parquet").option("path", str(directory / "history")), directory / "followed")
    said["history"] = spark.read.parquet(str(directory / "history")).count()
    try:
        pipelines.drain("first", directory, dsn=dsn, spark=spark)
    except pipelines.LakeError as error:
        said["drain"] = reason(error)
    try:
        pipelines.export(directory, dsn=dsn, spark=spark)
    except pipelines.LakeError as error:
        said["export"] = reason(error)
    return said


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
    said |= work_pipelines(spark, dsn, Path(directory))
    sys.stdout.write(f"\n{json.dumps(said)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
