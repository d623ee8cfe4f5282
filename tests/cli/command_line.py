"""The command line as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

COMMAND = (sys.executable, "-m", "pgqueue")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

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
        clean = {name: value for name, value in os.environ.items() if name not in ("PGQUEUE_DSN", "FORCE_COLOR")}
        root = str(Path(__file__).parents[2])
        self.environment = {**clean, "COLUMNS": "100", "PYTHONPATH": root, **environment}

    def __call__(self, *arguments: str, stdin: str | bytes = b"", patience: float = 60, **environment: str) -> Ended:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            check=False,
            cwd=self.directory,
            env={**self.environment, **environment},
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=patience,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

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


def listening_to_interrupts() -> None:
    """Whoever runs the tests in the background may ignore SIGINT, and what they start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
