"""The process that keeps a snapshot of the database, see ``pgqueue.spark.snapshot``; it imports nothing from pgqueue.

It reads its order as a line of JSON from stdin, and writes the answer as a line of JSON to stdout.
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

#: A connection over a network that no longer responds is given up within a minute.
NOTICING = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 50_000}

#: Switches off the timeouts that would end an idle transaction. Older servers lack some of them.
UNLIMITED: LiteralString = """
select set_config(name, '0', false)
  from pg_settings
 where name in ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout', 'lock_timeout')
"""


def main() -> None:
    """Keep a snapshot until stdin ends or, with ``patience``, until nobody has read in it for that many seconds."""
    order = json.loads(sys.stdin.readline())
    patience = order["patience"]
    if patience is not None and os.fork():
        os._exit(0)  # the caller waits for this process at once, so no zombie is left
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
            print(f"pgqueue: the snapshot {name} has ended: {error}", file=sys.stderr)  # noqa: T201


def _say(answer: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


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


def _keep_until_told(keeping: psycopg.Connection[Any]) -> None:
    """Keep the snapshot until stdin ends: the process that holds the snapshot has closed it, or has died."""
    while not select.select([sys.stdin], [], [], 1)[0]:
        keeping.execute("select 1")


def _keep_while_read(
    keeping: psycopg.Connection[Any], watching: psycopg.Connection[Any], name: str, patience: float
) -> None:
    """Keep the snapshot until nobody has read in it for ``patience`` seconds."""
    last_read = time.monotonic()
    while time.monotonic() - last_read < patience:
        time.sleep(min(1, patience))
        keeping.execute("select 1")
        if _is_read(watching, name):
            last_read = time.monotonic()


def _is_read(connection: psycopg.Connection[Any], name: str) -> bool:
    """Whether a reader holds the snapshot's lock: ours, which is released at once, is then refused."""
    row = connection.execute(f"select pg_try_advisory_xact_lock({LOCK})", [name]).fetchone()
    return row is not None and not row[0]


if __name__ == "__main__":
    main()
