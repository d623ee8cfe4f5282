"""Reads messages into a DataFrame, in one snapshot: nothing is locked, received or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import adbc_driver_manager as adbc
import psycopg
import pyarrow as pa
from psycopg.conninfo import make_conninfo
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pgqueue.spark import arrow, relations
from pgqueue.spark.connections import first_row, looking
from pgqueue.spark.errors import OptionError, SnapshotOverError
from pgqueue.spark.keeper import LOCK
from pgqueue.spark.options import Options
from pgqueue.spark.relations import Relation, Stretch
from pgqueue.spark.snapshot import Snapshot, take

OPTIONS = ("queue", "subscribe", "table", "columns", "numPartitions", "maxConnections", "snapshot", "snapshotSeconds")

PARTITION_SIZE = 128 * 2**20
MOST_PARTITIONS = 64

#: PostgreSQL's SQLSTATEs for a missing snapshot: unknown, an invalid name, or its transaction has ended.
JOIN = "set transaction snapshot"
SNAPSHOT_OVER = {"42704", "22023", "55000"}

BLOCKS = """
select pg_catalog.pg_relation_size(oid) / current_setting('block_size')::integer,
       substring(relname from '_(\\d\\d)$')::integer
  from pg_class
 where relkind = 'r' and (oid = to_regclass('pgqueue.' || %(name)s)::oid or oid in (
       select inhrelid from pg_inherits where inhparent = to_regclass('pgqueue.' || %(name)s)::oid))
 order by relname
"""

#: Asked first, so that a role without the right gets its error at once, and not from a task.
CHECK = "select pgqueue._check_reader()"  # first, for its error names the remedy
QUEUE = "select id from pgqueue._queue where name = %s"


@dataclass
class Part(InputPartition):
    """The part of one task: a select, and the snapshot that it shares with other tasks, if there is one."""

    statement: str
    snapshot: str | None = None


class QueueReader(DataSourceReader):
    """One of the tables of ``relations``, in parts that all see the same snapshot of the database.

    Options: ``queue``, by default all queues; ``table``, by default ``messages``; ``columns``, by commas, or ``*``;
    ``numPartitions``, by default one for each 128 MB of the table, but no more than 64; ``maxConnections``, of all
    partitions and the keeper of their snapshot; ``snapshot``, from ``pgqueue.spark.snapshot()``; ``snapshotSeconds``,
    how long a snapshot of our own is kept without being read.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        read = Options(options, OPTIONS)
        self._instance = read.instance
        self._queue = read.text("queue")
        self._relation = relations.chosen(read)
        relations.check(self._relation, schema)
        self._schema = schema
        self._wanted = read.number("numPartitions")
        self._patience = read.seconds("snapshotSeconds", 60)
        held = read.text("snapshot")
        self._held = Snapshot.parse(held) if held else None
        connections = read.number("maxConnections")
        self._most = max(1, connections - (self._held is None)) if connections else None  # the keeper needs one

    def partitions(self) -> list[Part]:
        with looking(self._instance) as connection:
            conditions = of_queue(connection, self._queue)
            cuts = cut(stretches(connection, self._relation), self._wanted, self._most)
            shared = self._held
            if len(cuts) > 1 and shared is None:
                shared = take(self._instance, self._patience)
                cuts = cut(
                    stretches(connection, self._relation), self._wanted, self._most
                )  # has all that the snapshot sees
            moment = (shared.moment if shared else None) or clock(connection)
        name = shared.name if shared else None
        return [Part(self._statement(moment, conditions, each if len(cuts) > 1 else ()), name) for each in cuts]

    def _statement(self, moment: datetime, conditions: Sequence[str], places: Sequence[Stretch]) -> str:
        return relations.statement(
            self._relation, self._schema.names, moment, conditions, places, schema=self._instance.schema
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part), "we are given what we have planned"
        return batches(self._instance.dsn, partition, self._schema)


def batches(dsn: str, part: Part, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as they arrive.

    Raises:
        SnapshotOverError: the snapshot of the part has ended.
    """
    utf8 = make_conninfo(dsn, client_encoding="utf8")
    try:
        yield from arrow.read(utf8, part.statement, schema, before=_joining(part.snapshot) if part.snapshot else ())
    except adbc.Error as error:
        if error.sqlstate not in SNAPSHOT_OVER or JOIN not in str(error):
            raise
        raise SnapshotOverError(
            f"the snapshot {part.snapshot} of the database has ended: load the DataFrame again; cache() it if it is "
            "used more than once; or hold a snapshot while you need it, with pgqueue.spark.snapshot(), and pass it in "
            "option('snapshot', ...)"
        ) from error


def _joining(name: str) -> list[str]:
    """Statements that join a snapshot, and take the lock by which its keeper sees the reader."""
    key = LOCK % relations.literal(name)
    return [
        "set transaction isolation level repeatable read, read only",
        f"{JOIN} {relations.literal(name)}",
        f"do $$ begin perform pg_advisory_xact_lock_shared({key}); end $$",
    ]


def of_queue(connection: psycopg.Connection[Any], queue: str | None) -> list[str]:
    """The condition that rows belong to a queue; none for all queues.

    Raises:
        OptionError: there is no such queue.
        psycopg.errors.InsufficientPrivilege: the role of the DSN may not receive from every queue.
    """
    connection.execute(CHECK)
    if queue is None:
        return []
    row = connection.execute(QUEUE, [queue]).fetchone()
    if row is None:
        raise OptionError(f"there is no queue {queue!r} in this database; leave the option out to read all queues")
    return [f"kept.queue_id = {row[0]}"]


def clock(connection: psycopg.Connection[Any]) -> datetime:
    """The time by the database's clock."""
    moment: datetime
    (moment,) = first_row(connection, "select pgqueue.clock()")
    return moment


def stretches(connection: psycopg.Connection[Any], relation: Relation) -> list[Stretch]:
    """The tables of a relation, each from its first block to its last; empty ones are left out."""
    rows = connection.execute(BLOCKS, {"name": relation.base}).fetchall()
    return [Stretch(0, blocks, slot if relation.in_days else None) for blocks, slot in rows if blocks]


def cut(whole: Sequence[Stretch], wanted: int | None, most: int | None = None) -> list[list[Stretch]]:
    """Cut the stretches into equal parts: as many as wanted or possible, at least one, and no more than ``most``."""
    blocks = sum(stretch.end for stretch in whole)
    wanted = wanted or min(-(-blocks * 8192 // PARTITION_SIZE), MOST_PARTITIONS)
    count = max(1, min(wanted, blocks, most or wanted))
    return [_between(whole, blocks * n // count, blocks * (n + 1) // count) for n in range(count)]


def _between(whole: Sequence[Stretch], first: int, end: int) -> list[Stretch]:
    """The blocks from ``first`` up to but not including ``end``, numbered consecutively through all tables."""
    found, before = [], 0
    for stretch in whole:
        low, high = max(first - before, 0), min(end - before, stretch.end)
        if low < high:
            found.append(Stretch(low, high, stretch.slot))
        before += stretch.end
    return found
