"""A program that writes and reads with more tasks at once than it may have connections.

Arguments: the DSN of a superuser, and that of a role that may have three connections.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

import psycopg
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StructType

import pgqueue.spark
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueWriter, Staged
from tests.spark import small

MOST = 3

#: Who only asks for a place has no transaction id yet.
CONNECTED = """
insert into seen select count(*) from pg_stat_activity
 where datname = current_database() and backend_xid is not null and pid <> pg_backend_pid()
"""
ENOUGH = "select count(*) from seen where writers >= %s"


class CountedWriter(QueueWriter):
    """Its tasks count those that write at the same time; the first ones wait for others to come."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return super().write(self._counted(iterator))

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(CONNECTED)
            while connection.execute(ENOUGH, [MOST]).fetchone() == (0,):
                time.sleep(0.02)
                connection.execute(CONNECTED)
        yield from batches


class CountedSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "counted"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return CountedWriter(self.options, schema, overwrite)


def main(free: str, limited: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = pgqueue.spark.session(master="local[8,1]", config=small.CONFIGURATION)
    spark.dataSource.register(CountedSource)
    frame = spark.range(0, 1600, 1, 16).selectExpr("string(id) as body")
    options = {"queue": "q", "maxConnections": str(MOST)}
    frame.write.format("counted").options(dsn=free, **options).mode("append").save()
    for atomicity in ("job", "task"):
        frame.write.format("pgqueue").options(dsn=limited, atomicity=atomicity, **options).mode("append").save()
    messages = spark.read.format("pgqueue").options(dsn=limited, numPartitions=8, **options).load()
    assert messages.count() == 4800
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
