"""The commands in one tree, and what applies to each: exit codes, errors in one line, Ctrl-C, broken pipes."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

import pgqueue
from pgqueue.cli.choice import Choice, Dsn, Embedded
from pgqueue.cli.commands import Commands
from pgqueue.cli.exit_codes import FAILED

EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted. Write durations as 30s, 5m or 1h30m."

app = typer.Typer(name="pgqueue", cls=Commands, epilog=EPILOG, add_completion=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgqueue {pgqueue.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    dsn: Dsn = None,
    embedded: Embedded = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A transactional work queue on PostgreSQL: receive a message, work, and delete it in your own transaction.

    Begin with `pgqueue demo`, which needs nothing but itself.
    """
    context.obj = Choice(dsn, embedded)


def main() -> None:
    """Run the command that the process was started with, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code. Every error is one line, without a traceback."""
    sys.stdout, sys.stderr = _reliable(sys.stdout), _reliable(sys.stderr)
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # the commands report connection errors themselves
    try:
        code = app(arguments, prog_name="pgqueue", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _hang_up()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BaseException as error:  # noqa: BLE001 (a traceback helps nobody at a terminal)
        return _report(error)
    return code if isinstance(code, int) else 0


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
    from pgqueue.cli.failures import failure_of, one_line  # these load the driver
    from pgqueue.model.printable import printable

    failure = failure_of(error)
    if failure.line:
        sys.stderr.write(f"pgqueue: {printable(one_line(failure.line))}\n")
    return failure.exit_code
