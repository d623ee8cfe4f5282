"""The input files of a pipeline: finding them, a digest that identifies them, and reading them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.readwriter import DataFrameReader

from pgqueue.spark.errors import PipelineError

PARQUET, JSON, CSV = "parquet", "json", "csv"

#: The formats by suffix; the suffix of a compression is ignored.
SUFFIXES = {
    ".parquet": PARQUET,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".csv": CSV,
}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".snappy"}

#: Columns: a line of JSON as it is in its file, and a line that could not be read.
LINE, BROKEN = "_line", "_broken"


class InputError(PipelineError):
    """Files are missing or invalid; the text names one. Nothing was sent."""


@dataclass(frozen=True)
class File:
    """A file as it was found; the time of modification is in microseconds since 1970."""

    path: str
    size: int
    modified: int


def find(spark: SparkSession, paths: Iterable[str]) -> list[File]:
    """The files that Spark reads for these paths (files, directories, patterns), ordered by path.

    Raises:
        InputError: there are none.
    """
    names = list(paths)
    listed = spark.read.format("binaryFile").load(names)
    rows = listed.select("path", "length", F.unix_micros("modificationTime")).collect()
    if not rows:
        raise InputError(f"there are no files in {', '.join(names)}")
    return sorted((File(*row) for row in rows), key=lambda file: file.path)


def digest(files: Iterable[File], *said: object) -> str:
    """A digest of files and other values, in 24 characters."""
    known = hashlib.sha256(repr((sorted((file.path, file.size, file.modified) for file in files), said)).encode())
    return known.hexdigest()[:24]


def format_of(files: Iterable[File]) -> str:
    """The format, by the suffixes of the files.

    Raises:
        InputError: the suffixes name no format, or several.
    """
    formats = {file.path: _format_of(file.path) for file in files}
    unknown = next((path for path, known in formats.items() if known is None), None)
    if unknown is not None:
        raise InputError(f"the name of {unknown} tells no format: give the format, one of parquet, json, csv")
    if len(set(formats.values())) > 1:
        raise InputError(
            f"the files are of several formats, {', '.join(sorted(map(str, set(formats.values()))))}: give one"
        )
    return str(next(iter(formats.values())))


def _format_of(path: str) -> str | None:
    name = PurePosixPath(path)
    suffix = PurePosixPath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    return SUFFIXES.get(suffix.lower())


def rows(spark: SparkSession, paths: Sequence[str], known_format: str, *, infer: bool = False) -> DataFrame:
    """Read the files; the columns come from the objects in JSON, from the header in CSV.

    Columns of CSV are text, unless ``infer`` is set. A line that cannot be read is an error.
    """
    if known_format == PARQUET:
        return spark.read.parquet(*paths)
    strict = spark.read.option("mode", "FAILFAST")
    if known_format == JSON:
        return _objects(spark, paths, strict)
    return _table(strict, infer).csv(list(paths))


def lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of JSON files, unchanged, in a column :data:`LINE`; empty lines are left out."""
    text = spark.read.text(list(paths)).where("trim(value) <> ''")
    return text.select(F.col("value").alias(LINE))


def _objects(spark: SparkSession, paths: Sequence[str], strict: DataFrameReader) -> DataFrame:
    """The columns of JSON objects, and each line unchanged: writing it as JSON again would lose nulls and digits."""
    schema = strict.json(list(paths)).schema
    if not schema.fields:
        return lines(spark, paths)
    parsed = F.from_json(LINE, schema, {"mode": "FAILFAST"})
    return lines(spark, paths).select(parsed.alias("_object"), LINE).select("_object.*", LINE)


def _table(reader: DataFrameReader, infer: bool) -> DataFrameReader:
    """A reader of CSV that reads all columns, even if few are used, so that a line with too many is detected."""
    return reader.option("header", True).option("inferSchema", infer).option("columnPruning", False)


def broken_line(spark: SparkSession, paths: Sequence[str], known_format: str) -> str | None:
    """The first line that cannot be read, with the name of its file; None if there is none."""
    if known_format == PARQUET:
        return None
    reader = spark.read.option("columnNameOfCorruptRecord", BROKEN)
    if known_format == JSON:
        marked = reader.schema(f"_nothing string, {BROKEN} string").json(list(paths))
    else:
        columns = _table(spark.read, infer=False).csv(list(paths)).schema
        marked = _table(reader, infer=False).schema(columns.add(BROKEN, "string")).csv(list(paths))
    found = marked.select("*", F.col("_metadata.file_path").alias("_file")).where(F.col(BROKEN).isNotNull()).first()
    return None if found is None else f"{found['_file']}: this line cannot be read: {found[BROKEN][:100]}"
