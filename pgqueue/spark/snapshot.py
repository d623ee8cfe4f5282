"""One snapshot of the database for all who read a DataFrame, kept by a process of its own.

A message that is claimed moves to another place in its table: who read one part of the table before, and another part
after, would see it twice or not at all. So all parts are read in one snapshot, which lasts for as long as the
transaction that has exported it. Spark plans a read in a process that ends before the parts are read, so the keeper
is started there and outlives it: it holds the transaction, and ends by itself when nobody has read for a while. Who
reads holds a shared advisory lock named after the snapshot, and the keeper looks for that.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgqueue.spark.errors import OptionError, PipelineError
from pgqueue.spark.options import Options

PROGRAM = "from pgqueue.spark.snapshot import main; main()"
STARTING = timedelta(seconds=60)

#: The key of the advisory lock that stands for a snapshot.
LOCK: LiteralString = "hashtextextended('pgqueue snapshot ' || %s, 0)"

#: A connection over a network that has gone silent is given up within a minute.
NOTICING = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 50_000}

#: What would end a transaction that does nothing. Some are unknown to older servers.
UNLIMITED: LiteralString = """
select set_config(name, '0', false)
  from pg_settings
 where name in ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout', 'lock_timeout')
"""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot by the name that PostgreSQL gave it, and the time by which it is read; null for one of strangers."""

    name: str
    moment: datetime | None = None

    def __str__(self) -> str:
        return f"{self.name}@{self.moment.isoformat()}" if self.moment else self.name

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """The reverse of ``str``; also takes what ``pg_export_snapshot()`` returns.

        Raises
        ------
        OptionError
            What follows the name is no time.
        """
        name, _, moment = text.partition("@")
        try:
            return cls(name, datetime.fromisoformat(moment) if moment else None)
        except ValueError as error:
            raise OptionError(f"the option 'snapshot' is what pgqueue.spark.snapshot() gives, not {text!r}") from error


@contextmanager
def snapshot(dsn: str | None = None) -> Iterator[str]:
    """Hold one snapshot for several DataFrames: the value for ``option("snapshot", ...)``, good until the block ends.

    What is read in it is how the database was at one moment, the states of messages included. While it is held, rows
    that others delete or change cannot be cleaned up: hold it for minutes rather than for hours.

    Parameters
    ----------
    dsn
        The database, as in ``option("dsn", ...)``; ``PGQUEUE_DSN`` when nothing is said.

    Raises
    ------
    OptionError
        No database was named.
    PipelineError
        The database cannot be reached, or has no queues.
    """
    keeper = _launch(Options({"dsn": dsn} if dsn else {}, ()).dsn, None)
    try:
        yield str(_answer(keeper))
    finally:
        _close(keeper)


def take(dsn: str, patience: timedelta) -> Snapshot:
    """A new snapshot, kept until nobody has read in it for ``patience``.

    Raises
    ------
    PipelineError
        The database cannot be reached.
    """
    keeper = _launch(dsn, patience)
    try:
        return _answer(keeper)
    finally:
        _close(keeper)


def _launch(dsn: str, patience: timedelta | None) -> subprocess.Popen[str]:
    """Starts a keeper; what it says on stderr goes where we say things. Other users of the machine see no DSN."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    keeper = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert keeper.stdin is not None
    order = {"dsn": dsn, "patience": patience and patience.total_seconds()}
    try:
        keeper.stdin.write(json.dumps(order) + "\n")
        keeper.stdin.flush()
    except BrokenPipeError:
        pass  # it has ended, so it will not answer either, and that is what is reported
    return keeper


def _answer(keeper: subprocess.Popen[str]) -> Snapshot:
    assert keeper.stdout is not None
    ready, _, _ = select.select([keeper.stdout], [], [], STARTING.total_seconds())
    line = keeper.stdout.readline() if ready else ""
    answer = json.loads(line or '{"error": "its process did not start; what it has said is on stderr"}')
    if "error" in answer:
        raise PipelineError(f"no snapshot of the database could be taken: {answer['error']}")
    return Snapshot.parse(answer["snapshot"])


def _close(keeper: subprocess.Popen[str]) -> None:
    """A keeper that was told to stay has left its first process by now; another one ends because its input has."""
    for pipe in (keeper.stdin, keeper.stdout):
        assert pipe is not None
        pipe.close()
    try:
        keeper.wait(STARTING.total_seconds())
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


def main() -> None:
    """The keeper: is told what to do by a line on stdin, answers with a line on stdout."""
    order = json.loads(sys.stdin.readline())
    patience = order["patience"]
    if patience is not None and os.fork():
        os._exit(0)  # whoever waits for this process does so now, and is not left with a zombie
    with ExitStack() as stack:
        try:
            keeping, watching = (stack.enter_context(_connected(order["dsn"])) for _ in range(2))
            kept = _export(keeping)
        except psycopg.Error as error:
            _say({"error": str(error).strip()})
            return
        _say({"snapshot": str(kept)})
        try:
            if patience is None:
                _keep_until_told(keeping)
            else:
                _keep_while_read(keeping, watching, kept, patience)
        except psycopg.OperationalError as error:
            print(f"pgqueue: the snapshot {kept.name} is over: {error}", file=sys.stderr)  # noqa: T201


def _say(answer: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


@contextmanager
def _connected(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection, closed without a word: the server may be gone."""
    settings: dict[str, Any] = {**NOTICING, **conninfo_to_dict(dsn), "application_name": "pgqueue snapshot"}
    connection = psycopg.connect(**settings, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def _export(connection: psycopg.Connection[Any]) -> Snapshot:
    """The lock comes before the snapshot: a day of history emptied in between would be missed by all who read."""
    connection.execute(UNLIMITED)
    connection.execute("begin isolation level repeatable read, read only")
    connection.execute("lock table pgqueue.settled_message in access share mode")
    row = connection.execute("select pg_export_snapshot(), pgqueue.clock()").fetchone()
    assert row is not None, "a select without a table has a row"
    return Snapshot(*row)


def _keep_until_told(keeping: psycopg.Connection[Any]) -> None:
    """Our input ends when who holds the snapshot lets go of it, or is no more."""
    while not select.select([sys.stdin], [], [], 1)[0]:
        keeping.execute("select 1")


def _keep_while_read(
    keeping: psycopg.Connection[Any], watching: psycopg.Connection[Any], kept: Snapshot, patience: float
) -> None:
    """Until nobody has read for as many seconds as ``patience`` is."""
    last_read = time.monotonic()
    while time.monotonic() - last_read < patience:
        time.sleep(min(1, patience))
        keeping.execute("select 1")
        if _is_read(watching, kept):
            last_read = time.monotonic()


def _is_read(connection: psycopg.Connection[Any], kept: Snapshot) -> bool:
    """Somebody else's lock is in the way of ours, which is let go of at once."""
    row = connection.execute(f"select pg_try_advisory_xact_lock({LOCK})", [kept.name]).fetchone()
    return row is not None and not row[0]


if __name__ == "__main__":
    main()
