"""Copies Arrow batches to a staged table with COPY, in PostgreSQL's binary format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import pgpq
import psycopg
import pyarrow as pa
from pgpq.encoders import StringEncoderBuilder
from pgpq.schema import Jsonb
from psycopg import sql
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgqueue.model.columns import STAGED
from pgqueue.spark.errors import BadRowError, ColumnError


@dataclass(frozen=True)
class Column:
    """A column of a message: what Spark may give for it, the type in COPY, and what to do with another type."""

    given: type[DataType]
    copied: pa.DataType
    remedy: str


JSON = Column(StringType, pa.string(), "make it text with to_json(...)")
TEXT = Column(StringType, pa.string(), "cast it to string")

#: By the types of SQL.
TYPES = {
    "jsonb": JSON,
    "text": TEXT,
    "bytea": Column(BinaryType, pa.binary(), "cast it to binary"),
    "integer": Column(IntegralType, pa.int32(), "cast it to int"),
    "interval": Column(DayTimeIntervalType, pa.duration("us"), "cast it to interval day to second"),
    "timestamptz": Column(TimestampType, pa.timestamp("us", "UTC"), "cast it to timestamp"),
}

#: The columns of a DataFrame.
COLUMNS = {column.name: TYPES[column.type] for column in STAGED}

#: A structure with many fields is named by the first of them.
LONGEST_TYPE = 60

LINE = re.compile(r"^COPY [^,]+, \D*(\d+)", re.MULTILINE)
NO_ROWS = b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"


def message_columns(schema: StructType) -> dict[str, str]:
    """Map each column of a DataFrame to the column of a message; ``body`` may be bytes.

    Raises:
        ColumnError: a column has an unknown name or a wrong type, or there is no body.
    """
    columns: dict[str, str] = {}
    for field in schema.fields:
        name = "binary_body" if field.name == "body" and isinstance(field.dataType, BinaryType) else field.name
        if name not in COLUMNS:
            raise ColumnError(
                f"a message has no {field.name!r}: drop the column, or name it one of {', '.join(COLUMNS)}"
            )
        _check_type(COLUMNS[name], field)
        if name in columns.values():
            raise ColumnError(f"there are two columns for {name!r}: drop one of them")
        columns[field.name] = name
    if not {"body", "binary_body"} & set(columns.values()):
        raise ColumnError("there is no column 'body': a message needs one, such as to_json(struct('*')).alias('body')")
    return columns


def _check_type(column: Column, field: StructField) -> None:
    if not isinstance(field.dataType, column.given):
        given = shorten(field.dataType.simpleString().replace(",", ", "), LONGEST_TYPE, placeholder=" ...")
        raise ColumnError(f"the column {field.name!r} is {given}, which cannot be sent: {column.remedy}")


def copy(
    connection: psycopg.Connection[Any], table: str, columns: dict[str, str], batches: Iterable[pa.RecordBatch]
) -> int:
    """Copy batches into a staged table; return the number of rows.

    Raises:
        BadRowError: a value does not fit its column, such as text that is not JSON; the error names the row.
    """
    command = sql.SQL("copy pgqueue.{} ({}) from stdin (format binary)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns.values()))
    )
    rows = 0
    try:
        with connection.cursor().copy(command) as copying:
            for batch in _encoded(columns, batches):
                rows += batch[0]
                copying.write(batch[1])
    except psycopg.DataError as error:
        where = LINE.search(error.diag.context or "")
        raise BadRowError(f"row {where[1] if where else '?'}: {error.diag.message_primary}") from error
    return rows


def _encoded(columns: dict[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """The bytes for COPY, each with its number of rows."""
    encoder = None
    rows = 0
    for batch in batches:
        shaped = _shaped(batch, columns, rows)
        if encoder is None:
            encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(shaped.schema, _encoders(shaped.schema))
            yield 0, encoder.write_header()
        rows += shaped.num_rows
        yield shaped.num_rows, encoder.write_batch(shaped)
    yield 0, NO_ROWS if encoder is None else encoder.finish()


def _encoders(schema: pa.Schema) -> dict[str, Any]:
    return {
        field.name: StringEncoderBuilder.new_with_output(field, Jsonb())
        if COLUMNS[field.name] is JSON
        else pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)
        for field in schema
    }


def _shaped(batch: pa.RecordBatch, columns: dict[str, str], rows_before: int) -> pa.RecordBatch:
    """The batch with the names and types of a message's columns."""
    arrays = []
    for array, name in zip(batch.columns, columns.values(), strict=True):
        try:
            arrays.append(array.cast(COLUMNS[name].copied))
        except pa.ArrowInvalid as error:
            place = next(n for n, value in enumerate(array) if not _casts(value, COLUMNS[name].copied))
            raise BadRowError(f"row {rows_before + place + 1}: its {name} is {array[place]}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.values()))


def _casts(value: pa.Scalar, to: pa.DataType) -> bool:
    try:
        value.cast(to)
    except pa.ArrowInvalid:
        return False
    return True
