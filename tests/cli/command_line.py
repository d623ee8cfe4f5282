"""The command line as a process of its own.

Most of the time of a command goes into its imports. So a copy of a process that has imported them is as good as
a new process; only commands that are signalled start as new processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pgqueue.cli.places import PLACES
from pgqueue.transports.dsn import SERVICE, VARIABLES

COMMAND = (sys.executable, "-m", "pgqueue")

UNWANTED = {"FORCE_COLOR", "PGQUEUE_DSN", SERVICE, *VARIABLES}

COPYING = multiprocessing.get_context("forkserver")
# Typer imports its adapters with the first command that it reads, and Pydantic with them: half of what a command takes.
MODULES = {f"pgqueue.cli.{module}" for module, _ in PLACES.values()}
COPYING.set_forkserver_preload(["pgqueue.cli.app", *sorted(MODULES), "typer._adapters", "tests.cli.command_line"])


@dataclass(frozen=True)
class Ended:
    """How a command ended, and its output."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def only_error(self) -> str:
        """The one line of an error, without a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("pgqueue: ")
        assert not self.out
        return lines[0]


class CommandLine:
    """Runs ``pgqueue`` from a directory where nothing of it lies."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.directory = directory
        clean = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        root = str(Path(__file__).parents[2])
        self.environment = {**clean, "COLUMNS": "100", "PYTHONPATH": root, **environment}

    def __call__(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Ended:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if any(name.startswith("PYTHON") for name in environment):
            return self._anew(arguments, given, {**self.environment, **environment})
        return self._copied(arguments, given, {**self.environment, **environment})

    def _anew(self, arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str]) -> Ended:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            check=False,
            cwd=self.directory,
            env=environment,
            input=stdin,
            capture_output=True,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def _copied(self, arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str]) -> Ended:
        with tempfile.TemporaryDirectory() as directory:
            streams = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
            streams[0].write_bytes(stdin)
            process = COPYING.Process(target=_be_a_command, args=(arguments, self.directory, environment, streams))
            process.start()
            try:
                process.join()
            finally:
                process.kill()  # where the test was given up
            assert process.exitcode is not None
            return Ended(process.exitcode, streams[1].read_text(), streams[2].read_text())

    def start(self, *arguments: str, stdin: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=listening_to_interrupts,  # noqa: PLW1509 - the child does nothing else before it begins
        )


def _be_a_command(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], streams: list[Path]
) -> None:
    for number, stream in enumerate(streams):
        os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = os.fdopen(0)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv[1:] = arguments
    runpy.run_module("pgqueue", run_name="__main__")


def listening_to_interrupts() -> None:
    """Tests run in the background may ignore SIGINT, and the processes they start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
