"""A program that writes and reads with more tasks at once than it may have connections.

Arguments: the DSN of a superuser, and that of a role that may have three connections. It ends after the first write if
that had another number of them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import psycopg
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql.types import StructType

import pgqueue.spark
from pgqueue.spark import limiting
from pgqueue.spark.connections import Instance, connect
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueWriter, Staged
from tests.spark import small

MOST = 3
THREADS = 8

TABLES = (
    "create table asked (partition integer); create table seen (writers integer); create table placed (pid integer)"
)

#: A writer that only asks for a place has no transaction id yet.
CONNECTED = """
insert into seen select count(*) from pg_stat_activity
 where datname = current_database() and backend_xid is not null and application_name <> 'counting'
returning writers
"""
ASK = "insert into asked values (%s)"
ASKED_AGAIN = "select count(*) from (select from asked group by partition having count(*) > 1) again"
PLACED = "insert into placed values (%s) returning (select count(*) from placed)"


class AskingWriter(QueueWriter):
    """Its tasks write down how often they ask for a place."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = TaskContext.get()
        assert task is not None, "this runs in a task"
        partition = task.partitionId()
        with psycopg.connect(self._instance.dsn, autocommit=True, application_name="counting") as connection:

            def ask(instance: Instance) -> psycopg.Connection[Any]:
                connection.execute(ASK, [partition])
                return connect(instance)

            with mock.patch.object(limiting, "connect", ask):
                return super().write(self._placed(connection, partition, iterator))

    def _placed(
        self, connection: psycopg.Connection[Any], partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class CountedWriter(AskingWriter):
    """Its tasks count those that write at the same time, until each thread has had a task that writes or asks again."""

    def _placed(
        self, connection: psycopg.Connection[Any], partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        connection.execute(ASK, [partition])  # counts as asking again
        while _number(connection, ASKED_AGAIN) < THREADS:
            time.sleep(0.02)
        _number(connection, CONNECTED)
        yield from batches


class HeldWriter(AskingWriter):
    """Its tasks write down their process; the first one keeps its place for ever."""

    def _placed(
        self, connection: psycopg.Connection[Any], partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        if connection.execute(PLACED, [os.getpid()]).fetchone() == (0,):
            threading.Event().wait()
        yield from batches


def _number(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


class CountedSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "counted"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return CountedWriter(self.options, schema, overwrite)


class HeldSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "held"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return HeldWriter(self.options, schema, overwrite)


def main(free: str, limited: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = pgqueue.spark.session(master=f"local[{THREADS},1]", config=small.CONFIGURATION)
    spark.dataSource.register(CountedSource)
    frame = spark.range(0, 1600, 1, 16).selectExpr("string(id) as body")
    options = {"queue": "q", "maxConnections": str(MOST)}
    frame.write.format("counted").options(dsn=free, **options).mode("append").save()
    with psycopg.connect(free) as connection:
        assert _number(connection, "select max(writers) from seen") == MOST
    for atomicity in ("job", "task"):
        frame.write.format("pgqueue").options(dsn=limited, atomicity=atomicity, **options).mode("append").save()
    messages = spark.read.format("pgqueue").options(dsn=limited, numPartitions=8, **options).load()
    assert messages.count() == 4800
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
