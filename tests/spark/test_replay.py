"""Dead letters back to their queue, and what a lake holds to a queue once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.spark.pipelines import InputError, drain, replay
from pgqueue.testing import Database
from tests.spark.test_ingest import contents


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    """Dead letters 0 to 5, the odd ones because they were too late."""
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        orders = client.queue("orders")
        orders.send_batch([Message({"id": number}, subject=f"n{number}") for number in range(6)])
        for received in orders.receive(max_messages=6):
            received.dead_letter("Late" if received.body["id"] % 2 else "Broken")
        yield client


def waiting(client: QueueClient, queue: str = "orders") -> list[int]:
    return sorted(message.body["id"] for message in client.queue(queue).peek(max_messages=50))


def test_dead_letters_that_fit_go_back_to_their_queue(
    spark: SparkSession, database: Database, client: QueueClient
) -> None:
    chosen = "dead_letter_reason = 'Late' and get_json_object(body, '$.id') > 1"
    assert replay("orders", dsn=database.dsn, where=chosen, limit=1).sent == 1
    assert waiting(client) == [3]
    second, third = (replay("orders", dsn=database.dsn, where=chosen) for _ in range(2))
    assert ((second.found, second.sent), (third.found, third.sent)) == ((1, 1), (0, 0))
    assert waiting(client) == [3, 5]


def test_locked_dead_letters_stay(spark: SparkSession, database: Database, client: QueueClient) -> None:
    client.queue("orders").dead_letters.receive(max_messages=2)
    done = replay("orders", dsn=database.dsn)
    assert (done.found, done.sent) == (6, 4)


def test_the_messages_of_a_lake_are_sent_once(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("orders").dead_letters.resubmit()
    client.queue("orders").send(Message(b"\x00bytes", priority=3))
    client.create_queue("again")
    lake = str(tmp_path / "lake")
    drain("orders", lake, dsn=database.dsn)
    chosen = "subject in ('n1', 'n2')"
    first, second = (replay("again", dsn=database.dsn, source=lake, where=chosen) for _ in range(2))
    assert (first.found, first.sent, first.done_before) == (2, 2, False)
    assert (second.found, second.sent, second.done_before) == (2, 2, True)
    assert waiting(client, "again") == [1, 2]
    assert replay("again", dsn=database.dsn, source=lake, where=chosen, again=True, limit=1).sent == 1
    assert waiting(client, "again") == [1, 1, 2]
    client.purge_queue("again")
    assert replay("again", dsn=database.dsn, source=lake, where="binary_body is not null").sent == 1
    (sent,) = client.queue("again").peek(max_messages=9)
    assert (sent.body, sent.priority) == (b"\x00bytes", 3)


def test_a_dry_run_changes_nothing(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    spark.sql("select '1' as body, 'a' as subject").write.parquet(f"{tmp_path}/lake")
    before = contents(database)
    dead = replay("orders", dsn=database.dsn, where="dead_letter_reason = 'Late'", dry_run=True)
    assert (dead.found, dead.sent, dead.sample[0]["subject"]) == (3, 0, "n1")
    from_lake = replay("orders", dsn=database.dsn, source=f"{tmp_path}/lake", dry_run=True)
    assert (from_lake.found, from_lake.sent, from_lake.sample[0]["subject"]) == (1, 0, "a")
    assert contents(database) == before


def test_a_directory_without_messages_is_refused(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    spark.range(1).write.parquet(f"{tmp_path}/lake")
    with pytest.raises(InputError, match="has no messages"):
        replay("orders", dsn=database.dsn, source=f"{tmp_path}/lake")
