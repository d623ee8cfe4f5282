"""The process that keeps a snapshot of the database, see ``pgqueue.spark.snapshot``; it imports nothing from pgqueue.

As a program it reads the DSN as a line of JSON from stdin, and keeps the snapshot until stdin ends. As a grandchild,
see ``fork``, it keeps the snapshot while it is read. Either answers with a line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import select
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, LiteralString, NoReturn, TextIO

import psycopg
from psycopg.conninfo import conninfo_to_dict

#: The key of the advisory lock that stands for a snapshot.
LOCK: LiteralString = "pg_catalog.hashtextextended('pgqueue snapshot ' || %s, 0)"

#: A connection over a network that no longer responds is given up within a minute.
NOTICING = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 50_000}

#: Switches off the timeouts that would end an idle transaction. Older servers lack some of them.
UNLIMITED: LiteralString = """
select set_config(name, '0', false)
  from pg_settings
 where name in ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout', 'lock_timeout')
"""


def main() -> None:
    """Keep a snapshot until stdin ends: the process that wants it has closed it, or has died."""
    dsn = json.loads(sys.stdin.readline())
    with _exported(dsn, sys.stdout) as (connection, _):
        while not select.select([sys.stdin], [], [], 1)[0]:
            connection.execute("select 1")


def fork(dsn: str, patience: float) -> TextIO:
    """Keep a snapshot in a grandchild until there was no reader for ``patience`` seconds; return its answer.

    A program of its own would take several times as long to start as the snapshot takes.
    """
    reading, writing = os.pipe()
    child = _fork()
    if child == 0:
        _leave(writing, lambda: _keep_while_read(dsn, patience, os.fdopen(writing, "w")))
    os.close(writing)
    os.waitpid(child, 0)
    return os.fdopen(reading)


def _leave(kept: int, work: Callable[[], None]) -> NoReturn:
    """Do some work in a child of this process, without its files except stderr and ``kept``, or its clean-up."""
    try:
        gc.disable()  # collecting a connection of the parent would write to a file that is no longer that connection
        os.setsid()
        if _fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1):
                os.dup2(nothing, standard)
            os.closerange(3, kept)
            os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
            work()
    except Exception:  # noqa: BLE001 - whatever it is, the parent's code must not go on here
        traceback.print_exc()
    finally:
        os._exit(0)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child needs none of the parent's threads
        return os.fork()


@contextmanager
def _exported(dsn: str, answer: TextIO) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A connection that holds a snapshot, and the snapshot's name; ``answer`` gets the name, or the error."""
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(_connected(dsn))
            name, moment = _export(connection)
        except psycopg.Error as error:
            _say(answer, {"error": str(error).strip()})
            sys.exit()
        _say(answer, {"snapshot": f"{name}@{moment.isoformat()}"})
        try:
            yield connection, name
        except psycopg.OperationalError as error:
            print(f"pgqueue: the snapshot {name} has ended: {error}", file=sys.stderr)  # noqa: T201


def _say(answer: TextIO, fact: dict[str, str]) -> None:
    with answer:
        answer.write(json.dumps(fact) + "\n")


@contextmanager
def _connected(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection; closing it raises nothing, even if the server has gone."""
    settings: dict[str, Any] = {**NOTICING, **conninfo_to_dict(dsn), "application_name": "pgqueue snapshot"}
    connection = psycopg.connect(**settings, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def _export(connection: psycopg.Connection[Any]) -> tuple[str, datetime]:
    """Export a snapshot; first lock the history, so that no day of it is truncated before the readers have read it."""
    connection.execute(UNLIMITED)
    connection.execute("begin isolation level repeatable read, read only")
    connection.execute("lock table pgqueue._settled_message in access share mode")
    row = connection.execute("select pg_export_snapshot(), pgqueue.clock()").fetchone()
    assert row is not None, "a select without a table has a row"
    name, moment = row
    return name, moment


def _keep_while_read(dsn: str, patience: float, answer: TextIO) -> None:
    with _exported(dsn, answer) as (connection, name):
        last_read = time.monotonic()
        while time.monotonic() - last_read < patience:
            time.sleep(min(1, patience))
            if _is_read(connection, name):
                last_read = time.monotonic()


def _is_read(connection: psycopg.Connection[Any], name: str) -> bool:
    """Whether a reader holds the snapshot's lock: ours is then refused; otherwise it is released at once."""
    free = f"select case when pg_try_advisory_lock({LOCK}) then pg_advisory_unlock({LOCK}) end"
    row = connection.execute(free, [name, name]).fetchone()
    return row is not None and not row[0]


if __name__ == "__main__":
    main()
