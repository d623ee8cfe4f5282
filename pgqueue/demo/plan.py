"""The parameters of a run of the demo, and the queue and the tables that it begins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgqueue import QueueClient
from pgqueue.demo import DemoError
from pgqueue.demo.flights import Source

QUEUE = "pgqueue-demo"
LOCK_DURATION = timedelta(seconds=3)
MAX_DELIVERY_COUNT = 3
SCHEMA = "pgqueue_demo"
TABLES = Path(__file__).with_suffix(".sql")

#: The marks of what the demo has created, on the schema and on the queue.
COMMENT, MARK = "Made by pgqueue demo, which drops and recreates it at each run.", {"made_by": "pgqueue demo"}
ONLY_ONE = 0x666C_6967_6874  # "flight"

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Plan:
    """The parameters of a run; the same seed makes the same disturbances, but their timing depends on the machine."""

    dsn: str = field(repr=False)
    source: Source = Source.EXTRACT
    flights: int | None = None
    workers: int = 4
    kills: int | None = None
    seed: int = 2013


def prepare(client: QueueClient, connection: Connection) -> None:
    """Create the tables and the queue; refuse to replace any that are not the demo's own."""
    if connection.execute("select pg_catalog.pg_try_advisory_lock(%s)", [ONLY_ONE]).fetchone() != (True,):
        raise DemoError("another pgqueue demo is running in this database: wait for it, or name another with --dsn")
    delete_queue(client, QUEUE, MARK)
    _create_tables(connection)
    client.create_queue(QUEUE, lock_duration=LOCK_DURATION, max_delivery_count=MAX_DELIVERY_COUNT, user_metadata=MARK)


def delete_queue(client: QueueClient, name: str, mark: dict[str, str]) -> None:
    """Delete the queue of an earlier run, if there is one; refuse to delete one without the demo's mark."""
    for queue in client.list_queues():
        if queue.name == name and queue.user_metadata != mark:
            raise DemoError(f"the queue {name} is not the demo's own: delete it, or name another database with --dsn")
        if queue.name == name:
            client.delete_queue(name)


def _create_tables(connection: Connection) -> None:
    comments = connection.execute(
        "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = %s", [SCHEMA]
    ).fetchall()
    if comments not in ([], [(COMMENT,)]):
        raise DemoError(f"the schema {SCHEMA} is not the demo's own: rename it, or name another database with --dsn")
    connection.execute(f"drop schema if exists {SCHEMA} cascade".encode())
    connection.execute(TABLES.read_bytes())
    connection.execute(sql.SQL("comment on schema {} is {}").format(sql.Identifier(SCHEMA), COMMENT))
