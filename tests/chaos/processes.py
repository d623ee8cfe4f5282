"""The other end of ``consumer.py``: starts it, follows it step by step, freezes it, kills it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pgqueue

SCRIPT = Path(__file__).with_name("consumer.py")
LIBRARY = Path(pgqueue.__file__).parents[1]


class Consumer:
    """A consumer process; with its last report."""

    def __init__(self, play: str, dsn: str, queue: str, kind: str = "psycopg") -> None:
        self.said: dict[str, Any] = {}
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), play, dsn, queue, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def listen(self) -> dict[str, Any]:
        """Its next report; raises EOFError when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the consumer ended after {self.said}")
        self.said = json.loads(line)
        return self.said

    def reach(self, step: str) -> Self:
        """Lets it go on until it reports this step."""
        while self.listen()["step"] != step:
            self.go_on()
        return self

    def go_on(self) -> Self:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self

    def stop(self) -> None:
        """Makes it end, by closing its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: it cannot clean up, nor close its database connection."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
