"""``python -m benchmarks.browsing``: how long people wait for the first page of a view, and for the counts."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from benchmarks.arguments import whole
from benchmarks.browsing.filling import fill
from benchmarks.report import load, machine
from benchmarks.server import running, version
from pgqueue import schema

VIEWS = (
    "messages",
    "dead_letters",
    "deferred_messages",
    "scheduled_messages",
    "locked_messages",
    "expired_locks",
    "delivery_log",
    "history",
    "notifications",
    "consumers",
)
COUNTS = (
    "select * from pgqueue.queues",
    "select * from pgqueue.queue_counts('queue-4')",
    "select * from pgqueue.queue_counts('large')",
    "select * from pgqueue.queue_counts()",
    "select * from pgqueue.locked_messages",
    "select * from pgqueue.broken_invariants()",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browsing", description=__doc__)
    parser.add_argument("--queues", type=whole, default=10_000)
    parser.add_argument("--messages", type=whole, default=5_000_000)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    busy = load()
    with running() as server:
        schema.migrate(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            fill(connection, options.queues, options.messages)
            conditions = f"{machine()}, PostgreSQL {version(server)}, {options.queues:,} queues, {busy}"
            lines = [f"| `{query}` | {milliseconds:,.1f} |" for query, milliseconds in measured(connection)]
    head = f"{conditions}; {options.messages:,} messages, a fifth of them in one queue\n\n| | ms |\n| --- | ---: |\n"
    text = head + "\n".join(lines)
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# Browsing\n\n`python -m benchmarks.browsing`\n\n{text}\n")


def measured(connection: psycopg.Connection) -> Iterator[tuple[str, float]]:
    """Each query, and the median of three runs after a first one."""
    pages = [f"select * from pgqueue.{view} limit 10" for view in VIEWS]
    pages += [f"select * from pgqueue.{view} where queue = 'large' limit 10" for view in VIEWS]
    for query in (*pages, *COUNTS):
        rounds = [_milliseconds(connection, query) for _ in range(4)]
        yield query, statistics.median(rounds[1:])


def _milliseconds(connection: psycopg.Connection, query: str) -> float:
    began = time.perf_counter()
    connection.execute(query.encode()).fetchall()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
