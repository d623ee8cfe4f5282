"""A directory of Parquet that pipelines write to, on any file system of Spark's: listing, moving and removing files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.errors import PipelineError

#: Readers of Parquet ignore names that begin with an underscore.
CHECKPOINTS = "_checkpoints"

SECONDS_OF_A_DAY = 86_400


class LakeError(PipelineError):
    """This pipeline may not write to the directory; the text says why. Nothing in it was changed."""


def located(output: str | Path) -> str:
    """The directory independently of the working directory: a URL unchanged, any other path made absolute."""
    named = str(output)
    return named.rstrip("/") if re.match(r"[a-z][a-z0-9+.-]*:", named, re.IGNORECASE) else str(Path(named).absolute())


class Lake:
    """One directory, and what is in it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
        self._configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - the same

    def path(self, *parts: str) -> str:
        """A path below the directory."""
        return "/".join((self.root, *parts))

    def is_there(self, *parts: str) -> bool:
        """Whether a path below the directory exists."""
        return bool(self._files.exists(self._path(self.path(*parts))))

    def find(self, *patterns: str) -> list[str]:
        """The paths that match patterns, one pattern for each level."""
        return [str(found.getPath()) for found in self._files.globStatus(self._path(self.path(*patterns))) or ()]

    def remove(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it."""
        self._files.delete(self._path(path), True)

    def move(self, source: str, target: str) -> None:
        """Rename a path; raise :class:`LakeError` if the file system refuses."""
        if not self._files.rename(self._path(source), self._path(target)):
            raise LakeError(f"{source} could not be renamed to {target}")

    def escaped(self, name: str) -> str:
        """A value, escaped for the name of a directory."""
        escaped = self._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName(name)
        return str(escaped)

    @property
    def _files(self) -> Any:
        return self._path(self.root).getFileSystem(self._configuration)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def overwrite_parts(rows: DataFrame, path: str, *by: str) -> int:
    """Write rows, and return their number; with columns, replace only the directories of the values that occur."""
    seen = Observation()
    writer = rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.mode("overwrite")
    if by:
        writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(*by)
    writer.parquet(path)
    return int(seen.get["rows"])


def day_of(moment: str) -> Column:
    """The day of a time in UTC, whatever the session's time zone."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(F.col(moment)) / SECONDS_OF_A_DAY).cast("int"))
