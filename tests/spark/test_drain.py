"""A queue to a lake, each message once: twice, after a crash, without its checkpoint, and when it is stopped."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.spark.pipelines import Progress, drain
from pgqueue.spark.pipelines.lake import Lake
from pgqueue.testing import Database


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        yield client


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def send(client: QueueClient, *bodies: int) -> None:
    client.queue("orders").send_batch([Message(body) for body in bodies])


def landed(spark: SparkSession, lake: Path) -> list[int]:
    """The bodies in a lake, each as often as it is there."""
    return sorted(int(row["body"]) for row in spark.read.parquet(str(lake)).select("body").collect())


def open_claims(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("select count(open_claim) from pgqueue.consumers").fetchone()
    assert row is not None
    return int(row[0])


def left(client: QueueClient) -> tuple[int, int]:
    counts = client.get_queue_runtime_properties("orders")
    return counts.ready, counts.locked


def test_a_queue_goes_to_the_lake_once_however_often_it_is_drained(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    send(client, *range(5))
    told: list[Progress] = []
    done = drain("orders", lake, dsn=database.dsn, max_messages=3, progress=told.append)
    assert (done.messages, done.claims, done.lost) == (5, 2, 0)
    assert told[-1] == Progress(5, 2)
    assert (left(client), open_claims(database)) == ((0, 0), 0)
    assert drain("orders", lake, dsn=database.dsn).messages == 0
    send(client, 5)
    assert drain("orders", lake, dsn=database.dsn).messages == 1
    assert landed(spark, lake) == [*range(6)]
    (first, *_) = lake.glob(f"queue=orders/date=*/consumer={done.consumer}/claim=1/*.parquet")
    assert first.stat().st_size > 0


def test_a_claim_that_was_written_before_a_crash_is_written_over(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    """Killed between the lake and Spark's commit log, its checkpoint lost, and a lock lost meanwhile."""
    send(client, 1, 2)
    drain("orders", lake, dsn=database.dsn, consumer="one")
    send(client, 3, 4)
    with database.connect(autocommit=True) as crashed:
        crashed.execute(
            "select pgqueue.claim_batch('one', 1, 100, interval '5 minutes', epoch => epoch) "
            "from pgqueue.attach_consumer('one', 'orders')"
        )
    (written,) = lake.glob("queue=orders/date=*/consumer=one/claim=1")
    shutil.copytree(written, written.with_name("claim=2"))
    shutil.copytree(written, lake / "queue=orders/date=2020-01-01/consumer=one/claim=2")
    shutil.rmtree(lake / "_checkpoints")
    assert drain("orders", lake, dsn=database.dsn, consumer="one").messages == 2
    assert landed(spark, lake) == [1, 2, 3, 4]
    assert (left(client), open_claims(database)) == ((0, 0), 0)


def test_drains_under_two_names_do_not_touch_the_files_of_the_other(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    for number, consumer in enumerate(("one", "a/b=c*")):
        send(client, number)
        drain("orders", lake, dsn=database.dsn, consumer=consumer)
    assert landed(spark, lake) == [0, 1]
    assert drain("orders", lake, dsn=database.dsn, consumer="a/b=c*").messages == 0


def test_a_dry_run_claims_and_writes_nothing(database: Database, client: QueueClient, lake: Path) -> None:
    send(client, 7, 8)
    foreseen = drain("orders", lake, dsn=database.dsn, dry_run=True)
    assert (foreseen.messages, foreseen.claims, [row["body"] for row in foreseen.sample]) == (2, 0, [7, 8])
    assert not lake.exists()
    assert left(client) == (2, 0)
    with database.connect() as connection:
        assert connection.execute("select count(*) from pgqueue.consumer").fetchone() == (0,)


def test_a_follower_goes_on_until_it_is_stopped_and_leaves_nothing_locked(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path
) -> None:
    stop = threading.Event()

    def more_and_then_stop(progress: Progress) -> None:
        if progress.rows == 1:
            send(client, 2)
        else:
            stop.set()

    send(client, 1)
    done = drain("orders", lake, dsn=database.dsn, follow=True, stop=stop, progress=more_and_then_stop)
    assert done.messages == 2
    assert (left(client), open_claims(database)) == ((0, 0), 0)
    send(client, 3)
    assert drain("orders", lake, dsn=database.dsn).messages == 1
    assert landed(spark, lake) == [1, 2, 3]


def test_messages_that_could_not_be_written_are_given_back_at_once(
    spark: SparkSession, database: Database, client: QueueClient, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(*_: Any) -> None:
        raise OSError("no space left")

    send(client, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Lake, "overwrite", disk_full)
        with pytest.raises(Exception, match="no space left"):
            drain("orders", lake, dsn=database.dsn)
    assert (left(client), open_claims(database)) == ((1, 0), 0)
    assert drain("orders", lake, dsn=database.dsn).messages == 1
    assert landed(spark, lake) == [1]
    assert Counter(claim.name for claim in lake.glob("queue=*/date=*/consumer=*/*")) == {"claim=2": 1}
