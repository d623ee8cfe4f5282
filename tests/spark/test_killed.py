"""SIGKILL for the driver and all its workers at each point of the micro-batch protocol: every effect exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.spark import killed

MESSAGES = 25
CASES = [(sink, point) for sink, points in killed.POINTS.items() for point in points]


@pytest.mark.parametrize(("sink", "point"), CASES)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, database: Database, tmp_path: Path, sink: str, point: str
) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute("create table effects (body text)")
        client.create_queue("next")
        client.create_queue("q")
        client.queue("q").send_batch([Message(number) for number in range(MESSAGES)])
        checkpoint = str(tmp_path / "checkpoint")

        victim = subprocess.run(
            [sys.executable, "-m", "tests.spark.killed", sink, point, "2", database.dsn, checkpoint],
            capture_output=True,
            text=True,
            check=False,
        )
        assert victim.returncode == -signal.SIGKILL, victim.stderr
        assert client.queue("q").peek() != [], "it was killed before it was done"

        killed.start(spark, "pgqueue", sink, database.dsn, checkpoint).awaitTermination()
        where = "effects" if sink == "effects" else "pgqueue.messages where queue = 'next'"
        effects = connection.execute(f"select body::text::int from {where}".encode()).fetchall()
        assert sorted(effect for (effect,) in effects) == list(range(MESSAGES))
        assert client.queue("q").peek() == []
        assert connection.execute("select open_claim from pgqueue.consumers").fetchall() == [(None,)]
