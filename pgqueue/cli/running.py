"""How a command is run: exit codes, errors in one line, Ctrl-C, broken pipes. The help of all is shown at once."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

from pgqueue.cli.exit_codes import FAILED

#: The help of ``pgqueue`` where the terminal has room: it takes less time to read than to render.
HELP = Path(__file__).with_name("help.txt")
HELP_WIDTH = 80


def main() -> None:
    """Run the command that the process was started with, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str], program: str = "pgqueue") -> int:
    """Run a command and return its exit code. Every error is one line, without a traceback.

    Commands that it advises begin with ``program``.
    """
    sys.stdout, sys.stderr = _reliable(sys.stdout), _reliable(sys.stderr)
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # the commands report connection errors themselves
    try:
        code = _run(arguments, program)
        sys.stdout.flush()
    except BrokenPipeError:
        return _hang_up()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BaseException as error:  # noqa: BLE001 (a traceback is no help at a terminal)
        return _report(error)
    return code if isinstance(code, int) else 0


def _run(arguments: list[str], program: str) -> object:
    if arguments in (["--help"], ["-h"]) and shutil.get_terminal_size().columns >= HELP_WIDTH:
        return sys.stdout.write(HELP.read_text(encoding="utf-8")) and 0
    from pgqueue.cli import choice
    from pgqueue.cli.app import app

    choice.program = program
    return app(arguments, prog_name=program, standalone_mode=False)


def _reliable(stream: TextIO | None) -> TextIO:
    """Reopen a stream so that a bad character, or a reader that closes the pipe, does not lose other output.

    A character that the terminal lacks is escaped. The stream is buffered, even under PYTHONUNBUFFERED: without a
    buffer, Python would not notice that the reader closed the pipe in the middle of a write.
    """
    if stream is None:  # it was closed before we started
        return Path(os.devnull).open("w")
    line = 1 if stream is sys.stderr or stream.isatty() else -1
    return open(stream.fileno(), "w", line, stream.encoding, "backslashreplace", closefd=False)


def _hang_up() -> int:
    """The reader of our output has closed the pipe, as `head` does: write nothing more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return FAILED


def _report(error: BaseException) -> int:
    from pgqueue.cli.choice import advised
    from pgqueue.cli.failures import failure_of, one_line  # these load the driver
    from pgqueue.model.printable import printable

    failure = failure_of(error)
    if failure.line:
        sys.stderr.write(f"pgqueue: {printable(one_line(advised(failure.line)))}\n")
    return failure.exit_code
