"""One snapshot of the database for all readers of a DataFrame, kept by a separate process.

A message that is claimed moves to another place in its table. Tasks that read parts of the table at different times
would see it twice or not at all. So all parts are read in one snapshot, which lasts as long as the transaction that
exported it. Spark plans a read in a process that may end before the parts are read. The keeper is forked there and
outlives that process: it holds the transaction open, and ends without a reader for long. A reader holds a shared
advisory lock named after the snapshot, which the keeper looks for. The snapshot of ``snapshot()`` is kept by a program
of its own instead: the caller's may have threads, and is better not forked.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from pgqueue.spark import keeper
from pgqueue.spark.errors import OptionError, PipelineError
from pgqueue.spark.options import Options

#: The keeper's source, not its name: importing the package would take several times as long as taking the snapshot.
PROGRAM = inspect.getsource(keeper)
STARTING = timedelta(seconds=60)


@dataclass(frozen=True)
class Snapshot:
    """PostgreSQL's name of a snapshot, and the time of the read; None for a snapshot that was exported elsewhere."""

    name: str
    moment: datetime | None = None

    def __str__(self) -> str:
        return f"{self.name}@{self.moment.isoformat()}" if self.moment else self.name

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """The reverse of ``str``; also takes what ``pg_export_snapshot()`` returns.

        Raises:
            OptionError: the text after the name is not a time.
        """
        name, _, moment = text.partition("@")
        try:
            return cls(name, datetime.fromisoformat(moment) if moment else None)
        except ValueError as error:
            raise OptionError(f"the option 'snapshot' must come from pgqueue.spark.snapshot(), not {text!r}") from error


@contextmanager
def snapshot(dsn: str | None = None) -> Iterator[str]:
    """Hold one snapshot for several DataFrames: the value for ``option("snapshot", ...)``, good until the block ends.

    Reads with it show the database as it was at one moment, the states of messages included. While it is held, rows
    that others delete or change cannot be cleaned up: hold it for minutes rather than for hours.

    Args:
        dsn: the database, as in ``option("dsn", ...)``; ``PGQUEUE_DSN`` by default.

    Raises:
        OptionError: no database was named.
        PipelineError: the database cannot be reached, or has no queues.
    """
    process = _launch(Options({"dsn": dsn} if dsn else {}, ()).dsn)
    assert process.stdout is not None
    try:
        yield str(_answer(process.stdout))
    finally:
        _close(process)


def take(dsn: str, patience: timedelta) -> Snapshot:
    """A new snapshot, kept until there was no reader for ``patience``.

    Raises:
        PipelineError: the database cannot be reached.
    """
    with keeper.fork(dsn, patience.total_seconds()) as answer:
        return _answer(answer)


def _launch(dsn: str) -> subprocess.Popen[str]:
    """Start a keeper, which inherits our stderr. The DSN is not on its command line, where other users could see it."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(dsn) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it has ended; the missing answer is reported below
    return process


def _answer(pipe: IO[str]) -> Snapshot:
    ready, _, _ = select.select([pipe], [], [], STARTING.total_seconds())
    line = pipe.readline() if ready else ""
    answer = json.loads(line or '{"error": "its process did not start; see its messages on stderr"}')
    if "error" in answer:
        raise PipelineError(f"no snapshot of the database could be taken: {answer['error']}")
    return Snapshot.parse(answer["snapshot"])


def _close(process: subprocess.Popen[str]) -> None:
    """Wait for the process, which ends with its stdin."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(BrokenPipeError):  # it ended before it read its order, which has been reported
            pipe.close()
    try:
        process.wait(STARTING.total_seconds())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
