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
from pgqueue.spark.pipelines import objects
from pgqueue.spark.pipelines.stores import is_for_pyarrow

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
    found = _objects_found(spark, names) if _are_objects(spark, names) else _files_found(spark, names)
    if not found:
        raise InputError(f"there are no files in {', '.join(names)}")
    return sorted(found, key=lambda file: file.path)


def _files_found(spark: SparkSession, names: list[str]) -> list[File]:
    listed = spark.read.format("binaryFile").load(names)
    return [File(*row) for row in listed.select("path", "length", F.unix_micros("modificationTime")).collect()]


def _objects_found(spark: SparkSession, names: list[str]) -> list[File]:
    return [File(f"s3://{info.path}", info.size, info.mtime_ns // 1000) for info in objects.listed(spark, names)]


def _are_objects(spark: SparkSession, names: Sequence[str]) -> bool:
    """Whether the paths are for PyArrow to read.

    Raises:
        InputError: some are, and some are not.
    """
    are = {is_for_pyarrow(spark, name) for name in names}
    if len(are) > 1:
        raise InputError("some paths are in S3, and some are not: read them one after the other")
    return are == {True}


def digest(files: Iterable[File], *settings: object) -> str:
    """A digest of files and other values, in 24 characters."""
    known = hashlib.sha256(repr((sorted((file.path, file.size, file.modified) for file in files), settings)).encode())
    return known.hexdigest()[:24]


def format_of(files: Iterable[File]) -> str:
    """The format, by the suffixes of the files.

    Raises:
        InputError: the suffixes name no format, or several.
    """
    formats = {file.path: _format_of(file.path) for file in files}
    unknown = next((path for path, known in formats.items() if known is None), None)
    if unknown is not None:
        raise InputError(f"the name of {unknown} has no known ending: give the format, one of parquet, json, csv")
    if len(set(formats.values())) > 1:
        raise InputError(
            f"the files are of several formats, {', '.join(sorted(map(str, set(formats.values()))))}: give one"
        )
    return str(next(iter(formats.values())))


def _format_of(path: str) -> str | None:
    name = PurePosixPath(path)
    suffix = PurePosixPath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    return SUFFIXES.get(suffix.lower())


def parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read files of Parquet."""
    return objects.read(spark, paths) if _are_objects(spark, paths) else spark.read.parquet(*paths)


def refuse_text(spark: SparkSession, paths: Sequence[str], known_format: str) -> None:
    """Raise :class:`InputError` if the files are text that Spark would have to read, and cannot."""
    if known_format != PARQUET and _are_objects(spark, paths):
        raise InputError(
            f"{paths[0]}: Spark has no file system for S3 here, and without one only Parquet can be read, not "
            f"{known_format}: copy the files to a disk, or start Spark with --packages for hadoop-aws"
        )


def rows(spark: SparkSession, paths: Sequence[str], known_format: str, *, infer: bool = False) -> DataFrame:
    """Read the files; the columns come from the objects in JSON, from the header in CSV.

    Columns of CSV are text, unless ``infer`` is set. A line that cannot be read is an error.
    """
    if known_format == PARQUET:
        return parquet(spark, paths)
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
