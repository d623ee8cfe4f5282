"""A Spark session for a command: Spark and its workers log to a file, not to the terminal."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no type annotations
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.spark.errors import PipelineError
from pgqueue.spark.java import JavaMissing
from pgqueue.spark.report import NotReportable
from pgqueue.spark.session import SparkMissing

#: The errors of a command that :func:`pgqueue.spark.reason_of` puts in a line; those of an object store are OSErrors.
KNOWN = (PySparkException, Py4JError, PipelineError, NotReportable, JavaMissing, SparkMissing, OSError)

#: Loggers whose records repeat the text of the error.
LOUD = ("py4j", "pyspark")
CONTEXTS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def session(name: str, master: str | None, log: Path | None) -> Iterator[SparkSession]:
    """A Spark session until the end of the block. It logs to a file, which is kept if Spark fails or is stopped.

    Without a file, the session that the caller has is used: it stays open, and its logging does not change.

    Raises:
        pgqueue.spark.JavaMissing: there is no Java to run on.
    """
    for logger in LOUD:
        logging.getLogger(logger).addHandler(logging.NullHandler())
    for logger in CONTEXTS:
        PySparkLogger.getLogger(logger).disabled = True
    if log is None:
        yield pgqueue.spark.session()
        return
    with ExitStack() as ending:
        try:
            with _output_redirected_to(log):
                spark = pgqueue.spark.session(name, master=master)
            ending.enter_context(_stopping(spark))
            yield spark
        except (*KNOWN, SystemExit):
            raise
        except BaseException:
            log.unlink(missing_ok=True)
            raise
        else:
            log.unlink(missing_ok=True)


@contextmanager
def _stopping(spark: SparkSession) -> Iterator[None]:
    """Stop a session at the end of the block, also if a signal has ended it in the middle of a call to the JVM."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _drop_unread_answer()
        raise
    finally:
        spark.stop()


def _drop_unread_answer() -> None:
    """Close this thread's connection to the JVM: the next call would read the answer to the interrupted one."""
    gateway = SparkContext._gateway  # noqa: SLF001 - Spark has no public name for it
    connection = gateway and gateway._gateway_client.get_thread_connection()  # noqa: SLF001
    if connection is not None:
        connection.close()


def new_log() -> Path | None:
    """A new file to log to; None if there is a session already."""
    if SparkSession.getActiveSession() is not None:
        return None
    descriptor, path = tempfile.mkstemp(prefix="pgqueue-spark-", suffix=".log")
    os.close(descriptor)
    return Path(path)


@contextmanager
def _output_redirected_to(log: Path) -> Iterator[None]:
    """Redirect the output of programs that are started in the block to a file, as long as they run."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours = [os.dup(descriptor) for descriptor in (1, 2)]
    with log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        for descriptor, kept in zip((1, 2), ours, strict=True):
            os.dup2(kept, descriptor)
            os.close(kept)
