"""One way to a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.spark import java, python
from pgqueue.spark.session import _build
from pgqueue.testing import Database


def test_the_callers_session_is_used_when_there_is_one(spark: SparkSession) -> None:
    assert pgqueue.spark.session("another", config={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_an_error_without_pyspark_names_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("old", ["3.5.8", "4.0.2", "4.1.1"])
@pytest.mark.parametrize(
    "use",
    [
        "pgqueue.spark.session()",
        "pgqueue.spark.register(None)",
        "sys.exit(run(['spark', 'export', 'lake', '--dsn', dsn]))",
    ],
    ids=["session", "register", "command"],
)
def test_a_pyspark_that_is_too_old_is_refused_in_one_line(
    database: Database, tmp_path: Path, old: str, use: str
) -> None:
    """The package found has only a version and nothing else: that is enough to refuse it."""
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text(f"__version__ = {old!r}")
    (tmp_path / "pyspark" / "sql" / "__init__.py").write_text("class SparkSession: pass")
    found = f"dsn = {database.dsn!r}; import sys; sys.path.insert(0, {str(tmp_path)!r})"
    program = f"{found}; import pgqueue.spark; from pgqueue.cli.running import run; {use}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    refusal = f"pgqueue needs PySpark 4.2 or newer, and {old} is installed: pip install --upgrade 'pgqueue-tx[spark]'"
    said = ended.stderr.splitlines()
    assert said[-1].endswith(f": {refusal}")
    assert "run(" not in use or len(said) == 1
