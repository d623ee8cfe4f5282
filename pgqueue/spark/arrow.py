"""Streams a query as Arrow batches of the types that Spark expects; memory does not grow with the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pgqueue.spark.connections import RETRIED_SECONDS, trying_again

# The queries use PostgreSQL's own operators, whatever the schemas of the caller's search_path contain.
PINNED = "set local search_path = pg_catalog, pg_temp"

# The rows are found by block or by index; with stale statistics, the planner might scan the whole table.
BY_INDEX = ("set enable_seqscan = off", "set enable_bitmapscan = off")


def read(dsn: str, query: str, schema: StructType, before: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, whose columns match the schema in name and order; ``before`` is executed first."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    connecting = trying_again(RETRIED_SECONDS, lambda error: isinstance(error, adbc_driver_manager.Error))
    with connecting(_connect, dsn) as connection:
        connection.set_autocommit(False)
        for statement in (PINNED, *before):
            _execute(connection, statement)
        for batch in _batches(connection, query):
            if batch.num_rows:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _connect(dsn: str) -> AdbcConnection:
    return AdbcConnection(_database(dsn))


@lru_cache(maxsize=8)
def _database(dsn: str) -> AdbcDatabase:
    """A database, whose catalogue of types ADBC reads once: that takes longer than to connect."""
    import adbc_driver_postgresql  # only tasks need it; the driver's processes import this module too

    database: AdbcDatabase = adbc_driver_postgresql.connect(dsn)
    return database


def _execute(connection: AdbcConnection, command: str) -> None:
    with AdbcStatement(connection) as statement:
        statement.set_sql_query(command)
        statement.execute_update()


def _batches(connection: AdbcConnection, query: str) -> Iterator[pa.RecordBatch]:
    with AdbcStatement(connection) as statement:
        statement.set_sql_query(query)
        stream, _ = statement.execute_query()
        with pa.RecordBatchReader.from_stream(stream) as batches:
            yield from batches
