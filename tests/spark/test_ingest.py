"""Files to a queue: repeated ingests send the same messages once, and unreadable files are named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgqueue import QueueClient
from pgqueue.errors import QueueNotFoundError
from pgqueue.spark import reason_of
from pgqueue.spark.errors import OptionError
from pgqueue.spark.pipelines import InputError, ingest, sending
from pgqueue.testing import Database

TABLES = ("message", "scheduled_message", "staged_batch", "published_batch", "consumer", "claim", "dead_letter")


def contents(database: Database) -> dict[str, Any]:
    """All that a pipeline could have changed."""
    with database.connect() as connection:
        rows = {
            table: connection.execute(f"select * from pgqueue.{table} order by 1, 2".encode()).fetchall()
            for table in TABLES
        }
        return rows | {"sequence": connection.execute("select last_value from pgqueue.sequence_number").fetchall()}


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        yield client


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two lines of JSON that a parser would not write again as they are."""
    file = tmp_path / "orders.jsonl"
    file.write_text(
        '{"id": 1, "shop": "eu", "sum": 12345678901234567890.10, "note": null}\n\n{"id": 2, "shop": "us"}\n'
    )
    return file


@contextmanager
def splits_of(spark: SparkSession, size: int) -> Iterator[None]:
    """Files are read in pieces of so many bytes, as another cluster might read them."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def bodies(client: QueueClient) -> list[Any]:
    return sorted((message.body for message in client.queue("orders").peek(max_messages=50)), key=str)


def test_the_same_files_are_sent_once(
    spark: SparkSession, database: Database, client: QueueClient, orders: Path
) -> None:
    first, second = (ingest(str(orders), "orders", dsn=database.dsn) for _ in range(2))
    assert (first.files, first.sent, first.duplicates, first.done_before) == (1, 2, 0, False)
    assert (second.sent, second.duplicates, second.done_before, second.job) == (2, 0, True, first.job)
    assert len(bodies(client)) == 2
    assert ingest(str(orders), "orders", dsn=database.dsn, again=True).done_before is False
    os.utime(orders, (1, 1))
    assert ingest(str(orders), "orders", dsn=database.dsn).done_before is False
    assert len(bodies(client)) == 6
    with database.connect() as connection:
        assert connection.execute("select count(*) from pgqueue.staged_batch").fetchone() == (0,)


def test_a_line_of_json_is_sent_as_it_stands(
    spark: SparkSession, database: Database, client: QueueClient, orders: Path
) -> None:
    ingest(str(orders), "orders", dsn=database.dsn, message_id="id", where="shop = 'eu'")
    with database.connect() as connection:
        row = connection.execute("select body::text, message_id from pgqueue.messages").fetchall()
    assert row == [('{"id": 1, "sum": 12345678901234567890.10, "note": null, "shop": "eu"}', "1")]


def test_fields_are_expressions_over_the_columns(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    spark.sql("select 7L as id, 'eu' as shop, timestamp '2100-01-01 00:00:00Z' as due").write.parquet(f"{tmp_path}/p")
    ingest(
        [f"{tmp_path}/p"],
        "orders",
        dsn=database.dsn,
        body="struct(id)",
        message_id="id",
        subject="concat('new.', shop)",
        correlation_id="shop",
        content_type="'application/json'",
        reply_to="concat(shop, '-answers')",
        application_properties="map('shop', shop)",
        priority="id",
        time_to_live="interval 2 hours",
        scheduled_enqueue_time="due",
    )
    (sent,) = client.queue("orders").peek(max_messages=9)
    assert (sent.body, sent.message_id, sent.subject) == ({"id": 7}, "7", "new.eu")
    assert (sent.correlation_id, sent.content_type, sent.priority) == ("eu", "application/json", 7)
    assert sent.reply_to == "eu-answers"
    assert sent.application_properties == {"shop": "eu"}
    assert sent.scheduled_enqueue_time is not None
    assert sent.expires_at == sent.scheduled_enqueue_time + timedelta(hours=2)


def test_a_dry_run_changes_nothing(spark: SparkSession, database: Database, client: QueueClient, orders: Path) -> None:
    before = contents(database)
    foreseen = ingest(str(orders), "orders", dsn=database.dsn, where="id > 1", dry_run=True)
    assert (foreseen.sent, foreseen.dry_run) == (1, True)
    assert foreseen.sample == ({"body": '{"id": 2, "shop": "us"}'},)
    assert contents(database) == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_line_of_csv_that_cannot_be_read_is_named_and_nothing_is_sent(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path, dry_run: bool
) -> None:
    (tmp_path / "good.csv").write_text("id,name\n1,one\n")
    (tmp_path / "bad.csv").write_text("id,name\n2,two\n3,three,drei\n")
    with pytest.raises(InputError, match=r"bad\.csv: this line cannot be read: 3,three,drei"):
        ingest(f"{tmp_path}/*.csv", "orders", dsn=database.dsn, body="to_json(named_struct('id', id))", dry_run=dry_run)
    assert bodies(client) == []


@pytest.mark.parametrize("subject", [None, "id"])
def test_a_line_that_is_no_json_is_named(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path, subject: str | None
) -> None:
    (tmp_path / "bad.json").write_text('{"id": 1}\n{"id": \n')
    with pytest.raises(InputError, match=r'bad\.json: this line cannot be read: {"id":'):
        ingest(f"{tmp_path}/bad.json", "orders", dsn=database.dsn, subject=subject)
    assert bodies(client) == []


def test_columns_of_csv_are_text_unless_they_are_inferred(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,zip\n1,01067\n")
    ingest(f"{tmp_path}/a.csv", "orders", dsn=database.dsn)
    ingest(f"{tmp_path}/a.csv", "orders", dsn=database.dsn, infer_schema=True)
    assert bodies(client) == [{"id": "1", "zip": "01067"}, {"id": 1, "zip": 1067}]


def test_messages_already_sent_by_a_failed_job_are_not_sent_again(
    spark: SparkSession, database: Database, client: QueueClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BYTES_OF_A_PART", 500)
    lines = [f'{{"id": {n}}}' for n in range(40)] + [f'{{"id": 40, "text": "{"x" * 2000}"}}']
    (tmp_path / "a.json").write_text("\n".join(lines))
    client.update_queue("orders", max_message_size=1000)
    with splits_of(spark, 300), pytest.raises(Exception, match="BadRowError"):
        ingest(f"{tmp_path}/a.json", "orders", dsn=database.dsn, atomicity="task")
    assert 0 < len(bodies(client)) < 40
    client.update_queue("orders", max_message_size=10_000)
    with splits_of(spark, 100):
        done = ingest(f"{tmp_path}/a.json", "orders", dsn=database.dsn, atomicity="task")
    assert (done.sent, done.done_before) == (41, False)
    assert sorted(body["id"] for body in bodies(client)) == list(range(41))
    assert ingest(f"{tmp_path}/a.json", "orders", dsn=database.dsn, atomicity="task").done_before


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_a_part_has_a_bounded_number_of_rows(
    spark: SparkSession,
    database: Database,
    client: QueueClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    monkeypatch.setattr(sending, "ROWS_OF_A_PART", 10)
    rows = spark.range(0, 99, 1, 1)
    rows.write.format(suffix).save(f"{tmp_path}/rows")
    done = ingest(f"{tmp_path}/rows", "orders", dsn=database.dsn, atomicity="task", infer_schema=True)
    assert done.sent == (98 if suffix == "csv" else 99)  # the first row of CSV is taken for the header
    assert done.job.endswith(" in 10 parts")


def test_a_name_that_stands_for_other_parts_is_refused(
    spark: SparkSession, database: Database, client: QueueClient, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BYTES_OF_A_PART", 20)
    sent = ingest(str(orders), "orders", dsn=database.dsn, atomicity="task", job="daily").sent
    with pytest.raises(OptionError, match=r"'job daily in \d+ parts' was sent with other files"):
        ingest(str(orders), "orders", dsn=database.dsn, job="daily")
    assert len(bodies(client)) == sent


def test_duplicates_are_counted_and_a_repetition_returns_the_same_counts(
    spark: SparkSession, database: Database, client: QueueClient, orders: Path
) -> None:
    client.update_queue("orders", requires_duplicate_detection=True)
    ingest(str(orders), "orders", dsn=database.dsn, message_id="1", where="shop = 'eu'")
    done = ingest(str(orders), "orders", dsn=database.dsn, message_id="1", where="shop = 'us'")
    again = ingest(str(orders), "orders", dsn=database.dsn, message_id="1", where="shop = 'us'")
    assert (done.sent, done.duplicates) == (again.sent, again.duplicates) == (0, 1)
    assert again.done_before


def test_wrong_options_are_reported_in_one_line(
    spark: SparkSession, database: Database, client: QueueClient, orders: Path
) -> None:
    def reason(path: Path = orders, **options: str) -> tuple[str, bool]:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, its reason is what counts
            ingest(str(path), "orders", dsn=database.dsn, **options)  # type: ignore[arg-type]  # that is the test
        told = reason_of(raised.value)
        assert "\n" not in told.line
        return told.line, told.is_wrong_use

    assert reason(subject="unknown")[1]
    assert "`unknown` cannot be resolved" in reason(subject="unknown")[0]
    assert reason(subject="upper(")[1]
    assert reason(body="shop") == ("partition 0, row 1: invalid input syntax for type json", False)
    assert "'eu'" in reason(priority="shop")[0]
    assert reason(orders.with_name("nothing.json")) == (
        f"Path does not exist: file:{orders.parent}/nothing.json",
        False,
    )
    assert "give the format" in reason(orders.rename(orders.with_suffix(".txt")))[0]
    assert bodies(client) == []


def test_an_unknown_queue_or_atomicity_is_refused_before_anything_is_read(
    database: Database, client: QueueClient
) -> None:
    with pytest.raises(QueueNotFoundError):
        ingest("nowhere.json", "nothing", dsn=database.dsn)
    with pytest.raises(OptionError, match="atomicity"):
        ingest("nowhere.json", "orders", dsn=database.dsn, atomicity="row")
