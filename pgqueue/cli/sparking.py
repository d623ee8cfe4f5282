"""How a command runs with Spark: its session, how far it has come, its errors in a line, and what it has done."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.status import Status
from rich.table import Table

from pgqueue.cli import output
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.output import Result, counted
from pgqueue.spark import SparkMissing, reason_of
from pgqueue.spark.session import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgqueue.spark.pipelines import Progress

LINE_EVERY_SECONDS = 5.0


@contextmanager
def running(name: str, master: str | None) -> Iterator[tuple[SparkSession, ProgressPrinter]]:
    """A Spark session that prints nothing of its own, and a printer of its progress. Errors are printed in a line."""
    quiet = _quiet()
    log = quiet.new_log()
    with explained(log), progress_printer() as progress, quiet.session(f"pgqueue {name}", master, log) as spark:
        yield spark, progress


@contextmanager
def explained(log: Path | None = None) -> Iterator[None]:
    """Errors of Spark, and of what it runs, as errors of a command; the log has the details of an unforeseen one."""
    quiet = _quiet()
    try:
        yield
    except SystemExit:  # by SIGTERM
        if log is not None:
            output.hint(f"stopped by SIGTERM (Spark's log is {log})")
        raise
    except quiet.KNOWN as error:
        reason = reason_of(error)
        if log is not None and reason.is_known:
            log.unlink(missing_ok=True)
        elif log is not None:
            raise Failed(f"{reason.line} (Spark's log is {log})") from error
        raise (WrongUse if reason.is_wrong_use else Failed)(reason.line) from error


def _quiet() -> Any:
    """The module that imports PySpark, if PySpark is installed."""
    try:
        check_version()
        from pgqueue.spark.pipelines import quiet
    except ImportError as error:
        raise Failed(f"{error.name or 'PySpark'} is not installed: pip install 'pgqueue-tx[spark]'") from error
    except SparkMissing as error:
        raise Failed(str(error)) from error
    return quiet


class ProgressPrinter:
    """Prints the progress of a pipeline: at a terminal in place, else in a line now and then."""

    def __init__(self, status: Status | None) -> None:
        self._status = status
        self._next_line = 0.0

    def __call__(self, progress: Progress) -> None:
        line = counted(progress.rows, "row") + (f", {counted(progress.batches, 'batch')}" if progress.batches else "")
        if self._status is not None:
            self._status.update(line)
        elif progress.rows and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_SECONDS
            output.hint(line)


@contextmanager
def progress_printer() -> Iterator[ProgressPrinter]:
    console = output.console(stderr=True)
    if not console.is_terminal:
        yield ProgressPrinter(None)
        return
    with console.status("Spark is starting") as status:
        yield ProgressPrinter(status)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second interrupt raises KeyboardInterrupt."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    former = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def told(done: Any, text: str, *, note: str = "", end: Exception | None = None) -> Result:
    """The counts of a pipeline; of a dry run a few rows, too."""
    if getattr(done, "done_before", False):
        note = "this was done before, and is not done twice: --again sends it once more"
    picture = (lambda _: _sample(done.sample)) if done.sample else None
    return Result(done, f"would go: {text}" if done.dry_run else text, picture, note=note, end=end)


def _sample(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = json.loads(json.dumps(rows, default=output.plain))
    columns = [name for name in shown[0] if any(row[name] is not None for row in shown)]
    return output.table(columns, [[row[name] for name in columns] for row in shown], wide=columns)
