"""SIGTERM to a demo with the built-in server, at any moment: no server is left, and its data directory is whole."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pgqueue.embedded import Server, wheel_binaries
from pgqueue.testing.server import short_directory
from tests.patience import eventually

DEMO = """
import signal, sys
from pathlib import Path
from pgqueue import embedded
from pgqueue.cli import demonstration

demonstration.exit_at_sigterm()
embedded.default_directory = lambda: Path(sys.argv[1])
demonstration.database(None)
(Path(sys.argv[1]) / "is used").touch()
signal.pause()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(short_directory() / "embedded", wheel_binaries())
    yield server
    server.stop("immediate")
    shutil.rmtree(server.directory.parent)


@pytest.mark.parametrize("moment", ["lock", "data/PG_VERSION", "data/postmaster.pid", "is used"])
def test_no_server_is_left_and_the_next_demo_starts(server: Server, moment: str) -> None:
    assert _ended(server, moment) == 128 + signal.SIGTERM
    assert not server.is_running()
    assert _ended(server, "is used") == 128 + signal.SIGTERM
    assert not server.is_running()


def _ended(server: Server, moment: str) -> int:
    """Run a demo, and send SIGTERM twice as soon as a file is there; return its exit code."""
    (server.directory / "is used").unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-c", DEMO, str(server.directory)]) as demo:
        eventually((server.directory / moment).exists, f"{moment} is not there")
        demo.terminate()
        demo.terminate()
        return demo.wait()
