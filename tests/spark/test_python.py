"""The workers of a local Spark run on this Python, and import PySpark from where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from pgqueue.spark import python

HOME = Path(pyspark.__file__).parent
ARCHIVES = [str(path) for path in [*HOME.glob("python/lib/*.zip"), *HOME.glob("jars/spark-core_*.jar")]]
LOOK = "import json, os, sys; print(json.dumps([sys.executable, os.environ['PYTHONPATH'].split(':'), sys.argv[1:]]))"


def test_the_archives_are_left_out_and_nothing_else(tmp_path: Path) -> None:
    assert len(ARCHIVES) == 3
    ours = ["/opt/with space", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": ":".join([*ARCHIVES, *ours])}
    said = subprocess.run(
        [python.launcher(), "-c", LOOK, "one two"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(said) == [sys.executable, ours, ["one two"]]


def test_workers_import_what_is_installed(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]


@pytest.mark.parametrize(("local", "home"), [(False, None), (True, "/opt/spark")])
def test_where_the_archive_may_be_all_there_is_it_stays(
    monkeypatch: pytest.MonkeyPatch, local: bool, home: str | None
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "put back afterwards")
    monkeypatch.delenv("PYSPARK_PYTHON")
    if home:
        monkeypatch.setenv("SPARK_HOME", home)
    python.provide(local=local)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_python_that_is_asked_for_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    python.provide(local=True)
    assert os.environ["PYSPARK_PYTHON"] == "python3.12"
