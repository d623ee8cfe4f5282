"""The input files of a pipeline: finding them, a digest that identifies them, and reading them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.readwriter import DataFrameReader

from pgqueue.spark.errors import OptionError, PipelineError
from pgqueue.spark.pipelines import objects

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
    are = {objects.is_for_pyarrow(spark, name) for name in names}
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


class Source:
    """The files of an ingest, and how to read them; ``format`` is one of the three, by default that of the suffixes.

    Raises:
        InputError: there are no files, their format is unknown, or Spark would have to read text that it cannot reach.
    """

    def __init__(self, spark: SparkSession, paths: list[str], known_format: str | None, *, infer: bool) -> None:
        self._spark = spark
        self._paths = paths
        self._infer = infer
        self.files = find(spark, paths)
        self.format = known_format or format_of(self.files)
        if self.format not in (PARQUET, JSON, CSV):
            raise OptionError(f"the format must be one of parquet, json, csv, not {self.format!r}")
        if self.format != PARQUET and _are_objects(spark, paths):
            raise InputError(
                f"{paths[0]}: Spark has no file system for S3 here, and without one only Parquet can be read, not "
                f"{self.format}: copy the files to a disk, or start Spark with --packages for hadoop-aws"
            )

    def rows(self) -> DataFrame:
        """The rows; the columns come from the objects in JSON, from the header in CSV.

        Columns of CSV are text, unless they are inferred. A line that cannot be read is an error.
        """
        strict = self._spark.read.option("mode", "FAILFAST")
        match self.format:
            case "parquet":
                return parquet(self._spark, self._paths)
            case "csv":
                return _table(strict, self._infer).csv(self._paths)
        # Each line is kept unchanged beside its columns: writing it as JSON again would lose nulls and digits.
        schema = strict.json(self._paths).schema
        parsed = F.from_json(LINE, schema, {"mode": "FAILFAST"}).alias("_object")
        return self.lines().select(parsed, LINE).select("_object.*", LINE) if schema.fields else self.lines()

    def lines(self) -> DataFrame:
        """The lines of JSON files, unchanged, in a column :data:`LINE`; empty lines are left out."""
        text = self._spark.read.text(self._paths).where("trim(value) <> ''")
        return text.select(F.col("value").alias(LINE))

    def count(self) -> int:
        """The number of rows; of text it is the number of lines, which is not smaller."""
        if self.format == PARQUET:
            return self.rows().count()
        return self._spark.read.text(self._paths).count()

    def broken_line(self) -> str | None:
        """The first line that cannot be read, with the name of its file; None if there is none."""
        if self.format == PARQUET:
            return None
        reader = self._spark.read.option("columnNameOfCorruptRecord", BROKEN)
        if self.format == JSON:
            marked = reader.schema(f"_nothing string, {BROKEN} string").json(self._paths)
        else:
            columns = _table(self._spark.read, infer=False).csv(self._paths).schema
            marked = _table(reader, infer=False).schema(columns.add(BROKEN, "string")).csv(self._paths)
        found = marked.select("*", F.col("_metadata.file_path").alias("_file")).where(F.col(BROKEN).isNotNull()).first()
        return None if found is None else f"{found['_file']}: this line cannot be read: {found[BROKEN][:100]}"


def _table(reader: DataFrameReader, infer: bool) -> DataFrameReader:
    """A reader of CSV that reads all columns, even if few are used, so that a line with too many is detected."""
    return reader.option("header", True).option("inferSchema", infer).option("columnPruning", False)
