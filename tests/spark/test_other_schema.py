"""Spark on an instance in another schema, in a database without the schema pgqueue: no statement can use that."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pgqueue.spark
from pgqueue import Message, Queue, QueueClient
from pgqueue.cli import running
from pgqueue.spark.connections import Instance
from pgqueue.spark.consuming import ConsumerSession
from pgqueue.spark.errors import OptionError
from pgqueue.spark.pipelines import Progress, drain, export, ingest, replay, report
from pgqueue.spark.pipelines.progress import staging_watched
from pgqueue.testing import Database
from pgqueue.testing.database import create_template, created, drop
from tests.quiet import QuietServer

SCHEMA = "Jobs of Acme"

#: A value like a name in the schema pgqueue.
CONSUMER = "pgqueue.ledger"


@pytest.fixture(scope="session")
def template(quiet_server: QuietServer) -> Iterator[str]:
    template = create_template(quiet_server.dsn, SCHEMA)
    yield template
    drop(quiet_server.dsn, template)


@pytest.fixture
def database(quiet_server: QuietServer, template: str) -> Iterator[Database]:
    """A database of this test's own, with pgqueue in the other schema only."""
    with created(quiet_server.dsn, template, schema=SCHEMA) as database:
        yield database


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn, schema=SCHEMA) as client:
        client.create_queue("orders", retain_history=timedelta(days=7))
        yield client


@pytest.fixture
def orders(client: QueueClient) -> Queue:
    return client.queue("orders")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "orders.csv").write_text("id,shop\n1,eu\n2,us\n3,eu\n")
    return tmp_path / "orders.csv"


def read(spark: SparkSession, database: Database, **options: Any) -> DataFrame:
    return spark.read.format("pgqueue").options(dsn=database.dsn, schema=SCHEMA, **options).load()


def ids(frame: DataFrame) -> list[str]:
    return sorted(row["message_id"] for row in frame.select("message_id").collect())


@pytest.mark.parametrize("atomicity", ["job", "task"])
def test_messages_go_from_files_to_a_lake_and_back(
    spark: SparkSession, database: Database, orders: Queue, files: Path, tmp_path: Path, atomicity: str
) -> None:
    place: Any = {"dsn": database.dsn, "schema": SCHEMA}
    lake = tmp_path / "lake"
    for is_second in (False, True):
        done = ingest(str(files), "orders", **place, message_id="id", atomicity=atomicity)
        assert (done.sent, done.done_before) == (3, is_second)
    assert drain("orders", lake, **place, dry_run=True).messages == 3
    assert drain("orders", lake, **place).messages == 3
    assert ids(spark.read.parquet(str(lake))) == ["1", "2", "3"]
    assert orders.peek() == []
    for is_second in (False, True):
        back = replay("orders", **place, source=str(lake))
        assert (back.sent, back.done_before) == (3, is_second)
    assert len(orders.peek(max_messages=9)) == 3


def test_the_history_and_the_dead_letters_are_read_exported_and_reported(
    spark: SparkSession, database: Database, orders: Queue, tmp_path: Path
) -> None:
    place: Any = {"dsn": database.dsn, "schema": SCHEMA}
    orders.send_batch([Message(1, message_id="1"), Message(2, message_id="2")])
    kept, dead = orders.receive(max_messages=2)
    kept.complete()
    dead.dead_letter("Odd")
    assert ids(read(spark, database, table="history", queue="orders", numPartitions=2)) == ["1", "2"]
    assert export(tmp_path / "lake", **place, dry_run=True).history == 2
    done = export(tmp_path / "lake", **place, queue="orders")
    assert (done.history, done.dead_letters) == (2, 1)
    assert report(tmp_path / "report", **place, queue="orders").messages == 2
    assert replay("orders", **place).sent == 1
    assert [message.message_id for message in orders.peek()] == ["2"]


def test_parts_are_read_in_one_snapshot(
    spark: SparkSession, database: Database, orders: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(number) for number in range(2000)]
    orders.send_batch([Message("x" * 100, message_id=name) for name in names])
    frame = read(spark, database, numPartitions=2)
    assert frame.rdd.getNumPartitions() == 2
    assert ids(frame) == sorted(names)
    monkeypatch.setenv("PGQUEUE_SCHEMA", SCHEMA)
    with pgqueue.spark.snapshot(database.dsn) as held:
        while orders.receive_and_delete(max_messages=1000):
            continue
        assert ids(read(spark, database, snapshot=held, numPartitions=2)) == sorted(names)
    monkeypatch.delenv("PGQUEUE_SCHEMA")
    with pgqueue.spark.snapshot(database.dsn, schema=SCHEMA) as held:
        assert ids(read(spark, database, snapshot=held)) == []


