"""One way to a session."""

from __future__ import annotations

import sys
from unittest import mock

import pytest
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.spark import java, python
from pgqueue.spark.session import _build


def test_the_callers_session_is_used_when_there_is_one(spark: SparkSession) -> None:
    assert pgqueue.spark.session("another", config={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_without_pyspark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(pgqueue.spark.SparkMissing, match=r"pip install 'pgqueue-tx\[spark\]'"):
        pgqueue.spark.session()


@pytest.mark.parametrize(
    ("master", "config", "where"),
    [
        (None, {}, "local[*,4]"),
        (None, {"spark.master": "spark://host:7077"}, "spark://host:7077"),
        ("local[2]", {"spark.master": "spark://host:7077"}, "local[2]"),
    ],
)
def test_a_master_is_an_argument_or_in_the_configuration(
    monkeypatch: pytest.MonkeyPatch, master: str | None, config: dict[str, str], where: str
) -> None:
    are_local: list[bool] = []
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(java, "provide", lambda: None)
    monkeypatch.setattr(python, "provide", lambda *, local: are_local.append(local))
    builder = mock.MagicMock()
    builder.config.return_value = builder
    _build(builder, master, config)
    assert [call.args[1] for call in builder.config.mock_calls if call.args[:1] == ("spark.master",)] == [where]
    assert are_local == [where.startswith("local")]
