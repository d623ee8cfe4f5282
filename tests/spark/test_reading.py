"""A DataFrame of messages shows the rows of the views, each message once, also when messages change meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import psutil
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from pgqueue.spark import reading, relations
from pgqueue.spark.errors import ColumnError, OptionError
from pgqueue.spark.options import Options
from pgqueue.spark.report.requirements import HISTORY, check
from pgqueue.testing.database import Database

VIEWS = {
    "messages": "messages",
    "dead_letters": "dead_letters",
    "deferred": "deferred_messages",
    "scheduled": "scheduled_messages",
    "history": "history",
}

ONE_OF_EACH = """
select pgqueue.create_queue('orders', retain_history => '7 days', default_message_time_to_live => '30 days');
select pgqueue.create_queue('bills', retain_history => '7 days');
select pgqueue.create_queue('forgetful');
select pgqueue.send_batch('orders', array(select jsonb_build_object('n', n, 'é', '''"\\') from generate_series(1, 9) n),
    message_ids => array(select 'id ' || n from generate_series(1, 9) n));
select pgqueue.send('bills', null, binary_body => '\\x00ff', priority => 3, application_properties => '{"a": [1]}');
select pgqueue.send('forgetful', '1');
select pgqueue.schedule('orders', '"later"', pgqueue.clock() + interval '1 hour');
select pgqueue.defer(name, sequence_number, lock_token)
  from pgqueue.receive('orders', 2) join pgqueue.queue on queue.id = queue_id;
select pgqueue.dead_letter(name, sequence_number, lock_token, 'Broken', 'it fell')
  from pgqueue.receive('orders', 2) join pgqueue.queue on queue.id = queue_id;
select pgqueue.complete(name, sequence_number, lock_token)
  from pgqueue.receive('orders', 2) join pgqueue.queue on queue.id = queue_id;
select pgqueue.receive_and_delete('forgetful');
select pgqueue.receive('orders', 1, locked_by => 'a receiver');
"""


@pytest.fixture
def orders(database: Database) -> Database:
    """A database with messages in every state; `forgetful` retains no history."""
    with database.connect() as connection:
        connection.execute(ONE_OF_EACH)
    return database


@pytest.fixture
def crowd(database: Database) -> Database:
    """A thousand messages in a hundred blocks, that can be claimed and settled."""
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('crowd', max_delivery_count => 100)")
        connection.execute(
            "select pgqueue.send_batch('crowd', array(select to_jsonb(repeat('x', 300)) from generate_series(1, 1000)))"
        )
    return database


def frame(spark: SparkSession, database: Database, **options: str | int) -> DataFrame:
    return spark.read.format("pgqueue").options(dsn=database.dsn, **options).load()


def reader(database: Database, **options: str) -> reading.QueueReader:
    schema = relations.schema(Options(options, reading.OPTIONS))
    return reading.QueueReader({"dsn": database.dsn, **options}, schema)


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column("sequence_number").to_pylist()]


def in_the_view(database: Database, view: str) -> list[dict[str, Any]]:
    with database.connect(row_factory=psycopg.rows.dict_row) as connection:
        rows = connection.execute(sql.SQL("select * from pgqueue.{}").format(sql.Identifier(view))).fetchall()
    return [
        {
            name: _as_spark_shows(name, value)
            for name, value in row.items()
            if name not in {"last_error", "resubmitted_from", "dead_letter_source"}
        }
        for row in rows
    ]


def _as_spark_shows(name: str, value: Any) -> Any:
    if name in {"body", "application_properties"}:
        return value if value is None else json.dumps(value, sort_keys=True)
    if name == "transaction_id":
        return int(value)
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["queue"], row["sequence_number"]))


@pytest.mark.parametrize("table", VIEWS)
def test_a_table_is_what_its_view_shows(spark: SparkSession, orders: Database, table: str) -> None:
    arrived = [row.asDict() for row in frame(spark, orders, table=table, numPartitions=2, columns="*").collect()]
    for row in arrived:
        for name in {"body", "application_properties"} & row.keys():
            row[name] = row[name] and json.dumps(json.loads(row[name]), sort_keys=True)
        for name, value in row.items():
            row[name] = bytes(value) if isinstance(value, bytearray) else value
            if isinstance(value, datetime) and table != "history":  # the other views show whole seconds
                row[name] = value.replace(microsecond=0)
    expected = in_the_view(orders, VIEWS[table])
    assert expected
    assert _sorted(arrived) == _sorted(expected)


@pytest.mark.core
def test_messages_are_read_without_options(spark: SparkSession, orders: Database) -> None:
    assert {row.sequence_number for row in frame(spark, orders).collect()} == {
        row["sequence_number"] for row in in_the_view(orders, "messages")
    }


@pytest.mark.parametrize("table", VIEWS)
def test_numbers_and_bodies_are_read_when_no_columns_are_named(
    spark: SparkSession, orders: Database, table: str
) -> None:
    usual, every = (frame(spark, orders, table=table, **columns) for columns in ({}, {"columns": "*"}))
    wanted = {"queue", "sequence_number", "enqueued_time", "delivery_count", "message_id", "subject"}
    assert wanted | (set() if table == "history" else {"body", "binary_body"}) <= set(usual.columns)
    assert len(usual.columns) < len(every.columns)
    assert sorted(usual.collect()) == sorted(every.select(*usual.columns).collect())


def test_a_report_can_be_made_of_what_is_read_of_the_history(spark: SparkSession, orders: Database) -> None:
    check(frame(spark, orders, table="history"), "history", HISTORY, "")


def test_a_time_that_never_comes_is_null(orders: Database) -> None:
    with orders.connect() as connection:
        connection.execute("update pgqueue.scheduled_message set expires_at = 'infinity'")
    scheduled = reader(orders, table="scheduled", columns="expires_at")
    (part,) = scheduled.partitions()
    assert [batch.to_pylist() for batch in scheduled.read(part)] == [[{"expires_at": None}]]


def test_one_queue_or_all(spark: SparkSession, orders: Database) -> None:
    assert {row.queue for row in frame(spark, orders).collect()} == {"orders", "bills"}
    assert {row.queue for row in frame(spark, orders, queue="bills").collect()} == {"bills"}


def test_an_unknown_queue_is_named(orders: Database) -> None:
    with pytest.raises(OptionError, match="no queue 'ordres'"):
        reader(orders, queue="ordres").partitions()


def test_only_the_columns_asked_for_in_that_order(spark: SparkSession, orders: Database) -> None:
    assert frame(spark, orders, columns="subject, sequence_number").columns == ["subject", "sequence_number"]


def test_an_unknown_column_is_named(database: Database) -> None:
    with pytest.raises(OptionError, match="no column 'boddy'"):
        reader(database, columns="body,boddy")


def test_a_schema_of_the_callers_is_checked(database: Database) -> None:
    with pytest.raises(ColumnError, match="'sequence_number' is bigint, not string"):
        reading.QueueReader({"dsn": "postgresql://nowhere"}, StructType().add("sequence_number", StringType()))
    with pytest.raises(ColumnError, match="no column 'boddy'"):
        reading.QueueReader({"dsn": "postgresql://nowhere"}, StructType().add("boddy", StringType()))


def test_an_unknown_table_or_option_is_named(database: Database) -> None:
    with pytest.raises(OptionError, match="not 'mesages'"):
        reader(database, table="mesages")
    with pytest.raises(OptionError, match="'quue'"):
        reading.QueueReader({"dsn": "postgresql://nowhere", "quue": "x"}, StructType())


def test_nothing_is_changed(orders: Database) -> None:
    before = in_the_view(orders, "messages")
    asked = reader(orders)
    assert numbers(asked.read(asked.partitions()[0]))
    assert in_the_view(orders, "messages") == before


def shuffle(database: Database) -> None:
    """Every message is claimed and abandoned until it lies in another block, some are settled, others are sent."""
    with database.connect(autocommit=True) as connection:
        before = _places(connection)
        for _ in range(3):
            connection.execute("""
                select pgqueue.abandon('crowd', sequence_number, lock_token)
                  from pgqueue.receive('crowd', 1000) order by random()""")
        connection.execute("select count(*) from pgqueue.receive_and_delete('crowd', 300)")
        connection.execute("select pgqueue.send('crowd', '0')")
        after = _places(connection)
    assert sum(block != before.get(number) for number, block in after.items()) > 300
    assert len(after) == 701


def _places(connection: psycopg.Connection[Any]) -> dict[int, int]:
    rows = connection.execute("select sequence_number, (ctid::text::point)[0]::int from pgqueue.message").fetchall()
    return dict(rows)


def test_messages_that_move_while_they_are_read_are_seen_once(crowd: Database) -> None:
    asked = reader(crowd, numPartitions="4")
    parts = asked.partitions()
    seen = numbers(asked.read(parts[0]))
    shuffle(crowd)
    for part in parts[1:]:
        seen += numbers(asked.read(part))
    assert len(parts) == 4
    assert sorted(seen) == list(range(1, 1001))


def test_so_they_are_in_spark(spark: SparkSession, crowd: Database) -> None:
    rows = frame(spark, crowd, numPartitions=4, columns="sequence_number").toLocalIterator()
    seen = [next(rows).sequence_number]
    shuffle(crowd)
    seen += [row.sequence_number for row in rows]
    assert sorted(seen) == list(range(1, 1001))


def test_all_parts_judge_by_one_moment(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('q')")
        connection.execute("select pgqueue.send('q', to_jsonb(n)) from generate_series(1, 500) n")
        connection.execute("select count(*) from pgqueue.receive('q', 500, lock_duration => '1 minute')")
    asked = reader(database, numPartitions="3", columns="state")
    parts = asked.partitions()
    database.clock.move(timedelta(hours=1))
    states = [state for part in parts for batch in asked.read(part) for state in batch.column("state").to_pylist()]
    assert states == ["LOCKED"] * 500


def test_the_days_of_history_are_spread_over_the_parts(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('q', retain_history => '60 days')")
    for _ in range(3):
        with database.connect() as connection:
            connection.execute("select pgqueue.send('q', to_jsonb(n)) from generate_series(1, 400) n")
            connection.execute("select count(*) from pgqueue.receive_and_delete('q', 400)")
        database.clock.move(timedelta(days=1))
    asked = reader(database, table="history", numPartitions="5")
    shares = [numbers(asked.read(part)) for part in asked.partitions()]
    assert sorted(chain(*shares)) == list(range(1, 1201))
    assert all(100 < len(share) < 400 for share in shares)


def test_parts_are_cut_by_size() -> None:
    stretches = [relations.Stretch(0, 10, 3), relations.Stretch(0, 5, 4)]
    assert reading.cut(stretches, 2) == [
        [relations.Stretch(0, 7, 3)],
        [relations.Stretch(7, 10, 3), relations.Stretch(0, 5, 4)],
    ]
    assert reading.cut([], 8) == [[]]
    assert len(reading.cut([relations.Stretch(0, 5)], 8)) == 5
    gigabyte = relations.Stretch(0, 2**30 // 8192)
    assert len(reading.cut([gigabyte], None)) == 8
    assert len(reading.cut([gigabyte] * 100, None)) == 64


def test_memory_does_not_grow_with_the_table(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('q')")
        connection.execute(
            "select pgqueue.send('q', null, binary_body => convert_to(repeat('x', 50000), 'utf8'))"
            " from generate_series(1, 5000)"
        )
    asked, process = reader(database, columns="binary_body"), psutil.Process()
    before = process.memory_info().rss
    read, most = 0, 0
    for batch in asked.read(asked.partitions()[0]):
        read += batch.nbytes
        most = max(most, process.memory_info().rss - before)
    assert read > 250_000_000
    assert most < 120_000_000
