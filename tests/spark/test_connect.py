"""Through Spark Connect: what works is exact, and what does not is refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pgqueue import QueueClient
from pgqueue.spark import java
from pgqueue.testing import Database
from tests.spark import connected

ROOT = Path(__file__).parents[2]


def test_pipelines_over_connect_work_exactly_or_are_refused(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.provide()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # of the server, where the sources run
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with QueueClient(database.dsn) as client:
        for queue in ("first", "second"):
            client.create_queue(queue)
        client.create_queue("files", retain_history=timedelta(days=7))
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
        for refused in ("drain", "export"):
            assert said[refused].startswith("this pipeline does not work through Spark Connect"), refused
        assert said["ingest"] == [[connected.ROWS, False], [connected.ROWS, False], [connected.ROWS, True]]
        half = connected.ROWS // 2
        assert said["replay"] == [half, half, half, 0]  # a lake, the same again, the dead letters, none
        assert said["report"] == [connected.ROWS, True]
        assert said["history"] == connected.ROWS
        moved = sorted(message.body["id"] for message in client.queue("second").peek(max_messages=100))
        assert moved == list(range(connected.ROWS))
        assert client.queue("first").peek() == []
