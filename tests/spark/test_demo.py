"""The pipeline demo, on a part of its flights: its verdict holds, and finds what is spoilt."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgqueue import QueueClient
from pgqueue.cli.running import run
from pgqueue.demo.flights import Source
from pgqueue.demo.spark.plan import FLIGHTS, Plan
from pgqueue.demo.spark.verdict import judge
from pgqueue.testing import Database


def test_every_flight_is_in_the_lake_once_and_what_is_missing_is_noticed(
    spark: SparkSession, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dsn", database.dsn, "--source", "extract", "--flights", "3000", "--output", str(tmp_path)]
    assert run(["spark", "demo", *arguments, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["holds"]
    assert len(told["checks"]) == 11
    assert (tmp_path / "report" / "report.html").exists()
    assert logging.getLogger("pgqueue").level == logging.NOTSET, "the log is quiet only while workers are killed"

    plan = Plan(database.dsn, tmp_path, Source.EXTRACT, 3000)
    claims = sorted((tmp_path / "lake").glob("queue=*/date=*/consumer=*/claim=*"))
    shutil.rmtree(claims[0])
    checks = judge(plan, spark, kills=1, replayed=0, reported=0, dead=0)
    wrong = {check.name for check in checks if not check.holds}
    assert wrong >= {
        "rows in the lake",
        "different flights in the lake",
        "carriers at airports with the same flights and minutes",
        "dead letters replayed",
        "settled messages in the report",
    }


def test_an_existing_queue_that_is_not_the_demos_is_left_alone(
    spark: SparkSession, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue(FLIGHTS)
    assert run(["spark", "demo", "--dsn", database.dsn, "--source", "extract", "--output", str(tmp_path)]) == 1
    assert f"the queue {FLIGHTS} is not the demo's own" in capfd.readouterr().err
