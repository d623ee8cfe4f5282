"""The business tables of the demo: flights, and a ledger of delays. Plain SQL, independent of queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from pgqueue.demo import DemoError
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
insert into pgqueue_demo.posting (flight_id, delivery_count, consumer)
select id, delivery_count, %(consumer)s
  from jsonb_to_recordset(%(flights)s) as flight (id integer, delivery_count integer)
"""

ADD_UP = """
insert into pgqueue_demo.ledger as ledger (airport, carrier, flights, cancelled, late, minutes)
select origin, carrier, count(*), count(*) filter (where delay is null), count(*) filter (where delay > 0),
       coalesce(sum(delay) filter (where delay > 0), 0)
  from jsonb_to_recordset(%s) as flight (carrier text, origin text, delay integer)
 group by origin, carrier
 order by origin, carrier                -- all consumers use the same order, so that no deadlock arises
    on conflict (airport, carrier) do update
   set flights   = ledger.flights   + excluded.flights,
       cancelled = ledger.cancelled + excluded.cancelled,
       late      = ledger.late      + excluded.late,
       minutes   = ledger.minutes   + excluded.minutes
"""


class NotOurs(DemoError):
    """The database contains something that has a name the demo needs, and that the demo did not create."""


@dataclass(frozen=True)
class Posting:
    """A flight to post, and the delivery count of its message."""

    flight: Flight
    delivery_count: int


def open_books(connection: Connection) -> None:
    """Create the tables, after dropping those of an earlier run of the demo."""
    row = connection.execute(
        "select pg_catalog.obj_description(to_regnamespace(%s), 'pg_namespace')", [SCHEMA]
    ).fetchone()
    exists = connection.execute("select to_regnamespace(%s) is not null", [SCHEMA]).fetchone()
    if exists == (True,) and row != (MARK,):
        raise NotOurs(f"the schema {SCHEMA} is not the demo's own: rename it, or name another database with --dsn")
    schema = sql.Identifier(SCHEMA)
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(schema))
    connection.execute(TABLES.read_bytes())
    connection.execute(sql.SQL("comment on schema {} is {}").format(schema, MARK))


def record(connection: Connection, flights: Sequence[Flight]) -> None:
    """Insert the rows of flights."""
    connection.execute(RECORD, [Jsonb([asdict(flight) for flight in flights])])


def post(connection: Connection, consumer: str, postings: Sequence[Posting]) -> None:
    """Record that these flights are processed, by which consumer and at which delivery."""
    rows = [{"id": posting.flight.id, "delivery_count": posting.delivery_count} for posting in postings]
    connection.execute(POST, {"flights": Jsonb(rows), "consumer": consumer})


def add_up(connection: Connection, postings: Sequence[Posting]) -> None:
    """Add flights to the ledger."""
    connection.execute(ADD_UP, [Jsonb([asdict(posting.flight) for posting in postings])])


def note_retries(connection: Connection, consumer: str, causes: Sequence[str]) -> None:
    """Record the attempts that were aborted before this one."""
    insert = "insert into pgqueue_demo.retry (consumer, cause) select %s, unnest(%s::text[])"
    connection.execute(insert, [consumer, list(causes)])


def note_kill(connection: Connection, consumer: str, transaction_id: str) -> None:
    """Record that a consumer was killed in the middle of this transaction."""
    connection.execute("insert into pgqueue_demo.kill values (%s, %s)", [consumer, transaction_id])
