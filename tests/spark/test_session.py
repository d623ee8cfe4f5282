"""One way to a session."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

import pgqueue.spark


def test_the_callers_session_is_used_when_there_is_one(spark: SparkSession) -> None:
    assert pgqueue.spark.session("another", config={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_without_pyspark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(pgqueue.spark.SparkMissing, match=r"pip install 'pgqueue\[spark\]'"):
        pgqueue.spark.session()
