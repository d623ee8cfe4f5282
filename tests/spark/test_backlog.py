"""The backlog of a stream's queue, as the progress of the query shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgqueue import Message, QueueClient
from pgqueue.spark import backlog
from pgqueue.spark.backlog import Backlog
from pgqueue.testing import Database


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client


def query(spark: SparkSession, dsn: str, checkpoint: Path) -> StreamingQuery:
    stream = spark.readStream.format("pgqueue").options(dsn=dsn, queue="q", consumer="c", maxMessagesPerTrigger=2)
    writer = stream.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def shown(query: StreamingQuery) -> list[dict[str, Any]]:
    """The backlog in the progress of each batch; on a slow machine Spark reports the end of the query, too."""
    query.awaitTermination()
    sources = [progress.sources[0] for progress in query.recentProgress]
    return [json.loads(source.latestOffset) for source in sources if source.startOffset != source.endOffset]


def test_the_progress_of_a_query_shows_the_open_claim_and_what_waits(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("q").send_batch([Message(n) for n in range(5)])
    database.clock.move(timedelta(hours=1))
    first, *others = shown(query(spark, database.dsn, tmp_path))
    assert (first["consumer"], first["open_claim"], first["waiting"], first["is_exact"]) == ("c", 1, 3, True)
    assert 3600 <= first["oldest_age_seconds"] < 7200
    assert "T" in first["counted_at"]
    assert [each["open_claim"] for each in others] == [2, 3]


def test_a_role_that_may_not_see_counts_consumes_without_them(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("q").send_batch([Message(n) for n in range(3)])
    with database.connect() as connection:
        connection.execute("drop role if exists counts_nothing")
        connection.execute("create role counts_nothing login")
        connection.execute("select pgqueue.grant_receive('q', 'counts_nothing')")
    try:
        first, second = shown(
            query(spark, psycopg.conninfo.make_conninfo(database.dsn, user="counts_nothing"), tmp_path)
        )
        assert [first["open_claim"], second["open_claim"]] == [1, 2]
        assert "waiting" not in first
        assert client.get_queue_runtime_properties("q").ready == 0
    finally:
        with database.connect() as connection:
            connection.execute("drop owned by counts_nothing")
            connection.execute("drop role counts_nothing")


def test_counting_takes_a_hundredth_of_the_time_at_most(
    database: Database, client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([1000.0, 1002.0, 1201.0, 1202.5, 1203.0])
    monkeypatch.setattr(backlog, "time", SimpleNamespace(monotonic=lambda: next(now)))
    counted = Backlog("q")
    with database.connect() as connection:
        counted.count(lambda query, **known: connection.execute(query, known).fetchall())
        assert counted.counted["waiting"] == 0
        client.queue("q").send(Message(1))
        counted.count(lambda query, **known: connection.execute(query, known).fetchall())
        assert counted.counted["waiting"] == 0
        counted.count(lambda query, **known: connection.execute(query, known).fetchall())
        assert counted.counted["waiting"] == 1


def test_an_error_of_the_count_leaves_the_stream_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_query: str, **_known: Any) -> Any:
        raise psycopg.errors.QueryCanceled("statement timeout")

    counted = Backlog("q")
    counted.count(fail)
    assert counted.counted == {}
    assert "waiting messages of 'q' were not counted; trying again: statement timeout" in capsys.readouterr().err
