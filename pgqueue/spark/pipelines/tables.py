"""The options with which pipelines read tables of the database: each read names its columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)


def of_table(
    reader: Reader, table: str, dsn: str, queue: str | None, columns: Iterable[str] = (), **options: str
) -> Reader:
    """A reader of the columns of a table, by default all of them, in one queue, or in all if it is None."""
    named = ",".join(columns) or "*"
    reader = reader.format("pgqueue").options(dsn=dsn, table=table, columns=named, **options)
    return reader if queue is None else reader.option("queue", queue)
