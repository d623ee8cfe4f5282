"""The tail of the history: each settlement once, however late its transaction ends, and the same again on a replay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pgqueue.spark import relations
from pgqueue.spark.errors import CheckpointError, OptionError
from pgqueue.spark.options import Options
from pgqueue.spark.tailing import OPTIONS, HistoryTail, Offset, Seen
from pgqueue.testing.clock import MOVE
from pgqueue.testing.database import Database


@pytest.fixture
def orders(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('orders', retain_history => '7 days')")
        connection.execute("select pgqueue.create_queue('bills', retain_history => '7 days')")
        connection.execute("select pgqueue.send('orders', to_jsonb(n)) from generate_series(1, 100) n")
    return database


def settle(connection: psycopg.Connection[Any], queue: str = "orders") -> int:
    """Settles the next message in the transaction that is open, and returns its number."""
    row = connection.execute("select sequence_number from pgqueue.receive_and_delete(%s)", [queue]).fetchone()
    assert row is not None
    return int(row[0])


def settled(database: Database, queue: str = "orders") -> int:
    with database.connect() as connection:
        return settle(connection, queue)


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column("sequence_number").to_pylist()]


class Stream:
    """A tail without Spark, called as Spark calls it."""

    def __init__(self, database: Database, **options: str) -> None:
        options = {"dsn": database.dsn, "table": "history", **options}
        schema = relations.schema(Options(options, OPTIONS))
        self.tail = HistoryTail(options, schema)
        self.offset = self.tail.initialOffset()
        self.batches: list[tuple[dict[str, Any], dict[str, Any], list[int]]] = []

    def step(self) -> list[int]:
        """One trigger; Spark makes a batch of it when the offset is another one."""
        end = self.tail.latestOffset(self.offset, ReadAllAvailable())
        if end == self.offset:
            return []
        found = self.rows(self.offset, end)
        self.batches.append((self.offset, end, found))
        self.offset = end
        return found

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        return sorted(number for part in self.tail.partitions(start, end) for number in numbers(self.tail.read(part)))


def run(spark: SparkSession, database: Database, directory: Path, **options: str) -> list[int]:
    """Once with AvailableNow, from the checkpoint in the directory; what has arrived there so far."""
    frame = spark.readStream.format("pgqueue").options(dsn=database.dsn, table="history", **options).load()
    writer = frame.select("sequence_number").writeStream.format("parquet").trigger(availableNow=True)
    query = writer.start(str(directory / "rows"), checkpointLocation=str(directory / "checkpoint"))
    assert query.awaitTermination(60)
    schema = "sequence_number bigint"
    return sorted(row.sequence_number for row in spark.read.schema(schema).parquet(str(directory / "rows")).collect())


def test_an_older_transaction_that_ends_late_is_waited_for(
    spark: SparkSession, orders: Database, tmp_path: Path
) -> None:
    first = settled(orders)
    with orders.connect() as late:
        second = settle(late)
        third = settled(orders)
        assert third > second
        assert run(spark, orders, tmp_path) == [first]
    assert run(spark, orders, tmp_path) == [first, second, third]
    assert run(spark, orders, tmp_path) == [first, second, third]
    assert run(spark, orders, tmp_path, numPartitions="2") == [first, second, third]


def test_earlier_settlements_are_left_out_when_starting_from_latest(
    spark: SparkSession, orders: Database, tmp_path: Path
) -> None:
    settled(orders)
    assert run(spark, orders, tmp_path, startingFrom="latest") == []
    second = settled(orders)
    assert run(spark, orders, tmp_path, startingFrom="latest") == [second]


def test_nothing_is_lost_from_latest_when_spark_asks_twice(orders: Database) -> None:
    stream = Stream(orders, startingFrom="latest")
    first = settled(orders)
    end = stream.tail.latestOffset(stream.offset, ReadAllAvailable())
    again = stream.tail.initialOffset()
    assert stream.rows(again, end) == []
    stream.offset = end
    stream.tail = HistoryTail(
        {"dsn": orders.dsn, "table": "history"}, relations.schema(Options({"table": "history"}, OPTIONS))
    )
    assert stream.step() == [first]


class Settlers:
    """Settles messages now and then, in transactions that stay open for a while."""

    def __init__(self, database: Database, chance: random.Random, stack: ExitStack) -> None:
        self._database, self._chance, self._stack = database, chance, stack
        self._open: list[psycopg.Connection[Any]] = []
        self.expected: list[int] = []

    def at_once(self) -> None:
        self.expected.append(settled(self._database))

    def begin(self) -> None:
        self._open.append(self._stack.enter_context(self._database.connect()))
        self.more()

    def more(self) -> None:
        if self._open:
            self.expected.append(settle(self._chance.choice(self._open)))

    def end(self) -> None:
        if self._open:
            self._open.pop(self._chance.randrange(len(self._open))).commit()

    def end_all(self) -> None:
        while self._open:
            self.end()

    def wait(self) -> None:
        self._database.clock.move(timedelta(minutes=self._chance.choice([1, 20, 300])))


@pytest.mark.parametrize("seed", range(4))
def test_each_settlement_comes_once_despite_open_transactions(orders: Database, seed: int) -> None:
    chance, stream, seen = random.Random(seed), Stream(orders), []
    with ExitStack() as stack:
        settlers = Settlers(orders, chance, stack)
        for _ in range(40):
            chance.choice([settlers.at_once, settlers.begin, settlers.more, settlers.end, settlers.wait])()
            if chance.random() < 0.5:
                seen += stream.step()
        settlers.end_all()
        for _ in range(3):
            seen += stream.step()
    assert sorted(seen) == sorted(settlers.expected)
    for start, end, found in stream.batches:
        assert stream.rows(start, end) == found


def test_batches_are_soon_bounded_in_time(orders: Database) -> None:
    stream = Stream(orders)
    for _ in range(3):
        settled(orders)
        stream.step()
        orders.clock.move(timedelta(hours=1))
    end = Offset(**stream.offset)
    assert orders.clock.now() - timedelta(hours=2, minutes=1) < datetime.fromisoformat(end.since)
    with orders.connect() as connection:
        (statement,) = (part.statement for part in stream.tail.partitions(*stream.batches[-1][:2]))
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(b"explain " + statement.encode()))
    assert "Index Cond: (settled_at >=" in plan


def test_the_bound_waits_for_all_that_was_open_when_it_was_taken() -> None:
    start = Offset(100, "t0", "s", fence=120, fence_at="t0")
    still_open = start.advanced(Seen("t1", 110, 130))
    assert still_open == Offset(110, "t1", "s", fence=120, fence_at="t0")
    passed = still_open.advanced(Seen("t2", 125, 140))
    assert passed == Offset(125, "t2", "s", fence=120, fence_at="t0")
    assert passed.advanced(Seen("t3", 126, 150)) == Offset(126, "t3", "t0", fence=150, fence_at="t3")


def test_an_open_transaction_counts_as_newer_than_all_that_have_ended(orders: Database) -> None:
    stream = Stream(orders)
    first = settled(orders)
    with orders.connect() as late:
        second = settle(late)
        late.execute(MOVE, [timedelta(hours=1) // timedelta(microseconds=1)])  # takes no id of its own
        assert stream.step() == [first]
    assert stream.step() == [second]


def test_nothing_new_is_no_batch(orders: Database) -> None:
    stream = Stream(orders)
    assert stream.step() == []
    assert not stream.batches
    assert stream.step() == []
    first = settled(orders)
    assert stream.step() == [first]
    assert len(stream.batches) == 1


def test_a_replay_has_the_rows_that_are_not_retained_any_more(orders: Database) -> None:
    stream = Stream(orders)
    first = settled(orders)
    assert stream.step() == [first]
    orders.clock.move(timedelta(days=8))
    start, end, found = stream.batches[0]
    assert stream.rows(start, end) == found


def test_available_now_ends_at_what_was_there(orders: Database) -> None:
    stream = Stream(orders)
    first = settled(orders)
    stream.tail.prepareForTriggerAvailableNow()
    settled(orders)
    assert stream.step() == [first]
    assert stream.step() == []


def test_one_queue_of_several(orders: Database) -> None:
    with orders.connect() as connection:
        connection.execute("select pgqueue.send('bills', '1')")
    settled(orders)
    bill = settled(orders, "bills")
    assert Stream(orders, queue="bills").step() == [bill]


def test_many_parts_have_the_rows_of_one(orders: Database) -> None:
    with orders.connect() as connection:
        connection.execute("select pgqueue.send('orders', to_jsonb(n)) from generate_series(1, 1000) n")
        connection.execute("select count(*) from pgqueue.receive_and_delete('orders', 1000)")
    stream = Stream(orders, numPartitions="3")
    assert len(stream.step()) == 1000
    start, end, _ = stream.batches[0]
    assert len(stream.tail.partitions(start, end)) == 3


def test_a_checkpoint_of_another_database_is_refused(orders: Database) -> None:
    stream = Stream(orders)
    settled(orders)
    stream.step()
    stream.offset["transaction"] += 1_000_000
    with pytest.raises(CheckpointError, match="another database, or a restored one"):
        stream.step()


def test_only_the_history_is_tailed(database: Database) -> None:
    with pytest.raises(OptionError, match="consumes a queue with option"):
        HistoryTail({"dsn": database.dsn}, relations.schema(Options({}, ())))
    with pytest.raises(OptionError, match="'maxmessagespertrigger'"):
        HistoryTail({"dsn": database.dsn, "maxMessagesPerTrigger": "1"}, relations.schema(Options({}, ())))
