"""A lake in S3 for a Spark without a file system for S3: PyArrow lists, reads and writes the objects.

Nothing here needs a rename. A task writes to a file on its own disk, and stores it as one object when it has read its
last row; an object is there as a whole or not at all. Its name is that of the partition, so that a task which runs
twice stores the same object twice. Objects of an earlier attempt in the same directories are deleted in the end.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no type annotations
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pgqueue.spark.paths import url_of
from pgqueue.spark.pipelines.lake import CHECKPOINTS, Checkpoint, Lake, LakeError, escaped

SCHEME = re.compile(r"s3a?://")
IS_PATTERN = re.compile(r"[*?\[]")
IS_IGNORED = re.compile(r"/[_.]")

#: Of a read: how many tasks it has at most, and how many rows a task takes at a time.
MOST_TASKS = 256
ROWS = 10_000


def endpoint() -> str:
    """The address of a server other than Amazon's; empty for Amazon's. PyArrow reads the other variables by itself."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def _key(path: str) -> str:
    """A path as PyArrow names it: the bucket and the key."""
    return SCHEME.sub("", path)


def opened(spark: SparkSession, root: str) -> Lake:
    """A directory on a file system of Spark's; in S3 with PyArrow, unless Spark has a file system for that.

    Raises:
        LakeError: the session is one of Spark Connect.
    """
    if not isinstance(spark, SparkSession):
        raise LakeError("this pipeline does not work through Spark Connect: run it in a session of Spark's own")
    return (ObjectLake if is_for_pyarrow(spark, root) else Lake)(spark, root)


def is_for_pyarrow(spark: SparkSession, path: str) -> bool:
    """Whether a path is in S3, and Spark has no file system for that."""
    is_own = isinstance(spark, SparkSession)  # else a server of Spark Connect reads, with what it has
    if not is_own or not SCHEME.match(path):
        return False
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            path.partition(":")[0],
            spark._jsc.hadoopConfiguration(),  # noqa: SLF001 - the same
        )
    except Py4JJavaError:
        return True
    return False


class ObjectLake(Lake):
    """A directory of a bucket: the common beginning of the keys of its objects."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        super().__init__(spark, root)
        self._objects = fs.S3FileSystem(endpoint_override=endpoint())

    def find(self, *patterns: str) -> list[str]:
        found = [_key(self.root)]
        for pattern in patterns:
            if IS_PATTERN.search(pattern):
                found = [below for path in found for below in self._below(path, pattern)]
            else:
                found = [f"{path}/{pattern}" for path in found]
        return [f"s3://{info.path}" for info in self._objects.get_file_info(found) if info.type != fs.FileType.NotFound]

    def _below(self, path: str, pattern: str) -> Iterator[str]:
        for info in self._objects.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            if fnmatchcase(info.base_name, pattern):
                yield info.path

    def files(self, *patterns: str) -> Iterator[fs.FileInfo]:
        """The objects that match patterns, or are below a directory that does; there without those readers ignore."""
        for info in self._objects.get_file_info([_key(path) for path in self.find(*patterns)]):
            if info.is_file:
                yield info
                continue
            for below in self._objects.get_file_info(fs.FileSelector(info.path, recursive=True)):
                if below.is_file and not IS_IGNORED.search(below.path.removeprefix(info.path)):
                    yield below

    def remove(self, path: str) -> None:
        self._objects.delete_dir(_key(path))

    def overwrite(self, rows: DataFrame, path: str, *by: str) -> None:
        rows.sparkSession.dataSource.register(Objects)  # a batch has a session of its own
        writer = rows.write.format(Objects.name()).option("directory", _key(path)).option("by", ",".join(by))
        writer.option("endpoint", endpoint()).mode("append").save()

    def replace(self, rows: DataFrame, name: str) -> None:
        self.overwrite(rows, self.path(name))

    def largest(self, column: str, path: str) -> int | None:
        found = pyarrow.dataset.dataset(_key(path), filesystem=self._objects, exclude_invalid_files=True)
        return max(
            (pc.max(batch[column]).as_py() for batch in found.to_batches(columns=[column]) if batch.num_rows),
            default=None,
        )

    @contextmanager
    def checkpoint(self, name: str) -> Iterator[Checkpoint]:
        """On the disk of the driver, where it begins as a copy of the one in the bucket."""
        remote = _key(self.path(CHECKPOINTS, name))
        with tempfile.TemporaryDirectory(prefix="pgqueue-checkpoint-") as directory:
            if self.find(CHECKPOINTS, name):
                fs.copy_files(remote, directory, self._objects, fs.LocalFileSystem())
            try:
                yield Checkpoint(url_of(Path(directory)), lambda: self._save(Path(directory), remote))
            finally:
                self._save(Path(directory), remote)

    def _save(self, local: Path, remote: str) -> None:
        """Store the files that are new, and delete those that Spark has deleted; it changes none.

        Checksums, which Hadoop checks where they are, and temporary files have names with a dot.
        """
        files = {str(path.relative_to(local)) for path in local.rglob("[!.]*") if path.is_file()}
        selector = fs.FileSelector(remote, allow_not_found=True, recursive=True)
        saved = {info.path.removeprefix(f"{remote}/") for info in self._objects.get_file_info(selector) if info.is_file}
        for name in sorted(files - saved):
            _store(self._objects, f"{remote}/{name}", (local / name).read_bytes())
        for name in saved - files:
            self._objects.delete_file(f"{remote}/{name}")


def listed(spark: SparkSession, paths: Sequence[str]) -> list[fs.FileInfo]:
    """The objects that these paths name: objects, directories, patterns."""
    found = {}
    for path in paths:
        bucket, *patterns = _key(path).rstrip("/").split("/")
        found.update({info.path: info for info in ObjectLake(spark, f"s3://{bucket}").files(*patterns)})
    return [found[path] for path in sorted(found)]


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of Parquet in these objects, with the columns that the names of their directories give."""
    spark.dataSource.register(Objects)
    names = json.dumps([info.path for info in listed(spark, paths)])
    return spark.read.format(Objects.name()).options(names=names, endpoint=endpoint()).load()


