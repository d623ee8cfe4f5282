"""The process that keeps a snapshot of the database, see ``pgqueue.spark.snapshot``; it needs nothing of the package.

It is told what to do by a line of JSON on stdin, and answers with another on stdout.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

#: The key of the advisory lock that stands for a snapshot.
LOCK: LiteralString = "pg_catalog.hashtextextended('pgqueue snapshot ' || %s, 0)"

#: A connection over a network that has gone silent is given up within a minute.
NOTICING = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 50_000}

#: What would end a transaction that does nothing. Some are unknown to older servers.
UNLIMITED: LiteralString = """
select set_config(name, '0', false)
  from pg_settings
 where name in ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout', 'lock_timeout')
"""


def main() -> None:
    """Keeps a snapshot until its input ends or, told of ``patience``, until nobody has read for so many seconds."""
    order = json.loads(sys.stdin.readline())
    patience = order["patience"]
    if patience is not None and os.fork():
        os._exit(0)  # whoever waits for this process does so now, and is not left with a zombie
    with ExitStack() as stack:
        try:
            keeping, watching = (stack.enter_context(_connected(order["dsn"])) for _ in range(2))
            name, moment = _export(keeping)
        except psycopg.Error as error:
            _say({"error": str(error).strip()})
            return
        _say({"snapshot": f"{name}@{moment.isoformat()}"})
        try:
            if patience is None:
                _keep_until_told(keeping)
            else:
                _keep_while_read(keeping, watching, name, patience)
        except psycopg.OperationalError as error:
            print(f"pgqueue: the snapshot {name} is over: {error}", file=sys.stderr)  # noqa: T201


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


def _export(connection: psycopg.Connection[Any]) -> tuple[str, datetime]:
    """The lock comes before the snapshot: a day of history emptied in between would be missed by all who read."""
    connection.execute(UNLIMITED)
    connection.execute("begin isolation level repeatable read, read only")
    connection.execute("lock table pgqueue.settled_message in access share mode")
    row = connection.execute("select pg_export_snapshot(), pgqueue.clock()").fetchone()
    assert row is not None, "a select without a table has a row"
    name, moment = row
    return name, moment


def _keep_until_told(keeping: psycopg.Connection[Any]) -> None:
    """Our input ends when who holds the snapshot lets go of it, or is no more."""
    while not select.select([sys.stdin], [], [], 1)[0]:
        keeping.execute("select 1")


def _keep_while_read(
    keeping: psycopg.Connection[Any], watching: psycopg.Connection[Any], name: str, patience: float
) -> None:
    """Until nobody has read for as many seconds as ``patience`` is."""
    last_read = time.monotonic()
    while time.monotonic() - last_read < patience:
        time.sleep(min(1, patience))
        keeping.execute("select 1")
        if _is_read(watching, name):
            last_read = time.monotonic()


def _is_read(connection: psycopg.Connection[Any], name: str) -> bool:
    """Somebody else's lock is in the way of ours, which is let go of at once."""
    row = connection.execute(f"select pg_try_advisory_xact_lock({LOCK})", [name]).fetchone()
    return row is not None and not row[0]


if __name__ == "__main__":
    main()
