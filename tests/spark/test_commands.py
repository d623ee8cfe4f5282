"""``pgqueue spark …``: its output on stdout and stderr, and its exit codes. Most run in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgqueue import Message, QueueClient
from pgqueue.cli import running
from pgqueue.spark import JavaMissing, reason_of
from pgqueue.spark.pipelines import quiet
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine, Ended
from tests.patience import eventually

Command = Callable[..., Ended]


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(days=7))
        yield client


@pytest.fixture
def pgqueue(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:
    """The command line in this process, where Spark runs already."""
    for name, value in {"PGQUEUE_DSN": database.dsn, "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with monkeypatch.context() as patched:  # the command line puts streams of its own in their place
            for stream in ("stdout", "stderr"):
                patched.setattr(sys, stream, getattr(sys, stream))
            code = running.run(["spark", *arguments])
            sys.stdout.flush()
        return Ended(code, *capfd.readouterr())

    return run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "orders.csv").write_text("id,shop\n1,eu\n2,us\n3,eu\n")
    return tmp_path / "orders.csv"


def test_files_go_to_a_queue_and_from_there_to_a_lake(
    spark: SparkSession, pgqueue: Command, client: QueueClient, files: Path, tmp_path: Path
) -> None:
    fields = ("--message-id", "id", "--subject", "shop", "--where", "shop = 'eu'", "--infer-schema", "--format", "csv")
    foreseen = pgqueue("ingest", "orders", str(files), *fields, "--dry-run")
    assert (foreseen.code, foreseen.err) == (0, "")
    assert foreseen.out.startswith("would go: 2 messages from 1 file\n")
    assert '{"id":3,"shop":"eu"}' in foreseen.out
    assert pgqueue("ingest", "orders", str(files), *fields).out == "2 messages from 1 file\n"
    again = pgqueue("ingest", "orders", str(files), *fields)
    assert again.out == "2 messages from 1 file\n"
    assert "done before" in again.err
    foreseen = pgqueue("drain", "orders", str(tmp_path / "lake"), "--dry-run", "--json")
    assert (foreseen.document["messages"], foreseen.document["dry_run"]) == (2, True)
    done = pgqueue("drain", "orders", str(tmp_path / "lake"), "--consumer", "one", "--lock-duration", "1m")
    assert done.out == f"2 messages to {tmp_path}/lake\n"
    assert done.err == "2 rows, 1 batch\n"
    replayed = pgqueue("replay", "orders", "--source", str(tmp_path / "lake"), "--limit", "1", "--again", "--json")
    assert (replayed.document["sent"], replayed.document["dry_run"]) == (1, False)


def test_a_follower_is_stopped_by_a_signal(
    spark: SparkSession, pgqueue: Command, client: QueueClient, tmp_path: Path
) -> None:
    def stop_when_landed() -> None:
        eventually(lambda: [*tmp_path.glob("lake/queue=orders/*/*/claim=1/*.parquet")])
        os.kill(os.getpid(), signal.SIGTERM)

    client.queue("orders").send(Message(1))
    threading.Thread(target=stop_when_landed, daemon=True).start()
    ended = pgqueue("drain", "orders", str(tmp_path / "lake"), "--follow", "--partitions", "1", "--json")
    assert ended.document["messages"] == 1
    counts = client.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked) == (0, 0)


def test_history_and_dead_letters_are_exported_reported_and_replayed(
    spark: SparkSession, pgqueue: Command, client: QueueClient, tmp_path: Path
) -> None:
    client.queue("orders").send_batch([Message(1), Message(b"2")])
    for received in client.queue("orders").receive(max_messages=2):
        received.dead_letter("Unreadable")
    done = pgqueue("export", str(tmp_path / "lake"), "--queue", "orders", "--json")
    assert (done.document["history"], done.document["dead_letters"]) == (2, 2)
    said = ("--top", "3", "--title", "Ours", "--dry-run", "--json")
    foreseen = pgqueue("report", str(tmp_path / "report"), "--since", "1h", "--until", "0s", *said)
    assert foreseen.document["sample"][0]["outcome"] == "DEAD_LETTERED"
    foreseen = pgqueue("replay", "orders", "--where", "dead_letter_reason = 'Unreadable'", "--dry-run", "--json")
    assert (foreseen.document["found"], foreseen.document["sample"][1]["binary_body"]) == (2, "Mg==")
    assert pgqueue("replay", "orders").out == "2 dead letters to orders\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--subject", "nobody"), 2, "cannot be resolved"),
        (("--subject", "upper("), 2, "Syntax error"),
        (("--time-to-live", "shop"), 1, "'eu'"),
        (("--body", "shop"), 1, "partition 0, row 1: invalid input syntax for type json"),
        (("--application-properties", "id"), 1, "partition 0, row 1: "),
        (("--scheduled-enqueue-time", "interval 1 day"), 2, "cannot cast"),
        (("--atomicity", "row"), 2, "--atomicity"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    spark: SparkSession,
    pgqueue: Command,
    client: QueueClient,
    files: Path,
    arguments: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    ended = pgqueue("ingest", "orders", str(files), *arguments)
    assert (ended.code, told in ended.only_error) == (code, True), ended.err
    assert client.get_queue_runtime_properties("orders").ready == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("ingest", "orders", "/nowhere/*.csv"), 1, "Path does not exist: file:/nowhere/*.csv"),
        (("ingest", "nothing", "/nowhere/a.csv"), 1, "pgqueue queue create"),
        (("drain", "nothing", "/tmp/lake"), 1, "pgqueue queue create"),
        (("replay", "orders", "--where", "unknown = 1"), 2, "cannot be resolved"),
        (("replay", "orders", "--source", "/nowhere"), 1, "Path does not exist"),
        (("report", "/tmp/report", "--bucket", "1ms"), 2, "bucket must be"),
        (("report", "/tmp/report", "--since", "1h", "--until", "2h"), 2, "is not before"),
        (("export",), 2, "OUTPUT"),
    ],
)
def test_missing_queues_files_and_columns_are_reported_in_one_line(
    spark: SparkSession, pgqueue: Command, client: QueueClient, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ended = pgqueue(*arguments)
    assert (ended.code, told in ended.only_error) == (code, True), ended.err


def test_an_unreachable_bucket_is_reported_in_one_line(
    spark: SparkSession, pgqueue: Command, client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    ended = pgqueue("replay", "orders", "--source", "s3://lake/orders")
    assert (ended.code, "in bucket 'lake': AWS Error" in ended.only_error) == (1, True), ended.err


def test_a_consumer_in_use_or_of_another_queue_is_reported_in_one_line(
    spark: SparkSession, pgqueue: Command, client: QueueClient, database: Database, tmp_path: Path
) -> None:
    client.create_queue("parcels")
    with database.connect(autocommit=True) as other:
        other.execute("select pgqueue.attach_consumer('theirs', 'parcels')")
    ended = pgqueue("drain", "orders", str(tmp_path / "lake"), "--consumer", "theirs")
    assert ended.code == 1
    assert "'theirs'" in ended.only_error


def test_a_command_without_java_names_how_to_get_it(
    spark: SparkSession, pgqueue: Command, client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise JavaMissing("Spark needs Java")

    monkeypatch.setattr(quiet, "session", missing)
    assert pgqueue("export", "/tmp/lake").only_error == "pgqueue: Spark needs Java"


def test_a_command_without_pyspark_names_how_to_install_it(
    client: QueueClient, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('no', name='pyspark')")
    command = CommandLine(tmp_path, PGQUEUE_DSN=database.dsn)
    ended = command("spark", "export", "lake", PYTHONPATH=f"{tmp_path}:{command.environment['PYTHONPATH']}")
    assert ended.code == 1
    assert ended.only_error == "pgqueue: pyspark is not installed: pip install 'pgqueue-tx[spark]'"


def test_other_commands_do_not_wait_for_pyspark() -> None:
    looks = (
        "import pgqueue.cli.app, sys; print([name for name in sys.modules if name.startswith(('pyspark', 'pyarrow'))])"
    )
    found = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: [X.Y] no way SQLSTATE: XXKST", "no way"),
        (
            "Traceback (most recent call last):\n  f\nE: a\n\nTraceback (most recent call last):\n  x\nb.C: d",
            "d",
        ),
        ("", "Spark gives no reason"),
    ],
)
def test_the_reason_is_separated_from_the_text_that_spark_adds(text: str, line: str) -> None:
    assert reason_of(Exception(text)).line == line


def test_a_document_contains_the_same_as_the_table(
    spark: SparkSession, pgqueue: Command, client: QueueClient, files: Path
) -> None:
    done: dict[str, Any] = pgqueue("ingest", "orders", str(files), "--job", "nightly", "--json").document
    assert json.loads(json.dumps(done)) == {
        "queue": "orders",
        "files": 1,
        "sent": 3,
        "duplicates": 0,
        "job": "nightly",
        "done_before": False,
        "dry_run": False,
        "sample": [],
    }
