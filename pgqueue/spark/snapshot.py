"""One snapshot of the database for all readers of a DataFrame, kept by a separate process.

A message that is claimed moves to another place in its table. Tasks that read parts of the table at different times
would see it twice or not at all. So all parts are read in one snapshot, which lasts as long as the transaction that
exported it. Spark plans a read in a process that may end before the parts are read. The keeper, a program of its own,
outlives that process: it holds the transaction open, and ends without a reader for long. A reader holds a shared
advisory lock named after the snapshot, which the keeper looks for.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pgqueue.spark import keeper
from pgqueue.spark.connections import Instance
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
def snapshot(dsn: str | None = None, *, schema: str | None = None) -> Iterator[str]:
    """Hold one snapshot for several DataFrames: the value for ``option("snapshot", ...)``, good until the block ends.

    Reads with it show the database as it was at one moment, the states of messages included. While it is held, rows
    that others delete or change cannot be cleaned up: hold it for minutes rather than for hours.

    Args:
        dsn: the database, as in ``option("dsn", ...)``; ``PGQUEUE_DSN`` by default.
        schema: the schema of pgqueue there; ``PGQUEUE_SCHEMA`` by default, or ``pgqueue``.

    Raises:
        OptionError: no database was named, or no instance can be in this schema.
        PipelineError: the database cannot be reached, or has no queues.
    """
    with _kept(Options({"dsn": dsn or "", "schema": schema or ""}, ()).instance) as held:
        yield str(held)


def take(instance: Instance, patience: timedelta) -> Snapshot:
    """A new snapshot, kept until there was no reader for ``patience``.

    Raises:
        PipelineError: the database cannot be reached.
    """
    with _kept(instance, str(patience.total_seconds())) as held:
        return held


@contextmanager
def _kept(instance: Instance, *patience: str) -> Iterator[Snapshot]:
    """Start a keeper, which inherits our stderr. The DSN is not on its command line, where other users could see it."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *patience],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, "PGQUEUE_DSN": instance.dsn, "PGQUEUE_SCHEMA": instance.schema},
    ) as process:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], STARTING.total_seconds())[0]:
            process.kill()
        answer = json.loads(
            process.stdout.readline() or '{"error": "its process did not start; see its messages on stderr"}'
        )
        if "error" in answer:
            raise PipelineError(f"no snapshot of the database could be taken: {answer['error']}")
        yield Snapshot.parse(answer["snapshot"])
