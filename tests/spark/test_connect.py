"""Through Spark Connect: what works is exact, and what does not is refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pgqueue import QueueClient
from pgqueue.spark import java
from pgqueue.testing import Database
from tests.spark import connected

ROOT = Path(__file__).parents[2]


def test_reads_writes_and_streams_into_queues_work_and_the_others_are_refused(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.provide()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # of the server, where the sources run
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with QueueClient(database.dsn) as client:
        for queue in ("first", "second"):
            client.create_queue(queue)
        run = subprocess.run(
            [sys.executable, "-m", "tests.spark.connected", database.dsn, str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr[-3000:]
        said = json.loads(run.stdout.splitlines()[-1])
        assert said["is_ours"]
        assert said["kind"].startswith("pyspark.sql.connect.")
        assert said["read"] == connected.ROWS
        assert said["in_transaction"].startswith("in_transaction does not work through Spark Connect")
        assert said["drain"].startswith("this pipeline does not work through Spark Connect")
        moved = sorted(message.body["id"] for message in client.queue("second").peek(max_messages=100))
        assert moved == list(range(connected.ROWS))
        assert client.queue("first").peek() == []
