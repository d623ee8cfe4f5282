"""SIGTERM to the pipeline demo with its built-in server, at any step: no process of it is left."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from pgqueue.embedded import Server, wheel_binaries
from pgqueue.testing.server import short_directory
from tests.patience import eventually

STOPPED = re.compile(r"^stopped by SIGTERM \(Spark's log is (.+)\)$", re.MULTILINE)

MARK = "PGQUEUE_TEST_MARK"

DEMO = """
import sys
from pathlib import Path
from pgqueue import embedded
from pgqueue.cli.running import run

embedded.default_directory = lambda: Path(sys.argv[1])
sys.exit(run(["spark", "demo", "--source", "extract", "--flights", "1000", "--output", sys.argv[2]]))
"""

#: Ends in the middle of a call to the JVM: its answer is not read.
INTERRUPTED = """
import sys
from pathlib import Path
from pgqueue.spark.pipelines import quiet

with quiet.session("interrupted", None, Path(sys.argv[1])) as spark:
    client = spark.sparkContext._gateway._gateway_client
    connection = client.get_thread_connection()
    connection.socket.sendall(b"r\\nu\\njava.lang\\nrj\\ne\\n")
    sys.exit(3)
"""

Processes = Callable[[], set[str]]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(short_directory() / "embedded", wheel_binaries())
    yield server
    server.stop("immediate")
    shutil.rmtree(server.directory.parent)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """The names of the processes that the demo has started, and what they have: they inherit its environment."""
    mark = str(uuid.uuid4())
    monkeypatch.setenv(MARK, mark)

    def names() -> set[str]:
        return {name for process in psutil.process_iter() if (name := _name_with_mark(process, mark))}

    return names


def _name_with_mark(process: psutil.Process, mark: str) -> str | None:
    """None for a process of others, and for one that has ended meanwhile."""
    try:
        return process.name() if process.environ().get(MARK) == mark else None
    except psutil.Error:
        return None


@pytest.mark.parametrize("step", ["starting", "ingest:", "work:", "replay:", "verdict:"])
def test_nothing_of_the_demo_is_left(server: Server, processes: Processes, tmp_path: Path, step: str) -> None:
    command = [sys.executable, "-c", DEMO, str(server.directory), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        if step == "starting":
            eventually(lambda: "java" in processes(), "Spark does not start")
        else:
            _read_until(step, demo.stderr)
        demo.terminate()
        rest = demo.stderr.read()
    assert demo.returncode == 128 + signal.SIGTERM, rest
    assert "Traceback" not in rest
    said = STOPPED.search(rest)
    assert said is not None, rest
    Path(said[1]).unlink()
    eventually(lambda: processes() == set(), "processes are left")
    assert not server.is_running()


def test_a_session_is_stopped_after_an_interrupted_call(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr


def _read_until(step: str, said: IO[str]) -> None:
    lines = []
    for line in said:
        lines.append(line)
        if step in line:
            return
    raise AssertionError("".join(lines))
