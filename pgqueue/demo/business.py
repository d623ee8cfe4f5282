"""The business tables of the demo: flights, and a ledger of delays. Plain SQL, independent of queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from pgqueue.demo import NotOurs
from pgqueue.demo.flights import Flight

SCHEMA = "pgqueue_demo"
TABLES = Path(__file__).with_suffix(".sql")
MARK = "Made by pgqueue demo, which drops and recreates it at each run."

Connection = psycopg.Connection[Any]

RECORD = """
insert into pgqueue_demo.flight (id, scheduled, carrier, number, origin, destination, delay)
select *
  from jsonb_to_recordset(%s) as flight (
       id integer, scheduled timestamp, carrier text, number integer, origin text, destination text, delay integer)
"""

POST = """
with posting as (
    insert into pgqueue_demo.posting (flight_id, delivery_count, worker)
    values (%(id)s, %(delivery_count)s, %(worker)s))
insert into pgqueue_demo.ledger as ledger (airport, carrier, flights, cancelled, late, minutes)
select %(origin)s, %(carrier)s, 1, (%(delay)s::int is null)::int, coalesce(%(delay)s > 0, false)::int,
       greatest(coalesce(%(delay)s, 0), 0)
    on conflict (airport, carrier) do update
   set flights   = ledger.flights   + excluded.flights,
       cancelled = ledger.cancelled + excluded.cancelled,
       late      = ledger.late      + excluded.late,
       minutes   = ledger.minutes   + excluded.minutes
"""


def open_books(connection: Connection) -> None:
    """Create the tables, after dropping those of an earlier run of the demo."""
    exists, comment = connection.execute(
        "select to_regnamespace(%(schema)s) is not null, obj_description(to_regnamespace(%(schema)s), 'pg_namespace')",
        {"schema": SCHEMA},
    ).fetchone() or (False, None)
    if exists and comment != MARK:
        raise NotOurs(f"the schema {SCHEMA} is not the demo's own: rename it, or name another database with --dsn")
    schema = sql.Identifier(SCHEMA)
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(schema))
    connection.execute(TABLES.read_bytes())
    connection.execute(sql.SQL("comment on schema {} is {}").format(schema, MARK))


def record(connection: Connection, flights: Sequence[Flight]) -> None:
    """Insert the rows of flights."""
    connection.execute(RECORD, [Jsonb([asdict(flight) for flight in flights])])


def post(connection: Connection, worker: str, flight: Flight, delivery_count: int) -> None:
    """Add a flight to the ledger, and record which worker did so, at which delivery."""
    connection.execute(POST, {**asdict(flight), "delivery_count": delivery_count, "worker": worker})


def note_retry(connection: Connection, worker: str, cause: str) -> None:
    """Record that an attempt was aborted before this one."""
    connection.execute("insert into pgqueue_demo.retry (worker, cause) values (%s, %s)", [worker, cause])
