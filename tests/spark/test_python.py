"""The workers of a local Spark run on this Python, and import PySpark from where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
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


def test_workers_run_where_no_launcher_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda program, mode: False)  # as where temporary files may not be executed
        assert python.launcher() == sys.executable
    (tmp_path / f"pgqueue-python-{os.getuid()}").write_text("in the way")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert python.launcher() == sys.executable


def test_the_launcher_of_a_local_session_is_not_used_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", python.launcher())
    python.provide(local=False)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(("local", "home"), [(False, None), (True, "/opt/spark")])
def test_plain_python_is_used_where_pyspark_may_exist_only_in_the_archive(
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
