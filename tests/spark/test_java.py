"""Spark runs on the machine's Java, else on the one that a wheel has brought."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.spark import java
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.spark import small


def a_java(directory: Path, version: str) -> str:
    """A program that calls itself that Java."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("said", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8)])
def test_the_version_of_a_java_is_read_from_its_output(tmp_path: Path, said: str, major: int) -> None:
    assert java.version(a_java(tmp_path, said)) == major


def test_a_program_that_is_no_java_has_no_version() -> None:
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


def test_an_error_without_any_java_names_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda program: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(java.JavaMissing, match=r"needs Java 17 or newer.*pip install 'pgqueue-tx\[spark\]'"):
        java.provide()


def test_a_command_without_java_runs_on_the_wheel_without_output_of_spark(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new JVM would warn of this and that."""
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        client.queue("orders").send_batch([Message(1), Message(2)])
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", path_without_java(tmp_path / "bin"))
    defaults = "".join(f"{name} {value}\n" for name, value in small.CONFIGURATION.items())
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    command = CommandLine(tmp_path, PGQUEUE_DSN=database.dsn, TMPDIR=str(tmp_path), SPARK_CONF_DIR=str(tmp_path))
    done = command("spark", "drain", "orders", "lake", "--master", "local[1]", "--max-messages", "1")
    assert (done.code, done.out) == (0, f"2 messages to {tmp_path}/lake\n")
    assert all(re.fullmatch(r"\d rows?, \d batch(es)?", line) for line in done.err.splitlines()), done.err
    assert [*tmp_path.glob("pgqueue-java-*/bin/java")], "the launcher of the wheel's runtime"


def path_without_java(directory: Path) -> str:
    """Every program that is found now, but no Java."""
    directory.mkdir()
    for place in map(Path, reversed(os.environ["PATH"].split(os.pathsep))):
        for program in place.glob("*"):
            link = directory / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    (directory / "java").unlink(missing_ok=True)
    return str(directory)
