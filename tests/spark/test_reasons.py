"""Errors are raised before a task starts, with a line from ``reason_of``, in a notebook, at the end of a script."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import pgqueue.spark
from pgqueue import QueueClient
from pgqueue.spark import connections, reason_of
from pgqueue.spark.connections import Instance
from pgqueue.spark.errors import DatabaseError, PipelineError
from pgqueue.spark.source import QueueSource
from pgqueue.testing import Database, ThrowawayServer
from tests.chaos.proxy import Proxy

BODY = StructType().add("body", "string")
WRONG_HOST = "host=no.such.host.invalid"


@pytest.fixture
def database(database: Database) -> Database:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
    return database


#: The methods that Spark calls first, in the driver.
LOOKS: dict[str, Callable[[dict[str, str]], object]] = {
    "write": lambda options: QueueSource(options).writer(BODY, overwrite=False),
    "sink": lambda options: QueueSource(options).streamWriter(BODY, overwrite=False),
    "read": lambda options: QueueSource(options).schema(),
    "follow": lambda options: QueueSource({**options, "table": "history"}).schema(),
    "consume": lambda options: QueueSource({**options, "consumer": "ledger"}).schema(),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"dsn": WRONG_HOST}, r"the database cannot be reached: failed to resolve host 'no.such.host.*the dsn right\?"),
        (
            {"dsn": "postgresql://me:secret@[host/x"},
            "the dsn cannot be read: write postgresql://user:password@host:5432/name",
        ),
        ({"queue": "nowhere"}, ".*queue '?nowhere'?.*"),
        ({"colour": "red"}, "there is no option 'colour' here; there are dsn, schema, queue, .*"),
    ],
)
def test_an_error_is_one_line_before_a_task_starts(
    database: Database, look: Callable[[dict[str, str]], object], options: dict[str, str], line: str
) -> None:
    with pytest.raises(PipelineError) as raised:
        look({"dsn": database.dsn, "queue": "q", **options})
    assert re.fullmatch(line, str(raised.value))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_an_error_without_a_schema_names_how_to_create_it(
    database: Database, look: Callable[[dict[str, str]], object]
) -> None:
    with pytest.raises(DatabaseError, match="run `pgqueue migrate`"):
        look({"dsn": make_conninfo(database.dsn, dbname="postgres"), "queue": "q"})


def test_the_first_calls_leave_nothing_and_disturb_no_one(database: Database) -> None:
    options = {"dsn": database.dsn, "queue": "q"}
    for look in LOOKS.values():
        look(options)
    with database.connect(autocommit=True) as connection:
        assert connection.execute("select from pgqueue.consumers").fetchall() == []
        assert connection.execute("select from pgqueue.staged_batch").fetchall() == []
        connection.execute("select pgqueue.attach_consumer('ledger', 'q')")
        LOOKS["consume"](options)


def test_spark_adds_nothing_to_the_line(spark: SparkSession) -> None:
    options = {"dsn": WRONG_HOST, "queue": "q"}
    rows = spark.range(2).selectExpr("to_json(struct(id)) as body")
    for act in (
        lambda: rows.write.format("pgqueue").options(**options).mode("append").save(),
        lambda: spark.read.format("pgqueue").options(**options).load(),
        lambda: spark.readStream.format("pgqueue").options(**options, consumer="ledger").load(),
    ):
        with pytest.raises(AnalysisException) as raised:
            act()
        reason = reason_of(raised.value)
        assert re.fullmatch(r"the database cannot be reached: [^\n]* is the dsn right\?", reason.line)
        assert reason.is_ours


@pytest.mark.parametrize("mode", [None, "ignore"])
def test_spark_s_default_mode_is_refused_with_the_one_that_is_right(
    spark: SparkSession, database: Database, mode: str | None
) -> None:
    writer = spark.range(2).selectExpr("to_json(struct(id)) as body").write.format("pgqueue")
    with pytest.raises(AnalysisException) as raised:
        writer.options(dsn=database.dsn, queue="q").save(mode=mode)
    reason = reason_of(raised.value)
    assert "add .mode('append')" in reason.line
    assert (reason.is_ours, reason.is_wrong_use) == (True, True)


def test_a_sink_of_a_stream_that_is_refused_fails_before_its_tasks(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("string(value) as body")
    writer = frame.writeStream.format("pgqueue").options(dsn=database.dsn, queue="nowhere")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert "initialize Python data source writer" in str(raised.value)
    reason = reason_of(raised.value)
    assert reason.is_ours
    assert re.search("queue '?nowhere'?", reason.line)


def test_a_process_looks_once_at_what_a_stream_writes_to(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatabaseError):
        LOOKS["sink"]({"dsn": database.dsn, "queue": "later"})
    with QueueClient(database.dsn) as client:
        client.create_queue("later")
    LOOKS["sink"]({"dsn": database.dsn, "queue": "later"})
    with QueueClient(database.dsn) as client:
        client.delete_queue("later")
    LOOKS["sink"]({"dsn": database.dsn, "queue": "later"})


def test_a_server_that_refuses_at_first_is_asked_again(database: Database) -> None:
    with Proxy(database.dsn) as proxy:
        proxy.refuse(3, after=b"select 1")
        with connections.connect(Instance(proxy.dsn)) as connection:
            connection.execute("select 1")
        with connections.looking(Instance(proxy.dsn)) as connection:
            assert connection.execute("select 2").fetchone() == (2,)


def test_a_server_that_is_down_is_given_up_in_time(
    throwaway_server: ThrowawayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = throwaway_server.dsn("postgres")
    throwaway_server.stop()
    monkeypatch.setattr(connections, "FIRST_SECONDS", 0)
    with pytest.raises(DatabaseError, match="cannot be reached") as raised, connections.looking(Instance(dsn)):
        pass
    assert "\n" not in str(raised.value)


SCRIPT = """
import pgqueue.spark
from pgqueue.spark.reasons import show_reasons
from pyspark.errors import AnalysisException
show_reasons(); show_reasons()
raise {error}
"""

OURS = (
    r"Failed: Traceback (most recent call last):\n  File x\npgqueue.spark.errors.OptionError: no option\n SQLSTATE: 1"
)
THEIRS = r"Failed: Traceback (most recent call last):\n  File x\nValueError: of yours\n SQLSTATE: 1"


MODE = '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "pgqueue" cannot be written in the "Ignore" mode.'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OURS, ["", "pgqueue: no option"]),
        (THEIRS, ["ValueError: of yours", " SQLSTATE: 1"]),
        (MODE, ["", f"pgqueue: {pgqueue.spark.reasons.APPEND}"]),
    ],
)
def test_the_last_line_of_a_script_is_the_reason_if_it_is_ours(text: str, said: list[str]) -> None:
    script = SCRIPT.format(error=f"AnalysisException('{text}')")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-2:] == said


def test_in_a_notebook_an_error_of_ours_is_a_line_and_tb_shows_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance()
    shell.colors = "nocolor"
    try:
        pgqueue.spark.reasons.show_reasons()
        shell.run_cell("from pyspark.errors import AnalysisException")
        capsys.readouterr()
        shell.run_cell(f"raise AnalysisException('{OURS}')")
        told = capsys.readouterr()
        assert told.out + told.err == "pgqueue: no option\n"
        shell.run_line_magic("tb", "")
        assert "OptionError: no option" in capsys.readouterr().out
        shell.run_cell(f"raise AnalysisException('{THEIRS}')")
        assert "of yours" in capsys.readouterr().out
    finally:
        InteractiveShell.clear_instance()
