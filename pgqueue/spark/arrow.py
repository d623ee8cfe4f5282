"""Streams a query as Arrow batches of the types that Spark expects; memory does not grow with the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pgqueue.spark.connections import RETRIED_SECONDS, trying_again

# The queries use PostgreSQL's own operators, whatever the schemas of the caller's search_path contain.
PINNED = "set local search_path = pg_catalog, pg_temp"

# The rows are found by block or by index; with stale statistics, the planner might scan the whole table.
BY_INDEX = ("set enable_seqscan = off", "set enable_bitmapscan = off")


def read(dsn: str, query: str, schema: StructType, before: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, whose columns match the schema in name and order; ``before`` is executed first."""
    import adbc_driver_postgresql.dbapi as adbc  # only tasks need it; the driver's processes import this module too

    wanted = to_arrow_schema(schema, timezone="UTC")
    connecting = trying_again(RETRIED_SECONDS, lambda error: isinstance(error, adbc.Error))
    with connecting(adbc.connect, dsn) as connection, connection.cursor() as cursor:
        for statement in (PINNED, *before):
            cursor.execute(statement)
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            if batch.num_rows:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
