"""From a query to Arrow batches of the types that Spark expects, in a stream: memory does not grow with the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# Operators in what is read are PostgreSQL's own, whatever others have created in the schemas of the search_path.
PINNED = "set local search_path = pg_catalog, pg_temp"

# What is read here is found by its place or by an index; a plan made for stale statistics would walk the table.
BY_INDEX = ("set enable_seqscan = off", "set enable_bitmapscan = off")


def read(dsn: str, query: str, schema: StructType, before: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a query, whose columns are named and ordered as in the schema; ``before`` is said first."""
    import adbc_driver_postgresql.dbapi as adbc  # the driver's processes, which import this too, do without

    wanted = to_arrow_schema(schema, timezone="UTC")
    with adbc.connect(dsn) as connection, connection.cursor() as cursor:
        for statement in (PINNED, *before):
            cursor.execute(statement)
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            if batch.num_rows:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
