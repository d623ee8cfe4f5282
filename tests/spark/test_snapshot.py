"""The snapshot that the parts of a DataFrame share, and the process that keeps it: as long as needed, no longer."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import timedelta

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.spark import reading, relations
from pgqueue.spark.errors import OptionError, PipelineError, SnapshotOverError
from pgqueue.spark.options import Options
from pgqueue.spark.snapshot import PROGRAM, Snapshot
from pgqueue.testing.database import Database
from tests.patience import eventually
from tests.spark.leftovers import keepers


@pytest.fixture
def crowd(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('crowd')")
        connection.execute("select pgqueue.send('crowd', to_jsonb(n)) from generate_series(1, 1000) n")
    return database


def children() -> list[psutil.Process]:
    """The keepers that we have started and that stay ours, those that ended unnoticed included."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if child.status() == psutil.STATUS_ZOMBIE or PROGRAM in child.cmdline():
                found.append(child)
    return found


def reader(database: Database, **options: str) -> reading.QueueReader:
    options = {"dsn": database.dsn, "columns": "sequence_number,state", **options}
    return reading.QueueReader(options, relations.schema(Options(options, reading.OPTIONS)))


def test_a_keeper_ends_when_nothing_is_read(crowd: Database) -> None:
    parts = reader(crowd, numPartitions="2", snapshotSeconds="2").partitions()
    assert all(part.snapshot for part in parts)
    assert not children()
    eventually(lambda: keepers(crowd) == 0)


def begun_in_time(crowd: Database) -> tuple[reading.QueueReader, Iterator[pa.RecordBatch], reading.Part, float]:
    """A reader, its first part begun, the second, and the patience that it took on this machine to begin in time."""
    patience = 1.0
    while True:
        asked = reader(crowd, numPartitions="2", snapshotSeconds=str(patience))
        first, second = asked.partitions()
        batches = asked.read(first)
        try:
            next(batches)
        except SnapshotOverError:
            patience *= 2
        else:
            return asked, batches, second, patience


def test_a_keeper_stays_while_a_part_is_read(crowd: Database) -> None:
    asked, batches, second, patience = begun_in_time(crowd)
    time.sleep(2 * patience)
    eventually(lambda: keepers(crowd) == 1)
    assert next(asked.read(second)).num_rows
    batches.close()  # type: ignore[attr-defined]  # it is a generator
    eventually(lambda: keepers(crowd) == 0)


def test_a_keeper_holds_no_file_of_the_process_that_planned(crowd: Database) -> None:
    ours, other = os.pipe()
    os.set_blocking(ours, False)
    reader(crowd, numPartitions="2").partitions()
    os.close(other)
    assert keepers(crowd) == 1
    assert os.read(ours, 1) == b""  # the end of the pipe: no other process has it open
    os.close(ours)


def test_one_part_needs_no_keeper(crowd: Database) -> None:
    reader(crowd, numPartitions="1").partitions()
    assert keepers(crowd) == 0


def test_a_read_after_the_snapshot_has_ended_fails_with_the_remedy(spark: SparkSession, crowd: Database) -> None:
    options = {"dsn": crowd.dsn, "numPartitions": "2", "snapshotSeconds": "0.5"}
    frame = spark.read.format("pgqueue").options(**options).load()
    frame._jdf.queryExecution().toRdd().partitions()  # the parts are planned now, and read below
    eventually(lambda: keepers(crowd) == 0)
    with pytest.raises(Exception, match=r"snapshot .* has ended: load the DataFrame again; cache\(\)"):
        frame.collect()


def test_dataframes_in_one_snapshot_agree(spark: SparkSession, crowd: Database) -> None:
    with pgqueue.spark.snapshot(crowd.dsn) as held:
        counts = []
        for parts in ("1", "3"):
            options = {"dsn": crowd.dsn, "columns": "state", "numPartitions": parts, "snapshot": held}
            frame = spark.read.format("pgqueue").options(**options).load()
            counts.append({row.state: row["count"] for row in frame.groupBy("state").count().collect()})
            with crowd.connect() as connection:
                connection.execute("select pgqueue.receive('crowd', 10)")
                connection.execute("select pgqueue.receive_and_delete('crowd', 10)")
                connection.execute("select pgqueue.send('crowd', '0')")
        assert counts == [{"READY": 1000}, {"READY": 1000}]


def test_states_too_are_those_of_the_snapshot(crowd: Database) -> None:
    with crowd.connect() as connection:
        connection.execute("select pgqueue.receive('crowd', 10, lock_duration => '1 minute')")
    with pgqueue.spark.snapshot(crowd.dsn) as held:
        crowd.clock.move(timedelta(hours=1))
        asked = reader(crowd, snapshot=held)
        (part,) = asked.partitions()
        states = [state for batch in asked.read(part) for state in batch.column("state").to_pylist()]
    assert sorted(states) == ["LOCKED"] * 10 + ["READY"] * 990


def test_a_snapshot_ends_when_its_block_ends(crowd: Database) -> None:
    with pgqueue.spark.snapshot(crowd.dsn) as held:
        assert keepers(crowd) == 1
    eventually(lambda: keepers(crowd) == 0)
    assert not children()
    asked = reader(crowd, snapshot=held)
    with pytest.raises(SnapshotOverError, match="hold a snapshot"):
        next(asked.read(asked.partitions()[0]))


def test_a_keeper_shows_no_password_and_ends_with_its_server(crowd: Database) -> None:
    with pgqueue.spark.snapshot(crowd.dsn):
        (keeper,) = children()
        assert crowd.name not in " ".join(keeper.cmdline())
        with crowd.connect(autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'pgqueue snapshot'"
            )
        eventually(lambda: keeper.status() == psutil.STATUS_ZOMBIE)  # it is ours to wait for when the block ends
    assert not children()


def test_a_database_that_cannot_be_reached_is_an_error_with_the_reason(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    nowhere = tmp_path_factory.mktemp("nowhere")
    with (
        pytest.raises(PipelineError, match=r"no snapshot .* could be taken: .*nowhere"),
        pgqueue.spark.snapshot(f"host={nowhere}"),
    ):
        pass
    assert not children()


def test_a_database_without_queues_is_an_error(empty_database: Database) -> None:
    with pytest.raises(PipelineError, match="pgqueue"), pgqueue.spark.snapshot(empty_database.dsn):
        pass


def test_a_snapshot_is_written_with_its_moment(database: Database) -> None:
    snapshot = Snapshot("00000003-0000001B-1", database.clock.now())
    assert Snapshot.parse(str(snapshot)) == snapshot
    assert Snapshot.parse("00000003-0000001B-1") == Snapshot("00000003-0000001B-1", None)
    with pytest.raises(OptionError, match="snapshot"):
        Snapshot.parse("00000003-0000001B-1@yesterday")
