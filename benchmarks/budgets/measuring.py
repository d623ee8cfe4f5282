"""Measures a call of each verb, on a server and a clock that nothing else moves."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

import pgqueue
from benchmarks.budgets.budget import Table, versions
from benchmarks.budgets.verbs import VERBS, Call, Connection, Place
from benchmarks.server import running, version
from pgqueue import QueueClient, schema
from pgqueue.testing.server import ThrowawayServer

#: Nothing writes beside the verbs, and no page is written whole.
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "track_functions": "all",
    "autovacuum": "off",
    "full_page_writes": "off",
    "max_parallel_workers_per_gather": "0",
}

#: Turns and refreshed cursors would come by the second.
STAND_STILL = """
create or replace function pgqueue.clock()
returns timestamptz
language sql volatile parallel safe
as $$ select timestamptz '2030-01-01 00:00+00' $$
"""

STATEMENTS = """
select sum(calls),
       sum(shared_blks_hit + shared_blks_read) filter (where toplevel),
       sum(shared_blks_dirtied) filter (where toplevel),
       sum(wal_bytes) filter (where toplevel)
  from pg_stat_statements
 where query not like '%pg_stat_%'
"""
FUNCTIONS = """
select coalesce(sum(calls), 0), coalesce(sum(calls * cardinality(proconfig)), 0)
  from pg_stat_user_functions
  join pg_proc on pg_proc.oid = funcid
"""
MEMORY = "select count(*), sum(total_bytes) / 1024.0 from pg_backend_memory_contexts"

WARMING, COUNTED, THOUSAND, LOOKED_AT = 100, 200, 1000, 20
PACKAGE = str(Path(pgqueue.__file__).parent)

Figures = Mapping[str, float]
Prepare = Callable[[Place, int], Iterator[Call]]


@dataclass(frozen=True)
class Measured:
    """The figures of each verb, and the versions that they are of."""

    table: Table
    versions: str


def measure(only: str = "", verbs: Mapping[str, Prepare] = VERBS) -> Measured:
    """Measure the verbs with this in their name."""
    with running(SETTINGS) as server:
        return Measured(
            {verb: _figures(server, prepare) for verb, prepare in verbs.items() if only in verb},
            versions(version(server)),
        )


def _figures(server: ThrowawayServer, prepare: Prepare) -> Figures:
    with _database(server) as dsn:
        return {**_server_side(dsn, prepare), **_client_side(dsn, prepare)}


@contextmanager
def _database(server: ThrowawayServer) -> Iterator[str]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database budgets")
    schema.migrate(server.dsn("budgets"))
    with psycopg.connect(server.dsn("budgets"), autocommit=True) as connection:
        connection.execute("create extension pg_stat_statements")
        connection.execute(STAND_STILL)
    with _place(server.dsn("budgets")) as place:
        place.set_up()
    yield server.dsn("budgets")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("drop database budgets")


@contextmanager
def _place(dsn: str) -> Iterator[Place]:
    """A backend of its own."""
    pool: ConnectionPool[Connection] = ConnectionPool(dsn, min_size=1, max_size=1, open=True)
    with pool, QueueClient(pool) as client:
        yield Place(client, pool)


def _server_side(dsn: str, prepare: Prepare) -> Figures:
    with _place(dsn) as place, psycopg.connect(dsn, autocommit=True) as onlooker:
        calls = prepare(place, WARMING + COUNTED)
        _call(calls, WARMING)
        _report(place)
        onlooker.execute("select pg_stat_statements_reset()")
        before = _row(onlooker, FUNCTIONS)
        _call(calls, COUNTED)
        statements = _row(onlooker, STATEMENTS)
        _report(place)
        functions = [after - earlier for after, earlier in zip(_row(onlooker, FUNCTIONS), before, strict=True)]
    with _place(dsn) as place:
        _call(prepare(place, THOUSAND), THOUSAND)
        with place.pool.connection() as connection:
            contexts, kilobytes = _row(connection, MEMORY)
    names = ("statements", "buffers", "dirtied", "WAL bytes", "functions", "settings")
    figures = dict(zip(names, (each / COUNTED for each in (*statements, *functions)), strict=True))
    return {**figures, "contexts": contexts, "backend kB": kilobytes}


def _report(place: Place) -> None:
    """The backend reports which functions it has called."""
    place.transact(lambda connection: connection.execute("select pg_stat_force_next_flush()"))


def _row(connection: Connection, query: str) -> list[float]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return [float(value) for value in row]


def _call(calls: Iterator[Call], times: int) -> None:
    for _ in range(times):
        next(calls)()


def _client_side(dsn: str, prepare: Prepare) -> Figures:
    with _place(dsn) as place:
        calls = prepare(place, WARMING + 2 * LOOKED_AT)
        _call(calls, WARMING)
        bytecodes = [_bytecodes(next(calls)) for _ in range(LOOKED_AT)]
        tracemalloc.start()
        allocated = [_allocated(next(calls)) for _ in range(LOOKED_AT)]
        tracemalloc.stop()
    return {"bytecodes": median(bytecodes), "allocated kB": median(allocated) / 1024}


def _bytecodes(call: Call) -> int:
    """Those of pgqueue itself."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            count += 1
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(earlier)
    return count


def _allocated(call: Call) -> int:
    """The memory in use at its highest, beyond what was in use before."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    call()
    return tracemalloc.get_traced_memory()[1] - before
