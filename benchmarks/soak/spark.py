"""``python -m benchmarks.soak.spark``: a steady rate through two streams of Spark; ends with 1 when anything grows.

Half of the messages go into a table, in the transaction that completes them, and half are drained into a lake.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

import pgqueue.spark
from benchmarks.arguments import positive, whole
from benchmarks.report import machine
from benchmarks.server import running, version
from benchmarks.soak.growth import growing, interval, table
from benchmarks.spark.memory import MEGABYTE, heap_in_use, resident
from pgqueue.spark import pipelines

POSTED, DRAINED = "posted", "drained"
TURN_SECONDS = 0.1
BODY = {"order": 4711, "note": "x" * 150}
#: The heap is resident from the beginning, as large as it may become: its collector would resize it by hundreds of MB.
OF_THE_JVM = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch"}

CONNECTIONS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
TABLES = """
    select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
      from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'r'
"""
LAG = "select coalesce(extract(epoch from clock_timestamp() - min(enqueued_time)), 0)::float from pgqueue.message"


@dataclass(frozen=True)
class Sample:
    """The use of resources by the processes and the database at a moment."""

    minutes: float
    heap: float
    jvm: float
    python: float
    connections: int
    tables: float
    backlog: int
    lag: float


#: As in growth.SLACK. A backlog of a few seconds comes and goes with the batches.
SLACK = {
    "heap": (0.1, 10.0),
    "jvm": (0.05, 40.0),
    "python": (0.05, 20.0),
    "connections": (0.0, 2.0),
    "tables": (0.5, 50.0),
    "backlog": (0.5, 10_000.0),
    "lag": (0.5, 5.0),
}
TITLES = [
    "minutes", "heap in use, MB", "JVM, RSS, MB", "Pythons, RSS, MB",
    "connections", "tables, MB", "backlog", "oldest message, s",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.spark", description=__doc__)
    parser.add_argument("--minutes", type=positive, default=60.0)
    parser.add_argument("--rate", type=whole, default=2_000, help="messages a second")
    parser.add_argument("--every", type=positive, default=20.0, help="seconds between looks, at most a 16th of all")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server, tempfile.TemporaryDirectory(prefix="pgqueue-soak-") as directory:
        seconds = options.minutes * 60
        every = interval(options.every, seconds)
        samples, sent, found = soak(server.dsn(), directory, options.rate, seconds, every)
        conditions = (
            f"{machine()}, PostgreSQL {version(server)}, {options.rate} messages/s for {options.minutes:g} minutes"
        )
    wrong = growing(samples, SLACK)
    if sent != found:
        wrong.append(f"{sent:,} messages were sent, and {found:,} came out")
    verdict = "\n".join(wrong) or f"Nothing grows. Each of the {sent:,} messages came out once."
    text = f"{conditions}\n\n{table(samples, TITLES)}\n\n{verdict}\n"
    print(text)
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        options.markdown.write_text(f"# A soak of Spark's streams\n\n`{command}`\n\n{text}")
    sys.exit(1 if wrong else 0)


def soak(dsn: str, directory: str, rate: int, seconds: float, every: float) -> tuple[list[Sample], int, int]:
    """Send from another process, consume in this one, and look at regular times; return what went in and came out."""
    with pgqueue.QueueClient(dsn) as client, psycopg.connect(dsn, autocommit=True) as connection:
        client.migrate()
        for queue in (POSTED, DRAINED):
            client.create_queue(queue)
        connection.execute("create table effect as select 0::bigint as messages")
        spark = pgqueue.spark.session(master="local[2,4]", config=OF_THE_JVM)
        sent = multiprocessing.get_context("spawn").Value("q", 0)
        sender = multiprocessing.get_context("spawn").Process(target=send, args=(dsn, rate, seconds, sent))
        ending = threading.Event()
        with ThreadPoolExecutor() as threads:
            posting = post(spark, dsn, f"{directory}/checkpoint")
            draining = threads.submit(
                pipelines.drain, DRAINED, f"{directory}/lake", dsn=dsn, follow=True, stop=ending, spark=spark
            )
            try:
                sender.start()
                samples = look_on(connection, spark, seconds, every)
                sender.join()
                while waiting(connection) and posting.isActive and not draining.done():
                    time.sleep(1)
            finally:
                ending.set()
                posting.stop()
            drained = draining.result().messages
        pipelines.drain(DRAINED, f"{directory}/lake", dsn=dsn, spark=spark)
        landed = spark.read.parquet(f"{directory}/lake").count()
        assert drained <= landed
        ((posted,),) = connection.execute("select messages from effect").fetchall()
        spark.stop()
    return samples, int(sent.value), posted + landed


def send(dsn: str, rate: int, seconds: float, sent: Any) -> None:
    """Send batches to both queues in turn; late ones are made up for."""
    with pgqueue.QueueClient(dsn) as client:
        queues = [client.queue(POSTED), client.queue(DRAINED)]
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            due = int(rate * passed) - sent.value
            if due > 0:
                queues.reverse()
                queues[0].send_batch([pgqueue.Message(BODY)] * due)
                sent.value += due
            time.sleep(TURN_SECONDS)


def post(spark: SparkSession, dsn: str, checkpoint: str) -> Any:
    @pgqueue.spark.in_transaction(POSTED, dsn=dsn)
    def count(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        transaction.execute("update effect set messages = messages + %s", [batch.count()])

    stream = spark.readStream.format("pgqueue").options(dsn=dsn, queue=POSTED, consumer=POSTED).load()
    writer = stream.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime="1 second").start()


def look_on(connection: psycopg.Connection[Any], spark: SparkSession, seconds: float, every: float) -> list[Sample]:
    begun = time.monotonic()
    samples = []
    while (passed := time.monotonic() - begun) < seconds:
        time.sleep(min(every, seconds - passed))
        jvm, python = resident()
        samples.append(
            Sample(
                minutes=(time.monotonic() - begun) / 60,
                heap=heap_in_use(spark._jvm),
                jvm=jvm,
                python=python,
                connections=int(_one(connection, CONNECTIONS)),
                tables=_one(connection, TABLES) / MEGABYTE,
                backlog=waiting(connection),
                lag=float(_one(connection, LAG)),
            )
        )
        print(samples[-1], flush=True)
    return samples


def waiting(connection: psycopg.Connection[Any]) -> int:
    return int(_one(connection, "select count(*) from pgqueue.message"))


def _one(connection: psycopg.Connection[Any], query: str) -> Any:
    ((answer,),) = connection.execute(query.encode()).fetchall()
    return answer


if __name__ == "__main__":
    main()
