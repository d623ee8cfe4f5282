"""The files that a pipeline reads: which there are, a digest that tells them from others, and what is in them."""

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

#: By which suffix a format is known, one that says how a file is compressed aside.
SUFFIXES = {
    ".parquet": PARQUET,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".csv": CSV,
}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".snappy"}

#: A line of JSON as it stands in its file, and what could not be understood.
LINE, BROKEN = "_line", "_broken"


class InputError(PipelineError):
    """The files are not there, or not what they should be; the text names one. Nothing was sent."""


@dataclass(frozen=True)
class File:
    """One file as it was found: when it was modified is in microseconds since 1970."""

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
    """The same for the same files and the same words, else another; 24 characters."""
    known = hashlib.sha256(repr((sorted((file.path, file.size, file.modified) for file in files), said)).encode())
    return known.hexdigest()[:24]


def format_of(files: Iterable[File]) -> str:
    """The format that the suffixes of the files tell.

    Raises:
        InputError: they tell none, or several.
    """
    formats = {file.path: _format_of(file.path) for file in files}
    unknown = next((path for path, known in formats.items() if known is None), None)
    if unknown is not None:
        raise InputError(f"what {unknown} holds its name does not say: say the format, one of parquet, json, csv")
    if len(set(formats.values())) > 1:
        raise InputError(
            f"the files are of several formats, {', '.join(sorted(map(str, set(formats.values()))))}: say one"
        )
    return str(next(iter(formats.values())))


def _format_of(path: str) -> str | None:
    name = PurePosixPath(path)
    suffix = PurePosixPath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    return SUFFIXES.get(suffix.lower())


def rows(spark: SparkSession, paths: Sequence[str], known_format: str, *, infer: bool = False) -> DataFrame:
    """Read the files: of JSON the columns of its objects, of CSV those of its header.

    Columns of CSV are text unless they are to be inferred. A line that cannot be read fails the reading.
    """
    if known_format == PARQUET:
        return spark.read.parquet(*paths)
    strict = spark.read.option("mode", "FAILFAST")
    if known_format == JSON:
        return _objects(spark, paths, strict)
    return _table(strict, infer).csv(list(paths))


def lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of JSON files as they stand there, in a column :data:`LINE`; empty ones left out."""
    text = spark.read.text(list(paths)).where("trim(value) <> ''")
    return text.select(F.col("value").alias(LINE))


def _objects(spark: SparkSession, paths: Sequence[str], strict: DataFrameReader) -> DataFrame:
    """Beside the columns each line as it stands: written anew, it would lose nulls and digits."""
    schema = strict.json(list(paths)).schema
    if not schema.fields:
        return lines(spark, paths)
    parsed = F.from_json(LINE, schema, {"mode": "FAILFAST"})
    return lines(spark, paths).select(parsed.alias("_object"), LINE).select("_object.*", LINE)


def _table(reader: DataFrameReader, infer: bool) -> DataFrameReader:
    """All columns are read even where only some are used: a line that has too many is not to pass unseen."""
    return reader.option("header", True).option("inferSchema", infer).option("columnPruning", False)


def broken_line(spark: SparkSession, paths: Sequence[str], known_format: str) -> str | None:
    """The first line that cannot be read, with the name of its file; None when all can."""
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
