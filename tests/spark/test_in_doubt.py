"""A job that was sent has not failed, and one that has failed can be written again: whatever becomes of connections."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import pgqueue.spark
from benchmarks.chaos.pair import Pair
from pgqueue import QueueClient
from pgqueue.spark import connections
from pgqueue.spark.errors import PipelineError
from pgqueue.spark.writing import QueueSink, QueueWriter, Staged
from pgqueue.testing import Database
from pgqueue.testing.database import create_template
from pgqueue.testing.hosts import binaries
from tests.chaos.proxy import Cut, Proxy

SCHEMA = StructType().add("body", "string")
ROWS = 10
PUBLISHING = b"pgqueue.publish"
FOR_EVER = 1_000_000


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with Proxy(database.dsn) as proxy:
        yield proxy


def staged(database: Database, part: str) -> Staged:
    """The staged rows of a task."""
    with database.connect() as connection:
        row = connection.execute("select pgqueue.stage('q', 'job', %s, '{body}')", [part]).fetchone()
        assert row is not None
        connection.execute(
            f"insert into pgqueue.{row[0]} select to_jsonb(n) from generate_series(1, {ROWS}) n".encode()
        )
    return Staged("job", row[0], ROWS, query="query")


def writer(dsn: str, **options: str) -> QueueWriter:
    return QueueWriter({"dsn": dsn, "queue": "q", **options}, SCHEMA, overwrite=False)


def sent(database: Database) -> int:
    return len(rows(database, "select from pgqueue.message"))


def rows(database: Database, query: str) -> list[Any]:
    with database.connect() as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("options", [{}, {"job": "night"}], ids=["unnamed", "named"])
@pytest.mark.parametrize("cut", Cut)
def test_the_outcome_of_an_unanswered_commit_is_queried_until_it_is_known(
    database: Database, client: QueueClient, proxy: Proxy, cut: Cut, options: dict[str, str]
) -> None:
    parts = [staged(database, "0_0"), staged(database, "1_1")]
    proxy.cut(cut)
    proxy.refuse(3, after=PUBLISHING)
    writer(proxy.dsn, **options).commit(parts)
    assert proxy.has_cut
    assert sent(database) == 2 * ROWS
    assert rows(database, "select from pgqueue.staged_batch") == []
    assert len(rows(database, "select from pgqueue.published_batch")) == 1


@pytest.mark.parametrize("cut", Cut)
def test_a_batch_of_a_stream_with_an_unanswered_commit_is_sent_once(
    database: Database, client: QueueClient, proxy: Proxy, cut: Cut
) -> None:
    sink = QueueSink({"dsn": proxy.dsn, "queue": "q"}, SCHEMA, overwrite=False)
    proxy.cut(cut)
    proxy.refuse(3, after=PUBLISHING)
    sink.commit([staged(database, "0_0")], 7)
    assert proxy.has_cut
    assert sent(database) == ROWS
    assert rows(database, "select publisher, part from pgqueue.published_batch") == [("stream query", 7)]


@pytest.mark.parametrize("cut", Cut)
def test_the_error_of_a_job_in_doubt_names_how_to_repeat_it_and_the_repetition_sends_it_once(
    database: Database, client: QueueClient, proxy: Proxy, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "DOUBTS_FOR_SECONDS", 0)
    proxy.cut(cut)
    proxy.refuse(FOR_EVER, after=PUBLISHING)
    with pytest.raises(PipelineError, match="it is not known whether the job was sent") as failure:
        writer(proxy.dsn).commit([staged(database, "0_0")])
    named = re.search(r"option\('job', '(\w+)'\)", str(failure.value))
    assert named is not None
    writer(database.dsn, job=named[1]).commit([staged(database, "0_1")])
    assert sent(database) == ROWS


def test_a_standby_that_has_not_replayed_a_job_does_not_know_that_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "DOUBTS_FOR_SECONDS", 0)
    pair = Pair(binaries())
    try:
        pair.create()
        template = create_template(pair.primary.dsn())
        database = Database(pair.primary.dsn(template))
        with QueueClient(database.dsn) as client:
            client.create_queue("q")
        pair.copy()
        part = staged(database, "0_0")
        writer(database.dsn, job="night").commit([part])
        with pytest.raises(PipelineError, match="it is not known whether the job was sent"):
            writer(pair.standby.dsn(template), job="night").commit([part])
    finally:
        pair.remove()


def test_a_queue_that_was_closed_since_does_not_hide_that_a_job_was_sent(
    database: Database, client: QueueClient
) -> None:
    for part in [staged(database, "0_0"), staged(database, "0_1")]:
        writer(database.dsn, job="night").commit([part])
        client.update_queue("q", status="SEND_DISABLED")
    assert sent(database) == ROWS


@pytest.mark.parametrize("atomicity", ["job", "task"])
def test_a_job_that_was_sent_does_not_fail_because_it_cannot_tidy_up(
    spark: SparkSession, database: Database, client: QueueClient, proxy: Proxy, atomicity: str
) -> None:
    proxy.refuse(FOR_EVER, after=PUBLISHING)
    frame = spark.range(0, ROWS, 1, 1).selectExpr("to_json(struct(id)) as body")
    options = {"dsn": proxy.dsn, "queue": "q", "atomicity": atomicity}
    frame.write.format("pgqueue").options(**options).mode("append").save()
    assert sent(database) == ROWS


def test_a_stream_goes_on_though_a_batch_cannot_tidy_up(
    database: Database, client: QueueClient, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    sink = QueueSink({"dsn": proxy.dsn, "queue": "q"}, SCHEMA, overwrite=False)
    proxy.refuse(FOR_EVER, after=PUBLISHING)
    sink.commit([staged(database, "0_0")], 7)
    assert sent(database) == ROWS
    assert "staged tables of job job were not dropped; a sweep does it in a week" in caplog.text


def test_an_abort_that_cannot_tidy_up_does_not_hide_why_it_came_to_that(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pgqueue.spark")
    nowhere = "host=/nowhere"
    writer(nowhere).abort([])
    QueueSink({"dsn": nowhere, "queue": "q"}, SCHEMA, overwrite=False).abort([Staged("job", "table", 1)], 7)
    assert len(caplog.records) == 2


def test_jobs_without_a_name_are_forgotten_after_a_week(database: Database, client: QueueClient) -> None:
    for part, options in (("0_0", {}), ("0_1", {"job": "night"})):
        writer(database.dsn, **options).commit([staged(database, part)])
    remembered = "select publisher from pgqueue.published_batch"
    assert len(rows(database, remembered)) == 2
    database.move_clock(timedelta(days=7))
    client.sweep()
    assert rows(database, remembered) == [("job night",)]


def test_a_keeper_that_does_not_start_is_reported_as_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def ended(*arguments: Any, **options: Any) -> Any:
        process = start(*arguments, **options)
        process.wait()
        return process

    monkeypatch.setattr(import_module("pgqueue.spark.snapshot"), "PROGRAM", "")
    monkeypatch.setattr(subprocess, "Popen", ended)
    with pytest.raises(PipelineError, match="its process did not start"), pgqueue.spark.snapshot("host=/nowhere"):
        pass
