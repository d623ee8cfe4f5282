"""The history to a lake, each settled message once, and the dead letters as they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.errors import QueueNotFoundError
from pgqueue.spark.pipelines import LakeError, export, report
from pgqueue.testing import Database
from tests.spark.test_ingest import contents


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(days=7))
        yield client


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def settle(client: QueueClient, *bodies: int) -> None:
    """Messages with these ids are dead-lettered when odd, else completed."""
    orders = client.queue("orders")
    orders.send_batch([Message(body, message_id=str(body)) for body in bodies])
    for received in orders.receive(max_messages=len(bodies)):
        if int(received.body) % 2:
            received.dead_letter("Odd")
        else:
            received.complete()


def ids(spark: SparkSession, path: Path) -> list[str]:
    return sorted(row["message_id"] for row in spark.read.parquet(str(path)).select("message_id").collect())


def test_each_settled_message_is_exported_once_and_dead_letters_are_those_of_now(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    settle(client, 0, 1)
    first = export(lake, dsn=database.dsn)
    assert (first.history, first.dead_letters) == (2, 1)
    assert export(lake, dsn=database.dsn).history == 0
    client.queue("orders").dead_letters.purge()
    settle(client, 2, 3)
    assert (export(lake, dsn=database.dsn, dry_run=True).history, ids(spark, lake / "history")) == (2, ["0", "1"])
    assert export(lake, dsn=database.dsn).history == 2
    assert ids(spark, lake / "history") == ["0", "1", "2", "3"]
    assert ids(spark, lake / "dead_letters") == ["3"]


def test_a_batch_that_spark_hands_over_again_overwrites_itself(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    settle(client, 0, 1)
    export(lake, dsn=database.dsn)
    for commit in (lake / "_checkpoints" / "history" / "commits").iterdir():
        commit.unlink()
    export(lake, dsn=database.dsn)
    assert ids(spark, lake / "history") == ["0", "1"]


def test_an_export_that_does_not_fit_its_lake_is_refused(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    settle(client, 0)
    export(lake, dsn=database.dsn)
    with pytest.raises(LakeError, match="holds the history: export to another"):
        export(lake, dsn=database.dsn, queue="orders")
    shutil.rmtree(lake / "_checkpoints")
    with pytest.raises(LakeError, match=r"the checkpoint of .* is missing"):
        export(lake, dsn=database.dsn)
    assert ids(spark, lake / "history") == ["0"]


@pytest.mark.parametrize("name", ["lake[1]", "lake*", "{lake}"])
def test_an_output_that_is_a_pattern_is_refused(
    spark: SparkSession, database: Database, tmp_path: Path, name: str
) -> None:
    with pytest.raises(LakeError, match="which Spark reads as a pattern"):
        export(tmp_path / name, dsn=database.dsn)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_writes_nothing(spark: SparkSession, database: Database, client: QueueClient, lake: Path) -> None:
    settle(client, 1)
    before = contents(database)
    foreseen = export(lake, dsn=database.dsn, queue="orders", dry_run=True)
    assert (foreseen.history, foreseen.dead_letters, foreseen.sample[0]["message_id"]) == (1, 1, "1")
    reported = report(lake, dsn=database.dsn, queue="orders", dry_run=True)
    assert (reported.messages, reported.page, reported.sample[0]["outcome"]) == (1, None, "DEAD_LETTERED")
    assert not lake.exists()
    assert contents(database) == before


def test_only_a_queue_that_there_is(database: Database, lake: Path) -> None:
    with pytest.raises(QueueNotFoundError):
        export(lake, dsn=database.dsn, queue="nothing")


def test_a_report_is_written_for_a_span(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    settle(client, 0, 1)
    made = report(lake, dsn=database.dsn, queue="orders", bucket=timedelta(hours=1), title="Orders of ours")
    assert (made.messages, made.dry_run) == (2, False)
    assert made.page is not None
    assert "Orders of ours" in Path(made.page).read_text()
