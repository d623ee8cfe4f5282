"""Gets a Spark session: the caller's own, or a new local one that needs no setup."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgqueue.spark import java, python
from pgqueue.spark.reasons import show_reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The configuration of a session that we create; the caller can override it.
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.network.timeout": "600s",  # on a busy machine everything is slow, and nothing has failed
    "spark.python.authenticate.socketTimeout": "600s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other programs read Spark's own format as local time
}


#: The oldest PySpark that works.
OLDEST = (4, 2)


class SparkMissing(Exception):
    """PySpark is not installed, or too old; the text explains how to get it."""


def session(
    app_name: str = "pgqueue", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session that knows the format ``pgqueue``.

    If the caller has a session already, that one is returned, its configuration unchanged. Otherwise one is built: on
    ``master``, or on all cores of this machine. Under ``spark-submit`` the master is the one given there.

    Args:
        app_name: the name of the session where sessions are listed.
        master: the master as Spark writes it, ``local[4]`` or ``spark://host:7077``; ignored if a session exists.
        config: settings of Spark for a new session. They override our defaults: no web page, UTC.

    Raises:
        SparkMissing: PySpark is not installed, or older than 4.2.
        pgqueue.spark.JavaMissing: there is no Java to run on.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing("PySpark is not installed: pip install 'pgqueue-tx[spark]'") from error
    check_version()
    existing = SparkSession.getActiveSession()
    spark = existing or _build(SparkSession.builder.appName(app_name), master, config or {})
    register(spark)
    return spark


def check_version() -> None:
    """Refuse a PySpark that is too old.

    Raises:
        SparkMissing: PySpark is older than 4.2, which brought streams whose batches a Python source limits.
    """
    import pyspark

    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < OLDEST:
        raise SparkMissing(
            f"pgqueue needs PySpark {OLDEST[0]}.{OLDEST[1]} or newer, and {pyspark.__version__} is installed: "
            "pip install --upgrade 'pgqueue-tx[spark]'"
        )


def register(spark: SparkSession) -> None:
    """Make the format ``pgqueue`` known to a session; ``session()`` has done so.

    From then on, an uncaught error of pgqueue is shown as one line in a notebook, and ends with that line in a script.
    """
    check_version()
    show_reasons()
    from pgqueue.spark.source import QueueSource

    spark.dataSource.register(QueueSource)


def _build(builder: SparkSession.Builder, master: str | None, config: Mapping[str, str]) -> SparkSession:
    master = master or config.get("spark.master")
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # not started by spark-submit
        master = "local[*,4]"  # a task is tried four times, as on a cluster
    java.provide()
    python.provide(local=master is not None and master.startswith("local"))
    for name, value in {**DEFAULTS, **config, **({"spark.master": master} if master else {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
