"""A program at a terminal of its own: its output there, and its keyboard input."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.command_line import listening_to_interrupts
from tests.patience import eventually


class Terminal:
    """Runs a program at a terminal for as long as the ``with`` block lasts."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        columns: int = 100,
        lines: int = 24,
    ) -> None:
        self._screen, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        sized = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}
        self.process = subprocess.Popen(
            arguments,
            cwd=directory,
            env={**environment, **sized},
            stdin=program,
            stdout=program,
            stderr=program,
            start_new_session=True,
            preexec_fn=_at_the_terminal,  # noqa: PLW1509 - the child does nothing else before it begins
        )
        os.close(program)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._screen)

    @property
    def shown(self) -> str:
        """All that was written to the terminal, with its control sequences."""
        return self._shown.decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def wait(self) -> int:
        """Wait for the program to end, and return its exit code; all that it has written is shown then."""
        eventually(lambda: self.process.poll() is not None, "the program did not end")
        self._reader.join()
        return self.process.returncode

    def wait_for(self, text: str) -> None:
        eventually(lambda: text in self.shown, f"{text!r} was not shown")

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._screen, 65536)
            except OSError:  # the program has ended, and the terminal with it
                return
            if not more:
                return
            self._shown += more


def _at_the_terminal() -> None:
    """Ctrl-C is for this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    listening_to_interrupts()