class Objects(DataSource):
    """Reads and writes Parquet in a bucket, for :func:`read` and :meth:`ObjectLake.overwrite`.

    Unlike ``mapInArrow`` it needs no pandas.
    """

    @classmethod
    def name(cls) -> str:
        return "pgqueue_objects"

    def schema(self) -> StructType:
        return from_arrow_schema(_dataset(self.options).schema)

    def reader(self, schema: StructType) -> ObjectReader:
        return ObjectReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> ObjectWriter:
        return ObjectWriter(self.options, schema)


def _dataset(options: Mapping[str, str]) -> pyarrow.dataset.Dataset:
    objects = fs.S3FileSystem(endpoint_override=options["endpoint"])
    return pyarrow.dataset.dataset(json.loads(options["names"]), filesystem=objects, partitioning="hive")


@dataclass
class Share(InputPartition):
    """The part of one task: objects, each with the values that the names of its directories give."""

    fragments: list[pyarrow.dataset.Fragment]
    schema: pa.Schema


class ObjectReader(DataSourceReader):
    """Reads each object once, a few at a time in a task where there are many."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> list[Share]:
        found = _dataset(self._options)
        fragments = list(found.get_fragments())
        return [Share(fragments[n::MOST_TASKS], found.schema) for n in range(min(len(fragments), MOST_TASKS))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share), "we are given what we have planned"
        for fragment in partition.fragments:
            for rows in fragment.to_batches(partition.schema, batch_size=ROWS, batch_readahead=1):
                yield from pa.Table.from_batches([rows]).cast(self._schema).to_batches()


@dataclass
class Stored(WriterCommitMessage):
    """The names of the objects that a task has stored."""

    names: list[str]


class ObjectWriter(DataSourceArrowWriter):
    """Stores the rows of a partition, an object for each directory, and in the end deletes the others there."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._directory = options["directory"]
        self._by = tuple(name for name in options["by"].split(",") if name)
        self._endpoint = options["endpoint"]
        self._schema = to_arrow_schema(StructType([f for f in schema if f.name not in self._by]), timezone="UTC")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Stored:
        task = TaskContext.get()
        assert task is not None, "this runs in a task"
        objects = fs.S3FileSystem(endpoint_override=self._endpoint)
        with ExitStack() as files:
            spools = {} if self._by else {self._directory: self._spool(files)}
            for batch in iterator:
                for place, rows in _parted(pa.Table.from_batches([batch]), self._by):
                    path = "/".join((self._directory, *place))
                    if path not in spools:
                        spools[path] = self._spool(files)
                    spools[path][1].write_table(rows.cast(self._schema))
            for path, (file, writer) in spools.items():
                writer.close()
                with pa.memory_map(file) as whole:
                    _store(objects, f"{path}/part-{task.partitionId():05}.parquet", whole.read_buffer())
        return Stored([f"{path}/part-{task.partitionId():05}.parquet" for path in spools])

    def _spool(self, files: ExitStack) -> tuple[str, pq.ParquetWriter]:
        file = f"{files.enter_context(tempfile.TemporaryDirectory(prefix='pgqueue-'))}/rows.parquet"
        return file, files.enter_context(pq.ParquetWriter(file, self._schema))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        objects = fs.S3FileSystem(endpoint_override=self._endpoint)
        written = {name for message in messages if isinstance(message, Stored) for name in message.names}
        for place in {name.rpartition("/")[0] for name in written}:
            for info in objects.get_file_info(fs.FileSelector(place)):
                if info.is_file and info.path not in written:
                    objects.delete_file(info.path)


def _store(objects: fs.S3FileSystem, name: str, contents: bytes | pa.Buffer) -> None:
    """Store one object, by a single call: an exception between two would end as an object that is cut short."""
    with objects.open_output_stream(name) as stream:
        stream.write(contents)


def _parted(rows: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """The rows by their values in some columns, without these columns, each with the names of its directories."""
    for values in rows.group_by(list(by)).aggregate([]).to_pylist() if by else [{}]:
        chosen = rows
        for name, value in values.items():
            chosen = chosen.filter(pc.equal(chosen[name], pa.scalar(value, chosen.schema.field(name).type)))
        yield tuple(f"{name}={escaped(str(values[name]))}" for name in by), chosen.drop_columns(list(by))
