"""Spark under roles with exactly the rights that docs/security.md calls sufficient, and without them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import pgqueue.spark
from pgqueue import Message, QueueClient
from pgqueue.spark import reading, relations
from pgqueue.spark.connections import Instance
from pgqueue.spark.options import Options
from pgqueue.spark.pipelines import Progress, drain, export, ingest, report
from pgqueue.spark.pipelines.progress import staging_watched
from pgqueue.testing import Database

Login = Callable[[str], str]

SEND = "select pgqueue.grant_send('orders', '{}')"
RECEIVE = "select pgqueue.grant_receive('orders', '{}')"
RECEIVE_FROM_ALL = "grant pgqueue_receiver to {}"

IN_MANY_BLOCKS = """
select pgqueue.send_batch('orders', array(select to_jsonb(repeat('x', 1500)) from generate_series(1, 3000)));
select pgqueue.dead_letter('orders', sequence_number, lock_token, 'r') from pgqueue.receive('orders', 500);
select pgqueue.complete('orders', sequence_number, lock_token) from pgqueue.receive('orders', 2000);
select pgqueue.schedule('orders', to_jsonb(repeat('x', 1500)), '2099-01-01') from generate_series(1, 500);
analyze;
"""


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        for queue in ("orders", "bills"):
            client.create_queue(queue, retain_history=timedelta(days=1))
        yield client


@pytest.fixture
def login(database: Database, client: QueueClient) -> Login:
    """Creates a role by a grant; returns the DSN with which it logs in. The server lasts no longer than these tests."""

    def create(grant: str) -> str:
        role = f"test_{uuid4().hex[:12]}"
        with database.connect() as connection:
            connection.execute(f"create role {role} login; {grant.format(role)}".encode())
        return make_conninfo(database.dsn, user=role)

    return create


@contextmanager
def refused(login: str, remedy: str) -> Iterator[None]:
    """The error names the role and what allows it."""
    role = conninfo_to_dict(login)["user"]
    with pytest.raises(PySparkException, match=rf"role {role} may not (?s:.*){remedy.format(role)}"):
        yield


def send(client: QueueClient, *bodies: object) -> None:
    client.queue("orders").send_batch([Message(body) for body in bodies])


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) as body")


def write(frame: DataFrame, dsn: str, queue: str = "orders") -> None:
    frame.write.format("pgqueue").mode("append").options(dsn=dsn, queue=queue).save()


def read(spark: SparkSession, dsn: str, **options: str) -> DataFrame:
    return spark.read.format("pgqueue").options(dsn=dsn, **options).load()


def test_a_sender_writes(spark: SparkSession, client: QueueClient, login: Login, tmp_path: Path) -> None:
    sender = login(SEND)
    write(rows(spark, 3), sender)
    file = tmp_path / "orders.jsonl"
    file.write_text('{"id": 1}\n{"id": 2}\n')
    done, again = (ingest([str(file)], "orders", dsn=sender, spark=spark) for _ in range(2))
    assert (done.sent, done.done_before) == (2, False)
    assert (again.sent, again.done_before) == (2, True)
    assert client.get_queue_runtime_properties("orders").ready == 5


def test_a_sender_sees_how_many_rows_are_staged(login: Login) -> None:
    sender = login(SEND)
    begun, all_there = threading.Event(), threading.Event()

    def tell(progress: Progress) -> None:
        (all_there if progress.rows == 2 else begun).set()

    with staging_watched(Instance(sender), "orders", "another", tell):
        assert begun.wait(60)
        with psycopg.connect(sender) as connection:
            row = connection.execute("select pgqueue.stage('orders', 'job', 'part', '{body}')").fetchone()
            assert row is not None
            connection.execute(f"insert into pgqueue.{row[0]} values ('1'), ('2')".encode())
        assert all_there.wait(60)


def test_a_receiver_consumes_and_drains(spark: SparkSession, client: QueueClient, login: Login, tmp_path: Path) -> None:
    receiver = login(RECEIVE)
    send(client, 1, 2)
    seen: list[Row] = []

    @pgqueue.spark.in_transaction("ledger", dsn=receiver)
    def note(batch: DataFrame, _transaction: psycopg.Connection[Any]) -> None:
        seen.extend(batch.select("queue", "claim", "body", "subject").collect())

    consume(spark, receiver, note, tmp_path / "checkpoint")
    assert sorted(seen) == [("orders", 1, "1", None), ("orders", 1, "2", None)]
    send(client, 3, 4, 5)
    assert drain("orders", tmp_path / "lake", dsn=receiver, spark=spark, dry_run=True).messages == 3
    done = drain("orders", tmp_path / "lake", dsn=receiver, spark=spark, max_messages=2)
    assert (done.messages, done.claims, done.lost) == (3, 2, 0)
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked) == (0, 0)


def consume(
    spark: SparkSession, dsn: str, work: Callable[[DataFrame, int], None], checkpoint: Path, queue: str = "orders"
) -> None:
    stream = spark.readStream.format("pgqueue").options(dsn=dsn, queue=queue, consumer="ledger").load()
    writer = stream.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_receiver_from_every_queue_reads_tables_tails_exports_and_reports(
    spark: SparkSession, client: QueueClient, login: Login, tmp_path: Path
) -> None:
    reader = login(RECEIVE_FROM_ALL)
    send(client, 1, 2, 3)
    client.queue("orders").receive()[0].complete()
    client.queue("orders").receive()[0].dead_letter("r")
    assert [row.body for row in read(spark, reader, queue="orders").collect()] == ["3"]
    assert [row.outcome for row in read(spark, reader, table="history").collect()] == ["COMPLETED", "DEAD_LETTERED"]
    with pgqueue.spark.snapshot(reader) as held:
        assert read(spark, reader, table="dead_letters", snapshot=held).count() == 1
    exported = export(tmp_path / "lake", dsn=reader, spark=spark)
    assert (exported.history, exported.dead_letters) == (2, 1)
    assert report(tmp_path / "report", dsn=reader, spark=spark, dry_run=True).messages == 2


def test_a_missing_right_is_reported_with_the_grant_that_gives_it(
    spark: SparkSession, client: QueueClient, login: Login, tmp_path: Path
) -> None:
    sender, receiver = login(SEND), login(RECEIVE)
    send(client, 1)
    with refused(receiver, r"pgqueue\.grant_send\('orders', '{}'\)"):
        write(rows(spark, 1), receiver)
    with refused(sender, r"pgqueue\.grant_send\('bills', '{}'\)"):
        write(rows(spark, 1), sender, "bills")
    with refused(sender, r"pgqueue\.grant_receive\('orders', '{}'\)"):
        consume(spark, sender, lambda *_: None, tmp_path / "checkpoint")
    with refused(receiver, r"pgqueue\.grant_receive\('bills', '{}'\)"):
        consume(spark, receiver, lambda *_: None, tmp_path / "checkpoint", "bills")
    for dsn in (sender, receiver):
        for options in ({}, {"queue": "orders"}, {"table": "history"}):
            with refused(dsn, "grant pgqueue_receiver to {}"):
                read(spark, dsn, **options).collect()
    assert client.get_queue_runtime_properties("orders").ready == 1


@pytest.mark.parametrize("table", sorted(relations.RELATIONS.keys() - {"deferred"}))
def test_a_part_of_a_table_is_read_by_its_blocks(database: Database, login: Login, table: str) -> None:
    reader = login(RECEIVE_FROM_ALL)
    with database.connect() as connection:
        connection.execute(IN_MANY_BLOCKS)
    options = {"dsn": reader, "table": table, "numPartitions": "4"}
    parts = reading.QueueReader(options, relations.schema(Options(options, reading.OPTIONS))).partitions()
    assert len(parts) == 4
    with psycopg.connect(reader) as connection:
        for part in parts:
            plan = connection.execute(f"explain {part.statement}".encode()).fetchall()
            assert "Tid Range Scan" in str(plan)
            assert "Seq Scan on message" not in str(plan)
            assert len({*re.findall(r"settled_message_\d\d", str(plan))}) == (table == "history")


def test_deferred_messages_are_found_by_index(database: Database, login: Login) -> None:
    reader = login(RECEIVE_FROM_ALL)
    with database.connect() as connection:
        connection.execute(IN_MANY_BLOCKS)
    options = {"dsn": reader, "table": "deferred"}
    (part,) = reading.QueueReader(options, relations.schema(Options(options, reading.OPTIONS))).partitions()
    with psycopg.connect(reader) as connection:
        plan = connection.execute(f"explain {part.statement}".encode()).fetchall()
    assert re.search("returned_message|message_pkey", str(plan))
