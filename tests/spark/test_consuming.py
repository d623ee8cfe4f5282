"""A stream that consumes a queue: each message in one batch, each batch settled once, nothing held for ever."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import max_by, window
from pyspark.sql.streaming.query import StreamingQuery

import pgqueue.spark
from pgqueue import Message, Queue, QueueClient
from pgqueue.schema import migrate
from pgqueue.spark.connections import Instance
from pgqueue.spark.consuming import ConsumerSession
from pgqueue.spark.errors import OptionError, PipelineError
from pgqueue.testing import Database, ThrowawayServer
from tests.fields import STAGED_VALUES

Batches = list[tuple[int, list[int]]]


@pytest.fixture
def queue(database: Database) -> Iterator[Queue]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client.queue("q")


class Stream:
    """A query on the queue, that can be started again."""

    def __init__(self, spark: SparkSession, database: Database, checkpoint: Path) -> None:
        self.spark = spark
        self.database = database
        self.checkpoint = checkpoint
        self.batches: Batches = []

    def frame(self, **options: str) -> DataFrame:
        said = {"dsn": self.database.dsn, "queue": "q", "consumer": "ledger", **options}
        return self.spark.readStream.format("pgqueue").options(**said).load()

    def start(self, work: Callable[[DataFrame, int], None] | None = None, **options: str) -> StreamingQuery:
        writer = self.frame(**options).writeStream.foreachBatch(work or self.note)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def run(self, work: Callable[[DataFrame, int], None] | None = None, **options: str) -> Batches:
        """Until nothing is left; returns the claims of this run and the bodies in each."""
        self.batches = []
        self.start(work, **options).awaitTermination()
        return self.batches

    def note(self, batch: DataFrame, _number: int) -> None:
        rows = batch.select("claim", "body", "sequence_number").orderBy("sequence_number").collect()
        for claim in sorted({row["claim"] for row in rows}):
            self.batches.append((claim, [int(row["body"]) for row in rows if row["claim"] == claim]))


@pytest.fixture
def stream(spark: SparkSession, database: Database, queue: Queue, tmp_path: Path) -> Stream:
    return Stream(spark, database, tmp_path / "checkpoint")


def send(queue: Queue, *bodies: Any) -> None:
    queue.send_batch([Message(body) for body in bodies])


def open_claims(database: Database) -> list[Any]:
    with database.connect() as connection:
        return connection.execute("select open_claim, messages from pgqueue.consumers").fetchall()


@pytest.mark.core
def test_it_drains_the_queue_and_leaves_nothing_locked(stream: Stream, queue: Queue) -> None:
    send(queue, *range(5))
    assert stream.run(maxMessagesPerTrigger="2") == [(1, [0, 1]), (2, [2, 3]), (3, [4])]
    assert queue.peek() == []
    assert open_claims(stream.database) == [(None, None)]


def test_it_goes_on_where_it_ended(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    assert stream.run() == [(1, [1])]
    assert stream.run() == []
    send(queue, 2)
    assert stream.run() == [(2, [2])]


def test_all_of_a_message_is_there(stream: Stream, queue: Queue) -> None:
    queue.send(
        Message(
            {"a": 1}, priority=-3, application_properties={"p": 1}, time_to_live=timedelta(hours=1),
            **STAGED_VALUES,
        )
    )  # fmt: skip
    seen: list[Any] = []
    stream.run(lambda batch, _: seen.extend(batch.collect()), columns="*")
    (row,) = seen
    assert row.asDict() | {"enqueued_time": None, "expires_at": None} == {
        "queue": "q", "claim": 1, "sequence_number": 1, "body": '{"a": 1}', "binary_body": None, "priority": -3,
        **STAGED_VALUES,
        "delivery_count": 1, "application_properties": '{"p": 1}', "enqueued_time": None, "expires_at": None,
    }  # fmt: skip
    assert row["expires_at"] - row["enqueued_time"] == timedelta(hours=1)


def test_the_columns_that_are_asked_for_are_read(stream: Stream, queue: Queue) -> None:
    assert stream.frame(columns="body, sequence_number").columns == ["body", "sequence_number"]
    usual = ["queue", "claim", "sequence_number", "enqueued_time", "delivery_count", "message_id", "subject"]
    assert stream.frame().columns == [*usual, "body", "binary_body"]
    with pytest.raises(PySparkException, match="there is no column 'colour' here; there are queue, claim"):
        stream.frame(columns="colour")


@pytest.mark.core
def test_a_batch_that_failed_comes_again_as_it_was(stream: Stream, queue: Queue) -> None:
    send(queue, 1, 2)

    def fail(batch: DataFrame, _number: int) -> None:
        stream.note(batch, _number)
        raise RuntimeError("no")

    with pytest.raises(PySparkException, match="no"):
        stream.run(fail)
    send(queue, 3)
    assert stream.batches == [(1, [1, 2])]
    assert stream.run() == [(1, [1, 2]), (2, [3])]


def test_without_its_checkpoint_a_batch_that_was_not_settled_comes_again_and_no_other(
    stream: Stream, queue: Queue, tmp_path: Path
) -> None:
    send(queue, 1, 2)

    def fail_on_the_second(batch: DataFrame, number: int) -> None:
        stream.note(batch, number)
        if number == 1:
            raise RuntimeError("no")

    with pytest.raises(PySparkException):
        stream.run(fail_on_the_second, maxMessagesPerTrigger="1")
    stream.checkpoint = tmp_path / "another"
    assert stream.run() == [(2, [2])]


def test_messages_sent_meanwhile_are_left_for_the_next_run(stream: Stream, queue: Queue) -> None:
    send(queue, 1, 2)

    def send_more(batch: DataFrame, number: int) -> None:
        stream.note(batch, number)
        send(queue, 9)

    assert stream.run(send_more, maxMessagesPerTrigger="1") == [(1, [1]), (2, [2])]
    assert [message.body for message in queue.peek(max_messages=10)] == [9, 9]


def test_locks_are_renewed_while_a_batch_is_worked_on(stream: Stream, queue: Queue) -> None:
    send(queue, 1, 2, 3)
    seen: list[Any] = []

    def until_renewed_twice(_batch: DataFrame, _number: int) -> None:
        with stream.database.connect(autocommit=True) as connection:
            while len(set(seen)) < 3:
                seen.extend(connection.execute("select distinct locked_until from pgqueue.message").fetchall())

    stream.run(until_renewed_twice, lockDuration="1")
    assert queue.peek() == []


def test_a_query_that_is_given_up_lets_go_when_its_locks_run_out(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    with pytest.raises(PySparkException):
        stream.run(lambda *_: 1 / 0)  # type: ignore[arg-type]
    assert queue.receive() == []
    stream.database.move_clock(timedelta(seconds=301))
    assert [message.body for message in queue.receive()] == [1]
    assert stream.run() == []


def test_a_second_query_with_the_same_consumer_is_refused(stream: Stream, queue: Queue, tmp_path: Path) -> None:
    send(queue, 1)
    begun, may_end = threading.Event(), threading.Event()

    def wait(_batch: DataFrame, _number: int) -> None:
        begun.set()
        may_end.wait()

    first = stream.start(wait)
    while not begun.wait(1):
        assert first.isActive
    second = Stream(stream.spark, stream.database, tmp_path / "second")
    try:
        with pytest.raises(PySparkException, match="consumer 'ledger' is in use by another session"):
            second.run()
    finally:
        may_end.set()
    first.awaitTermination()
    assert queue.peek() == []


def test_a_consumer_of_another_queue_is_refused(stream: Stream, queue: Queue) -> None:
    stream.run()
    with QueueClient(stream.database.dsn) as client:
        client.create_queue("elsewhere")
    with pytest.raises(PySparkException, match="queue must be that of consumer 'ledger', q, not elsewhere"):
        stream.run(queue="elsewhere")


def test_a_database_from_before_the_checkpoint_is_not_consumed(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    stream.run()
    with stream.database.connect(autocommit=True) as connection:
        connection.execute("delete from pgqueue.consumer")
    send(queue, 2)
    with pytest.raises(PySparkException, match="the checkpoint is at claim 1 of consumer 'ledger', whose last claim"):
        stream.run()
    assert [message.body for message in queue.peek()] == [2]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"consumer": ""}, "'consumer' is missing"),
        ({"queue": "nowhere"}, "queue nowhere does not exist"),
        ({"maxMessagesPerTrigger": "0"}, "'maxMessagesPerTrigger' must be a whole number, 1 or more, not '0'"),
        ({"lockDuration": "soon"}, "'lockDuration' must be a number of seconds above 0, not 'soon'"),
        ({"colour": "red"}, "there is no option 'colour'"),
    ],
)
def test_a_wrong_option_is_named(stream: Stream, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(PySparkException, match=complaint):
        stream.run(None, **options)


class Ledger:
    """Effects in the queue's own database, each row one."""

    def __init__(self, database: Database) -> None:
        self.dsn = database.dsn
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("create table effects (body text, batch int)")
        self.calls = 0

    def post(self, batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        self.calls += 1
        for row in batch.collect():
            transaction.execute("insert into effects values (%s, %s)", [row["body"], self.calls])

    def effects(self) -> list[tuple[str, int]]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute("select body, batch from effects order by body, batch").fetchall()


def test_messages_are_completed_in_the_transaction_of_their_effects(stream: Stream, queue: Queue) -> None:
    ledger = Ledger(stream.database)
    send(queue, 1, 2)

    @pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)
    def fail_once(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        ledger.post(batch, transaction)
        if ledger.calls == 1:
            raise RuntimeError("after its effects")

    with pytest.raises(PySparkException, match="after its effects"):
        stream.run(fail_once)
    assert ledger.effects() == []
    stream.run(fail_once)
    assert ledger.effects() == [("1", 2), ("2", 2)]
    assert queue.peek() == []


def test_a_batch_that_took_effect_and_comes_again_does_nothing(stream: Stream, queue: Queue, tmp_path: Path) -> None:
    ledger = Ledger(stream.database)
    send(queue, 1)
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(ledger.post)

    def forget(batch: DataFrame, number: int) -> None:
        post(batch, number)
        raise RuntimeError("before Spark wrote it down")

    with pytest.raises(PySparkException, match="before Spark wrote it down"):
        stream.run(forget)
    stream.run(post)
    stream.checkpoint = tmp_path / "another"
    stream.run(post)
    assert ledger.effects() == [("1", 1)]


def test_a_batch_of_which_a_lock_was_lost_takes_no_effect(stream: Stream, queue: Queue) -> None:
    ledger = Ledger(stream.database)
    send(queue, 1, 2)
    with pytest.raises(PySparkException):
        stream.run(lambda *_: 1 / 0)  # type: ignore[arg-type]
    stream.database.move_clock(timedelta(seconds=301))
    (taken,) = queue.receive()
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(ledger.post)
    with pytest.raises(PySparkException, match="consumer 'ledger' has lost 1 of the 2 locks of claim 1"):
        stream.run(post, onLostLocks="fail")
    assert ledger.effects() == []
    taken.complete()
    stream.run(post)  # by default what is left goes back to the queue, and comes in the next claim
    assert [body for body, _ in ledger.effects()] == ["2"]
    assert queue.peek() == []


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_stream_outlives_a_server_that_goes_down_between_batches_and_within_one(
    spark: SparkSession, throwaway_server: ThrowawayServer, tmp_path: Path, mode: str
) -> None:
    database = Database(throwaway_server.dsn("postgres"))
    migrate(database.dsn)
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        send(client.queue("q"), *range(6))
    stream, ledger, batches = Stream(spark, database, tmp_path / "checkpoint"), Ledger(database), 0

    @pgqueue.spark.in_transaction("ledger", dsn=database.dsn)
    def post(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        ledger.post(batch, transaction)
        if ledger.calls == 2:
            throwaway_server.restart(mode)

    def post_and_restart(batch: DataFrame, number: int) -> None:
        nonlocal batches
        batches += 1
        post(batch, number)
        if batches == 1:
            throwaway_server.restart(mode)

    stream.run(post_and_restart, maxMessagesPerTrigger="2")
    assert ledger.effects() == [("0", 1), ("1", 1), ("2", 3), ("3", 3), ("4", 4), ("5", 4)]
    assert open_claims(database) == [(None, None)]


def test_the_claim_of_an_empty_batch_is_completed_with_its_effects(stream: Stream, queue: Queue) -> None:
    send(queue, 1, 2)
    calls: list[int] = []

    @pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)
    def count(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
        calls.append(batch.count())
        assert open_claims(stream.database) == [(1, 2)]

    frame = stream.frame().where("body = 'none'")
    writer = frame.writeStream.foreachBatch(count).option("checkpointLocation", str(stream.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert calls == [0]
    assert queue.peek() == []


def test_each_claim_of_two_streams_in_one_query_is_completed_with_the_batch(stream: Stream, queue: Queue) -> None:
    ledger = Ledger(stream.database)
    with QueueClient(stream.database.dsn) as client:
        client.create_queue("other")
        send(queue, 1)
        both = stream.frame().union(stream.frame(queue="other", consumer="others"))
        post = pgqueue.spark.in_transaction("ledger", "others", dsn=stream.database.dsn)(ledger.post)
        writer = both.writeStream.foreachBatch(post).option("checkpointLocation", str(stream.checkpoint))
        for more in (2, 3):
            writer.trigger(availableNow=True).start().awaitTermination()
            send(client.queue("other"), more)
        writer.trigger(availableNow=True).start().awaitTermination()
        assert client.queue("other").peek() == []
    assert ledger.effects() == [("1", 1), ("2", 2), ("3", 3)]
    assert queue.peek() == []


class Union:
    """A query that reads the queue, and files of a directory besides."""

    def __init__(self, stream: Stream, directory: Path) -> None:
        self.stream = stream
        self.directory = directory
        directory.mkdir()

    def add(self, body: str) -> None:
        (self.directory / f"{body}.json").write_text(json.dumps({"body": body}))

    def run(self, work: Callable[[DataFrame, int], None]) -> None:
        files = self.stream.spark.readStream.schema("body string").json(str(self.directory))
        writer = self.stream.frame().select("body").union(files).writeStream.foreachBatch(work)
        checkpoint = str(self.stream.checkpoint)
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def test_a_batch_of_another_source_takes_effect_once_without_a_claim(
    stream: Stream, queue: Queue, tmp_path: Path
) -> None:
    ledger, union = Ledger(stream.database), Union(stream, tmp_path / "files")
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(ledger.post)

    def forget(batch: DataFrame, number: int) -> None:
        post(batch, number)
        raise RuntimeError("before Spark wrote it down")

    union.add("a")
    with pytest.raises(PySparkException, match="before Spark wrote it down"):
        union.run(forget)
    union.run(post)
    send(queue, 1)
    union.run(post)
    union.add("b")
    union.run(post)
    assert ledger.effects() == [("1", 2), ("a", 1), ("b", 3)]
    assert queue.peek() == []


def test_another_source_loses_nothing_with_an_older_checkpoint(stream: Stream, queue: Queue, tmp_path: Path) -> None:
    ledger, union = Ledger(stream.database), Union(stream, tmp_path / "files")
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(ledger.post)
    send(queue, 1)
    union.run(post)
    older = shutil.copytree(stream.checkpoint, tmp_path / "older")
    union.add("a")
    union.run(post)
    send(queue, 2)
    union.run(post)
    stream.checkpoint = older
    union.add("b")
    union.run(post)
    assert [body for body, _ in ledger.effects()] == ["1", "2", "a", "a", "b"]  # a is read again: it is a file


def test_windows_that_close_without_a_claim_are_passed_on(stream: Stream, queue: Queue) -> None:
    ledger = Ledger(stream.database)
    send(queue, 1)
    stream.database.move_clock(timedelta(hours=2))
    send(queue, 2)
    windows = stream.frame().withWatermark("enqueued_time", "1 minute").groupBy(window("enqueued_time", "1 hour"))
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(ledger.post)
    bodies = windows.agg(max_by("body", "enqueued_time").alias("body"))

    def run(work: Callable[[DataFrame, int], None]) -> None:
        writer = bodies.writeStream.foreachBatch(work).option("checkpointLocation", str(stream.checkpoint))
        writer.outputMode("append").trigger(availableNow=True).start().awaitTermination()

    def forget_the_second(batch: DataFrame, number: int) -> None:
        post(batch, number)
        if number == 1:
            raise RuntimeError("before Spark wrote it down")

    with pytest.raises(PySparkException, match="before Spark wrote it down"):
        run(forget_the_second)
    assert [body for body, _ in ledger.effects()] == ["1"]
    run(post)
    assert [body for body, _ in ledger.effects()] == ["1"]


def test_a_consumer_that_the_query_does_not_read_for_is_named_in_the_error(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    post = pgqueue.spark.in_transaction("legder", dsn=stream.database.dsn)(Ledger(stream.database).post)
    with pytest.raises(PySparkException, match="no stream of consumer 'legder', only of ledger"):
        stream.run(post)


def test_outside_of_a_batch_nothing_is_settled(stream: Stream, queue: Queue) -> None:
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(Ledger(stream.database).post)
    with pytest.raises(PipelineError, match="call this from foreachBatch"):
        post(stream.spark.range(1), 0)


def test_jobs_of_another_group_may_be_of_another_run(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(Ledger(stream.database).post)

    def post_in_a_group(batch: DataFrame, number: int) -> None:
        batch.sparkSession.sparkContext.setJobGroup("mine", "of my own")
        post(batch, number)

    with pytest.raises(PySparkException, match="its job group was changed"):
        stream.run(post_in_a_group)
    assert open_claims(stream.database) == [(1, 1)]


def ended(database: Database) -> None:
    """The session of the consumer is gone."""
    session = """select pid from pg_stat_activity
                  where datname = current_database() and application_name = 'pgqueue stream ledger'"""
    with database.connect(autocommit=True) as connection:
        connection.execute(f"select pg_terminate_backend(pid) from ({session}) as its".encode())
        while connection.execute(session.encode()).fetchall():
            pass


def test_a_reader_whose_session_was_ended_attaches_again_and_goes_on(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    with closing(ConsumerSession(Instance(stream.database.dsn), "ledger", "q", timedelta(hours=1))) as session:
        assert session.claim_batch(0, 10, None) == 1
        before = session.held
        ended(stream.database)
        session.begin(1)
        assert session.held.epoch > before.epoch
        session._renew(before)  # was under way meanwhile
        session._renew(session.held)
        assert session.claim_batch(1, 10, None) == 1
    assert queue.peek() == []


def test_a_reader_that_was_overtaken_renews_no_lock_and_fails(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    with closing(ConsumerSession(Instance(stream.database.dsn), "ledger", "q", timedelta(seconds=0.5))) as session:
        assert session.claim_batch(0, 10, None) == 1
        ended(stream.database)
        with stream.database.connect(autocommit=True) as other:
            other.execute("select pgqueue.attach_consumer('ledger', 'q')")
            session._renewals.join()
            with pytest.raises(psycopg.Error, match="is not the current one"):
                session.begin(1)


def test_a_batch_that_is_read_when_it_is_completed_fails_and_is_not_empty(stream: Stream, queue: Queue) -> None:
    send(queue, 1)
    post = pgqueue.spark.in_transaction("ledger", dsn=stream.database.dsn)(Ledger(stream.database).post)

    def post_and_look(batch: DataFrame, number: int) -> None:
        post(batch, number)
        batch.collect()

    with pytest.raises(PySparkException, match="claim 1 of consumer 'ledger' is settled"):
        stream.run(post_and_look)


def test_a_consumer_must_be_named_for_a_transaction() -> None:
    with pytest.raises(OptionError, match="needs the name of a consumer"):
        pgqueue.spark.in_transaction(dsn="postgresql://")


def test_each_message_goes_from_queue_to_queue_once(stream: Stream, queue: Queue, tmp_path: Path) -> None:
    with QueueClient(stream.database.dsn) as client:
        client.create_queue("next")
    send(queue, *range(10))

    def forward(checkpoint: Path) -> None:
        frame = stream.frame(maxMessagesPerTrigger="4").select("body", "message_id")
        writer = frame.writeStream.format("pgqueue").options(dsn=stream.database.dsn, queue="next")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    forward(stream.checkpoint)
    for written_down in (stream.checkpoint / "commits").iterdir():
        if "2" in written_down.name:
            written_down.unlink()
    forward(stream.checkpoint)
    with stream.database.connect() as connection:
        sent = connection.execute(
            "select body::int from pgqueue.messages where queue = 'next' order by sequence_number"
        ).fetchall()
        published = connection.execute("select part, sent from pgqueue.published_batch").fetchall()
    assert sorted(body for (body,) in sent) == list(range(10))
    assert published == [(2, 2)]
