"""With ``maxConnections`` a job has no more connections than that, however many of its tasks run at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue import QueueClient
from pgqueue.spark import limiting, reading, relations
from pgqueue.spark.connections import Instance, connect_once
from pgqueue.spark.limiting import Limit
from pgqueue.spark.options import Options
from pgqueue.testing import Database
from tests.patience import eventually
from tests.spark import crowded
from tests.spark.leftovers import keepers

MANY_BLOCKS = "select pgqueue.send('q', to_jsonb(repeat('x', 3000))) from generate_series(1, 200) n"


@pytest.fixture(autouse=True)
def queue(database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")


@pytest.fixture
def limited(database: Database) -> str:
    """The DSN of a role that may send, receive, and have three connections."""
    role = f"test_{uuid4().hex[:12]}"
    with database.connect() as connection:
        connection.execute(
            f"create role {role} login connection limit {crowded.MOST}; grant pgqueue_receiver to {role};"
            f"select pgqueue.grant_send('q', '{role}')".encode()
        )
    return make_conninfo(database.dsn, user=role)


@pytest.fixture
def counting(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """Sees what the tasks of ``crowded`` write down."""
    with database.connect(autocommit=True) as connection:
        connection.execute(crowded.TABLES)
        yield connection


def test_sixteen_partitions_on_eight_threads_have_three_connections(
    database: Database, limited: str, counting: psycopg.Connection[Any]
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.crowded", database.dsn, limited],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    most = counting.execute("select max(writers) from seen").fetchone()
    assert most == (crowded.MOST,), f"{most} connections at a time, not {crowded.MOST}: {run.stderr[-3000:]}"
    assert run.returncode == 0, run.stderr[-3000:]


def test_the_place_of_a_worker_that_is_killed_is_free_for_others(
    spark: SparkSession, database: Database, counting: psycopg.Connection[Any]
) -> None:
    cloudpickle.register_pickle_by_value(crowded)  # type: ignore[no-untyped-call]
    spark.dataSource.register(crowded.HeldSource)
    frame = spark.range(0, 20, 1, 2).selectExpr("string(id) as body")
    writer = frame.write.format("held").options(dsn=database.dsn, queue="q", maxConnections="1").mode("append")
    with ThreadPoolExecutor() as threads:
        killed = threads.submit(kill_the_holder, spark, counting)
        try:
            writer.save()
        finally:
            killed.result()
    with QueueClient(database.dsn) as client:
        assert sorted(int(message.body) for message in client.queue("q").peek(max_messages=100)) == [*range(20)]


def kill_the_holder(spark: SparkSession, connection: psycopg.Connection[Any]) -> None:
    """Kill the worker that has the only place as soon as the other asks again for it; or cancel the job."""
    try:
        eventually(lambda: len(placed(connection)) + waiting(connection) > 1)
        holders = placed(connection)
        assert len(holders) == 1, f"{len(holders)} connections at a time, not 1"
        os.kill(holders[0], signal.SIGKILL)
        again = 3  # the holder, the other task, and the second attempt of the first
        eventually(lambda: len(placed(connection)) == again, "tasks wait for the place of a process that is no more")
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise


def placed(connection: psycopg.Connection[Any]) -> list[int]:
    """The processes that have or had a place."""
    return [pid for (pid,) in connection.execute("select pid from placed").fetchall()]


def waiting(connection: psycopg.Connection[Any]) -> int:
    """How many tasks have asked for a place more than once."""
    row = connection.execute(crowded.ASKED_AGAIN).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The DSNs that a limit has tried to connect to, each once."""
    tried: list[str] = []

    def attempt(instance: Instance) -> psycopg.Connection[Any]:
        tried.append(instance.dsn)
        return connect_once(instance)  # gives up at once

    monkeypatch.setattr(limiting, "connect", attempt)
    return tried


def test_a_place_is_free_when_its_session_has_ended(database: Database, attempts: list[str]) -> None:
    limit = Limit("job", 1)
    with ThreadPoolExecutor() as threads:
        first = limit.connect(Instance(database.dsn))
        second = threads.submit(limit.connect, Instance(database.dsn))
        eventually(lambda: second.done() or len(attempts) > 3)
        assert not second.done(), "2 connections at a time, not 1"
        eventually(lambda: sessions(database) == [first.info.backend_pid])  # a waiting writer has none
        with database.connect(autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(%s)", [first.info.backend_pid])
        first.close()
        second.result().close()


def sessions(database: Database) -> list[int]:
    with database.connect() as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        ).fetchall()
    return [pid for (pid,) in rows]


def test_jobs_do_not_wait_for_each_other(database: Database) -> None:
    with Limit("one", 1).connect(Instance(database.dsn)), Limit("other", 1).connect(Instance(database.dsn)):
        pass


def test_a_server_that_is_full_is_waited_for(database: Database, limited: str, attempts: list[str]) -> None:
    taken = [psycopg.connect(limited) for _ in range(crowded.MOST)]
    with pytest.raises(psycopg.OperationalError, match="too many connections"):
        Limit("job", None).connect(Instance(limited))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(Limit("job", 1).connect, Instance(limited))
        eventually(lambda: waiting.done() or len(attempts) > 3)
        assert not waiting.done(), f"{crowded.MOST + 1} connections at a time, not {crowded.MOST}"
        for connection in taken:
            connection.close()
        waiting.result().close()


@pytest.mark.parametrize(("most", "parts"), [(1, 1), (2, 1), (3, 2), (9, 8)])
def test_a_read_counts_the_keeper_of_its_snapshot(database: Database, most: int, parts: int) -> None:
    with database.connect() as connection:
        connection.execute(MANY_BLOCKS)
    options = {"dsn": database.dsn, "numPartitions": "8", "maxConnections": str(most), "snapshotSeconds": "1"}
    asked = planned(options)
    assert len(asked) == parts
    assert all((part.snapshot is not None) == (parts > 1) for part in asked)
    eventually(lambda: keepers(database) == 0)


def test_a_snapshot_that_others_hold_is_not_counted(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(MANY_BLOCKS)
    with pgqueue.spark.snapshot(database.dsn) as held:
        assert len(planned({"dsn": database.dsn, "numPartitions": "8", "maxConnections": "3", "snapshot": held})) == 3


def planned(options: dict[str, str]) -> list[reading.Part]:
    return reading.QueueReader(options, relations.schema(Options(options, reading.OPTIONS))).partitions()
