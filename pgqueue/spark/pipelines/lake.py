"""A directory of Parquet that pipelines write to: listing, replacing and removing what is in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.errors import PipelineError
from pgqueue.spark.paths import check_output

#: Readers of Parquet ignore names that begin with an underscore.
CHECKPOINTS = "_checkpoints"

SECONDS_OF_A_DAY = 86_400

#: The characters that Spark escapes in the name of a directory.
ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


class LakeError(PipelineError):
    """This pipeline may not write to the directory; the text has the reason. Nothing in it was changed."""


def located(output: str | Path) -> str:
    """The directory independently of the working directory: a URL unchanged, any other path made absolute.

    Raises:
        LakeError: Spark would read the path as a pattern.
    """
    named = str(output)
    check_output(named, LakeError)
    return named.rstrip("/") if re.match(r"[a-z][a-z0-9+.-]*:", named, re.IGNORECASE) else str(Path(named).absolute())


def escaped(name: str) -> str:
    """A value, escaped for the name of a directory."""
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


@dataclass(frozen=True)
class Checkpoint:
    """Where a query keeps its checkpoint, and what makes sure that it is in the lake."""

    location: str
    save: Callable[[], None]


class Lake:
    """One directory, and what is in it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
        self._configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - the same

    def path(self, *parts: str) -> str:
        """A path below the directory."""
        return "/".join((self.root, *parts))

    def find(self, *patterns: str) -> list[str]:
        """The paths that match patterns, one pattern for each level."""
        return [str(found.getPath()) for found in self._files.globStatus(self._path(self.path(*patterns))) or ()]

    def remove(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it."""
        self._files.delete(self._path(path), True)

    def overwrite(self, rows: DataFrame, path: str, *by: str) -> None:
        """Write rows to directories by their values of some columns; replace these directories, and no others."""
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*by).parquet(path)

    def replace(self, rows: DataFrame, name: str) -> None:
        """Write rows to a new directory, then replace the one of this name with it."""
        fresh, path = self.path(f"_{name}"), self.path(name)
        rows.write.mode("overwrite").parquet(fresh)
        self.remove(path)
        if not self._files.rename(self._path(fresh), self._path(path)):
            raise LakeError(f"{fresh} could not be renamed to {path}")

    def largest(self, column: str, path: str) -> int | None:
        """The largest value of a column; None if there are no rows."""
        (row,) = self._spark.read.parquet(path).agg(F.max(column)).collect()
        found: int | None = row[0]
        return found

    @contextmanager
    def checkpoint(self, name: str) -> Iterator[Checkpoint]:
        """The checkpoint of this name, for as long as the block lasts."""
        yield Checkpoint(self.path(CHECKPOINTS, name), lambda: None)

    @property
    def _files(self) -> Any:
        return self._path(self.root).getFileSystem(self._configuration)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def counting(rows: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Write rows, and return their number."""
    seen = Observation()
    write(rows.observe(seen, F.count(F.lit(1)).alias("rows")))
    return int(seen.get["rows"])


def day_of(moment: str) -> Column:
    """The day of a time in UTC, whatever the session's time zone."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(F.col(moment)) / SECONDS_OF_A_DAY).cast("int"))
