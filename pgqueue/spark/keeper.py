"""The program that keeps a snapshot of the database, see ``pgqueue.spark.snapshot``; it imports nothing from pgqueue.

It answers with a line of JSON, and keeps the snapshot until stdin ends: the process that wants it has closed it, or has
died. With an argument it keeps the snapshot, in a child, until there was no reader for that many seconds.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from contextlib import closing
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql
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
    """Keep a snapshot as long as it is wanted, see above."""
    if sys.argv[1:] and os.fork():
        return  # the child keeps the snapshot, and is waited for by no process
    settings: dict[str, Any] = {**NOTICING, **conninfo_to_dict(os.environ["PGQUEUE_DSN"])}
    try:
        connection = psycopg.connect(**settings | {"application_name": "pgqueue snapshot"}, autocommit=True)
        name, moment = _export(connection)
    except psycopg.Error as error:
        _answer({"error": str(error).strip()})
        return
    _answer({"snapshot": f"{name}@{moment.isoformat()}"})
    with closing(connection):
        try:
            if sys.argv[1:]:
                _wait_while_read(connection, name, patience=float(sys.argv[1]))
            else:
                while not select.select([sys.stdin], [], [], 1)[0]:
                    connection.execute("select 1")
        except psycopg.OperationalError as error:
            print(f"pgqueue: the snapshot {name} has ended: {error}", file=sys.stderr)  # noqa: T201


def _answer(fact: dict[str, str]) -> None:
    with sys.stdout:
        sys.stdout.write(json.dumps(fact) + "\n")


def _export(connection: psycopg.Connection[Any]) -> tuple[str, datetime]:
    """Export a snapshot; first lock the history, so that no day of it is truncated before the readers have read it."""
    connection.execute(UNLIMITED)
    connection.execute("begin isolation level repeatable read, read only")
    schema = sql.Identifier(os.environ["PGQUEUE_SCHEMA"])
    connection.execute(sql.SQL("lock table {}._settled_message in access share mode").format(schema))
    row = connection.execute(sql.SQL("select pg_export_snapshot(), {}.clock()").format(schema)).fetchone()
    assert row is not None, "a select without a table has a row"
    name, moment = row
    return name, moment


def _wait_while_read(connection: psycopg.Connection[Any], name: str, patience: float) -> None:
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