def test_a_stream_consumes_and_its_work_is_in_the_transaction(
    spark: SparkSession, database: Database, client: QueueClient, orders: Queue, tmp_path: Path
) -> None:
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create schema pgqueue")
        connection.execute("create table pgqueue.effects (body text)")  # of another application

    @pgqueue.spark.in_transaction(CONSUMER, dsn=database.dsn, schema=SCHEMA)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        for row in batch.collect():
            transaction.execute("insert into pgqueue.effects values (%s)", [row["body"]])

    stream = spark.readStream.format("pgqueue").options(
        dsn=database.dsn, schema=SCHEMA, queue="orders", consumer=CONSUMER
    )
    for body in (1, 2):  # the second run continues from the checkpoint
        orders.send(Message(body))
        writer = stream.load().writeStream.foreachBatch(post).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        assert orders.peek() == []
    with psycopg.connect(database.dsn) as connection:
        assert connection.execute("select body from pgqueue.effects order by body").fetchall() == [("1",), ("2",)]


def test_the_locks_of_a_stream_are_renewed(database: Database, orders: Queue) -> None:
    orders.send(Message(1))
    place = Instance(database.dsn, SCHEMA)
    with closing(ConsumerSession(place, CONSUMER, "orders", timedelta(minutes=5))) as session:
        session.claim_batch(0, 10, None)
        (before,) = orders.peek()
        session._renew(session.held)
        (after,) = orders.peek()
    assert before.locked_until is not None
    assert after.locked_until is not None
    assert before.locked_until < after.locked_until


def test_a_stream_of_the_history_is_written_to_a_queue(
    spark: SparkSession, database: Database, client: QueueClient, orders: Queue, tmp_path: Path
) -> None:
    client.create_queue("settled")
    place: Any = {"dsn": database.dsn, "schema": SCHEMA}
    history = spark.readStream.format("pgqueue").options(**place, table="history", columns="message_id").load()
    for name in ("1", "2"):
        orders.send(Message(None, message_id=name))
        orders.receive_and_delete()
        writer = history.selectExpr("to_json(struct(message_id)) as body").writeStream.format("pgqueue")
        writer = writer.options(**place, queue="settled", checkpointLocation=str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        (received,) = client.queue("settled").receive_and_delete()
        assert received.body == {"message_id": name}


def test_the_rows_that_are_staged_are_seen(database: Database, orders: Queue) -> None:
    begun, all_there = threading.Event(), threading.Event()

    def tell(progress: Progress) -> None:
        (all_there if progress.rows == 2 else begun).set()

    with staging_watched(Instance(database.dsn, SCHEMA), "orders", "another", tell):
        assert begun.wait(60)
        with database.connect() as connection:
            row = connection.execute("select pgqueue.stage('orders', 'job', 'part', '{body}')").fetchone()
            assert row is not None
            connection.execute(f"insert into pgqueue.{row[0]} values ('1'), ('2')".encode())
        assert all_there.wait(60)


def test_the_command_line_names_the_schema(
    spark: SparkSession,
    database: Database,
    orders: Queue,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def run(*arguments: str) -> str:
        with monkeypatch.context() as patched:  # the command line puts streams of its own in their place
            for stream in ("stdout", "stderr"):
                patched.setattr(sys, stream, getattr(sys, stream))
            assert running.run(["--dsn", database.dsn, "--schema", SCHEMA, "spark", *arguments]) == 0
            sys.stdout.flush()
        return capfd.readouterr().out

    lake = str(tmp_path / "lake")
    assert run("ingest", "orders", str(files)) == "3 messages from 1 file\n"
    assert run("drain", "orders", lake, "--dry-run").startswith("would go: 3 messages to ")
    assert run("drain", "orders", lake) == f"3 messages to {lake}\n"
    assert run("replay", "orders", "--source", lake).startswith("3 messages to orders")
    assert run("export", str(tmp_path / "exported")).startswith("3 settled messages and 0 dead letters to ")
    assert run("report", str(tmp_path / "report")).startswith("3 settled messages to ")


@pytest.mark.parametrize("schema", ["public", "pg_catalog", "9lives", "x" * 41])
def test_a_schema_that_cannot_be_is_refused(
    spark: SparkSession, database: Database, tmp_path: Path, schema: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format("pgqueue").options(dsn=database.dsn, schema=schema).load()
    reason = pgqueue.spark.reason_of(raised.value)
    assert reason.is_wrong_use
    assert reason.line.startswith("schema ")
    for refused in (
        lambda: ingest("nowhere", "orders", dsn=database.dsn, schema=schema),
        lambda: drain("orders", tmp_path, dsn=database.dsn, schema=schema),
        lambda: export(tmp_path, dsn=database.dsn, schema=schema),
        lambda: report(tmp_path, dsn=database.dsn, schema=schema),
        lambda: replay("orders", dsn=database.dsn, schema=schema),
        lambda: pgqueue.spark.in_transaction(CONSUMER, dsn=database.dsn, schema=schema),
    ):
        with pytest.raises(OptionError, match=re.escape(reason.line)):
            refused()


def test_a_schema_without_pgqueue_is_named_with_the_remedy(spark: SparkSession, database: Database) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format("pgqueue").options(dsn=database.dsn, schema="Jobs of Ajax").load()
    reason = pgqueue.spark.reason_of(raised.value)
    assert "the Jobs of Ajax schema is missing in this database" in reason.line
    assert "`pgqueue migrate --schema 'Jobs of Ajax'`" in reason.line
