"""Which file system a directory is on: one of Spark's, or S3 by PyArrow for a Spark that has none for it."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no type annotations
from pyspark.sql import SparkSession

from pgqueue.spark.pipelines.lake import Lake, LakeError
from pgqueue.spark.pipelines.objects import SCHEME, ObjectLake


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
    return is_own and SCHEME.match(path) is not None and not _has_file_system(spark, path.partition(":")[0])


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to the JVM
    jvm: Any = spark._jvm  # noqa: SLF001 - the same
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:
        return False
    return True
