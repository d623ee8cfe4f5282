"""SIGKILL for a driver and all its workers, its queries at each point of a micro-batch: every effect exactly once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.spark.pipelines import drain
from pgqueue.testing import Database
from tests.spark import killed

MESSAGES = 25
QUEUES = {*killed.POINTS, killed.LANDED}


def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute("create table effects (point text, body text)")
        for point in QUEUES:
            client.create_queue(point)
            client.create_queue(f"{point}-next")
            client.queue(point).send_batch([Message(number) for number in range(MESSAGES)])

        kill_at_all_points(database, tmp_path)
        assert all(client.queue(point).peek() for point in QUEUES), "it was killed before it was done"

        for query in [killed.start(spark, "pgqueue", point, database.dsn, tmp_path) for point in killed.POINTS]:
            query.awaitTermination()
        assert 0 < drain(killed.LANDED, tmp_path / "lake", dsn=database.dsn, max_messages=10).messages < MESSAGES
        effects = connection.execute(
            "select point, body::int from effects union all "
            "select split_part(queue, '-', 1), body::text::int from pgqueue.messages where queue like '%-next'"
        ).fetchall()
        landed = [int(row["body"]) for row in spark.read.parquet(str(tmp_path / "lake")).collect()]
        assert sorted(landed) == [*range(MESSAGES)]
        assert sorted(effects) == sorted((point, number) for point in killed.POINTS for number in range(MESSAGES))
        assert not any(client.queue(point).peek() for point in QUEUES)
        assert connection.execute("select distinct open_claim from pgqueue.consumers").fetchall() == [(None,)]


def kill_at_all_points(database: Database, directory: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.killed", database.dsn, str(directory)]
    with database.connect(autocommit=True) as connection:
        connection.execute("listen reached")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as victim:
            reached: set[str] = set()
            while reached != QUEUES and victim.poll() is None:
                reached |= {notification.payload for notification in connection.notifies(timeout=1)}
            program = psutil.Process(victim.pid)
            for process in [program, *program.children(recursive=True)]:
                process.kill()
            _, said = victim.communicate()
    assert reached == QUEUES, said
