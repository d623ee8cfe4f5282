"""Lakes in a bucket, by the protocol of S3: each message is there once, though nothing can be renamed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from pgqueue import Message, QueueClient
from pgqueue.spark.pipelines import InputError, drain, export, ingest, lake, objects, replay, sending
from pgqueue.spark.pipelines.objects import ObjectLake
from pgqueue.testing import Database

OUTPUT = "s3://lake/orders"
CLAIM_2 = "lake/orders/queue=orders/date={}/consumer=one/claim=2"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(server: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[fs.S3FileSystem]:
    """A new bucket, which the driver and the tasks find by their environment."""
    environment = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    found = fs.S3FileSystem(endpoint_override=server, allow_bucket_creation=True, allow_bucket_deletion=True)
    found.create_dir("lake")
    yield found
    found.delete_dir("lake")


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(days=7))
        yield client


def send(client: QueueClient, *bodies: int) -> None:
    client.queue("orders").send_batch([Message(body, message_id=str(body)) for body in bodies])


def stored(bucket: fs.S3FileSystem, path: str, column: str) -> list[Any]:
    """The values of a column as a reader finds them, with repetitions."""
    found = pyarrow.dataset.dataset(path, filesystem=bucket, partitioning="hive")
    return sorted(found.to_table(columns=[column])[column].to_pylist())


def left(client: QueueClient) -> tuple[int, int]:
    counts = client.get_queue_runtime_properties("orders")
    return counts.ready, counts.locked


def test_a_queue_goes_to_a_bucket_once_however_often_it_is_drained(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem
) -> None:
    send(client, *range(5))
    done = drain("orders", OUTPUT, dsn=database.dsn, max_messages=3)
    assert (done.messages, done.claims, done.lost) == (5, 2, 0)
    assert drain("orders", OUTPUT, dsn=database.dsn).messages == 0
    send(client, 5)
    assert drain("orders", OUTPUT, dsn=database.dsn).messages == 1
    assert stored(bucket, "lake/orders", "body") == list("012345")
    assert left(client) == (0, 0)


def test_a_checkpoint_is_kept_whatever_the_directory_for_temporary_files_is_called(
    database: Database,
    client: QueueClient,
    bucket: fs.S3FileSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "my files").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "my files"))
    send(client, 1)
    assert drain("orders", OUTPUT, dsn=database.dsn, consumer="one").messages == 1
    assert files(bucket, "lake/orders/_checkpoints")
    assert [path.name for path in tmp_path.iterdir()] == ["my files"]


@pytest.mark.parametrize("checkpoint", ["kept", "lost"])
def test_a_claim_that_was_written_before_a_crash_is_written_over(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem, checkpoint: str
) -> None:
    """An earlier attempt stored more parts than the second, some under a day on which the claim now has nothing."""
    send(client, 1, 2)
    drain("orders", OUTPUT, dsn=database.dsn, consumer="one")
    send(client, 3, 4)
    with database.connect(autocommit=True) as crashed:
        crashed.execute(
            "select pgqueue.claim_batch('one', 1, 100, interval '5 minutes', epoch => epoch) "
            "from pgqueue.attach_consumer('one', 'orders')"
        )
        ((today,),) = crashed.execute(
            "select (enqueued_time at time zone 'utc')::date::text from pgqueue.message limit 1"
        )
    (written,) = [info.path for info in files(bucket, "lake/orders/queue=orders")][:1]
    for day, part in ((today, "00007"), ("2020-01-01", "00000")):
        bucket.copy_file(written, f"{CLAIM_2.format(day)}/part-{part}.parquet")
    if checkpoint == "lost":
        bucket.delete_dir("lake/orders/_checkpoints")
    assert drain("orders", OUTPUT, dsn=database.dsn, consumer="one").messages == 2
    assert stored(bucket, "lake/orders", "body") == list("1234")
    assert left(client) == (0, 0)


def files(bucket: fs.S3FileSystem, path: str) -> list[fs.FileInfo]:
    return [info for info in bucket.get_file_info(fs.FileSelector(path, recursive=True)) if info.is_file]


def test_a_task_that_fails_in_its_middle_stores_nothing_and_is_tried_again(
    server: str, bucket: fs.S3FileSystem, spark: SparkSession
) -> None:
    def break_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        objects = fs.S3FileSystem(endpoint_override=server)
        if objects.get_file_info("lake/broken").type == fs.FileType.NotFound:
            with objects.open_output_stream("lake/broken") as stream:
                stream.write("; ".join(info.path for info in files(objects, "lake/some")).encode())
            raise OSError("the first attempt breaks down")

    bucket.create_dir("lake/some")
    rows = spark.range(0, 100, 1, 2).mapInArrow(break_once, "id bigint")
    objects.opened(spark, "s3://lake/some").replace(rows, "rows")
    assert stored(bucket, "lake/some/rows", "id") == list(range(100))
    seen = bucket.open_input_stream("lake/broken").readall().decode()
    assert seen.count("part-") <= 1, "only the other task's"


def test_messages_that_could_not_be_written_are_given_back_at_once(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite = ObjectLake.overwrite

    def overwrite_and_fail(self: ObjectLake, rows: DataFrame, path: str, *by: str) -> None:
        overwrite(self, rows, path, *by)
        raise OSError("no answer")

    send(client, 1)
    with monkeypatch.context() as patched:
        patched.setattr(ObjectLake, "overwrite", overwrite_and_fail)
        with pytest.raises(Exception, match="no answer"):
            drain("orders", OUTPUT, dsn=database.dsn)
    assert left(client) == (1, 0)
    assert drain("orders", OUTPUT, dsn=database.dsn).messages == 1
    assert stored(bucket, "lake/orders", "body") == ["1"]


def test_history_is_exported_once_and_dead_letters_are_those_of_now(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(client, 0, 1)
    assert (export(OUTPUT, dsn=database.dsn).history, stored(bucket, "lake/orders/history", "message_id")) == (
        2,
        ["0", "1"],
    )
    assert export(OUTPUT, dsn=database.dsn).history == 0
    client.queue("orders").dead_letters.purge()
    settle(client, 2, 3)
    overwrite = ObjectLake.overwrite

    def overwrite_and_crash(self: ObjectLake, rows: DataFrame, path: str, *by: str) -> None:
        overwrite(self, rows, path, *by)
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectLake, "overwrite", overwrite_and_crash)
        with pytest.raises(Exception, match="killed"):
            export(OUTPUT, dsn=database.dsn)
    settle(client, 4)
    assert export(OUTPUT, dsn=database.dsn, dry_run=True).history == 1
    assert export(OUTPUT, dsn=database.dsn).history == 3
    assert stored(bucket, "lake/orders/history", "message_id") == list("01234")
    assert stored(bucket, "lake/orders/dead_letters", "message_id") == ["3"]


def test_a_lake_in_a_bucket_is_replayed_once(database: Database, client: QueueClient, bucket: fs.S3FileSystem) -> None:
    send(client, *range(6))
    drain("orders", OUTPUT, dsn=database.dsn, max_messages=4)
    bucket.copy_file(files(bucket, "lake/orders/queue=orders")[0].path, "lake/orders/_left/part-00000.parquet")
    where = "queue = 'orders' and body > 1"
    assert replay("orders", dsn=database.dsn, source=OUTPUT, where=where, dry_run=True).found == 4
    done = replay("orders", dsn=database.dsn, source=OUTPUT, where=where)
    again = replay("orders", dsn=database.dsn, source=OUTPUT, where=where)
    assert [(each.sent, each.done_before) for each in (done, again)] == [(4, False), (4, True)]
    assert sorted(message.message_id or "" for message in client.queue("orders").peek(max_messages=9)) == list("2345")


@pytest.mark.parametrize("atomicity", ["job", "task"])
def test_parquet_in_a_bucket_is_ingested_once(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem, atomicity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ROWS_OF_A_PART", 2)
    bucket.create_dir("lake/new/shop=a b")
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    rows = pa.table({"id": [1, 2], "at": pa.array([moment, None], pa.timestamp("ns", "UTC"))})
    for name in ("one", "two"):
        pq.write_table(rows, f"lake/new/shop=a b/{name}.parquet", filesystem=bucket)
    paths = ["s3://lake/new/*/o*.parquet", "s3a://lake/new/shop=a b/two.parquet"]
    done, again = [ingest(paths, "orders", dsn=database.dsn, atomicity=atomicity) for _ in range(2)]
    assert [(each.files, each.sent, each.done_before) for each in (done, again)] == [(2, 4, False), (2, 4, True)]
    bodies = [message.body for message in client.queue("orders").peek(max_messages=9)]
    first = {"id": 1, "at": "2026-01-02T03:04:05.678Z", "shop": "a b"}
    assert sorted(bodies, key=str) == sorted([first, {"id": 2, "shop": "a b"}] * 2, key=str)


def test_an_unreadable_bucket_is_reported_in_one_line(
    database: Database, client: QueueClient, bucket: fs.S3FileSystem, tmp_path: Path
) -> None:
    with bucket.open_output_stream("lake/new.jsonl") as stream:
        stream.write(b'{"id": 1}\n')
    with pytest.raises(InputError, match=r"s3://lake/new.jsonl: .* only Parquet can be read, not json: copy the files"):
        ingest("s3://lake/new.jsonl", "orders", dsn=database.dsn)
    with pytest.raises(InputError, match="there are no files in s3://lake/none"):
        replay("orders", dsn=database.dsn, source="s3://lake/none")
    with pytest.raises(InputError, match="some paths are in S3, and some are not"):
        ingest(["s3://lake/new.jsonl", str(tmp_path)], "orders", dsn=database.dsn)


def settle(client: QueueClient, *bodies: int) -> None:
    """Messages with these bodies are dead-lettered when odd, else completed."""
    send(client, *bodies)
    for received in client.queue("orders").receive(max_messages=len(bodies)):
        if int(received.body) % 2:
            received.dead_letter("Odd")
        else:
            received.complete()


def test_values_are_escaped_as_spark_escapes_them(spark: SparkSession) -> None:
    ours = [lake.escaped(chr(code)) for code in range(1, 256)]
    catalog: Any = spark._jvm.org.apache.spark.sql.catalyst.catalog  # type: ignore[union-attr]
    assert ours == [catalog.ExternalCatalogUtils.escapePathName(chr(code)) for code in range(1, 256)]


def test_an_object_has_sparks_types(spark: SparkSession, bucket: fs.S3FileSystem) -> None:
    rows = spark.sql("select timestamp '2026-01-02 03:04:05.678901' as at, cast(1 as bigint) as n, binary('x') as b")
    objects.opened(spark, "s3://lake/some").replace(rows, "rows")
    schema = pq.read_schema("lake/some/rows/part-00000.parquet", filesystem=bucket)
    assert [str(field.type) for field in schema] == ["timestamp[us, tz=UTC]", "int64", "binary"]
