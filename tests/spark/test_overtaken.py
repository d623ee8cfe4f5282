"""A driver is paused, loses its session and is overtaken by another: when it goes on, it settles nothing and fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from pgqueue import Message, Queue, QueueClient
from pgqueue.spark.pipelines import Progress, drain
from pgqueue.testing import Database
from tests.spark import paused

MESSAGES = 3 * paused.CLAIM
REFUSED = "is not the current one"

ITS_SESSION = f"""
select pid from pg_stat_activity
 where datname = current_database() and application_name = 'pgqueue stream {paused.CONSUMER}'
"""
CLAIMS = "select settled_claim, open_claim from pgqueue.consumers"


@pytest.fixture
def queue(database: Database) -> Iterator[Queue]:
    with QueueClient(database.dsn) as client:
        client.create_queue(paused.QUEUE)
        queue = client.queue(paused.QUEUE)
        queue.send_batch([Message(number) for number in range(MESSAGES)])
        yield queue


class Paused:
    """A driver that holds claim 1 in its hands, and whose session was ended: its Python, its JVM and their workers."""

    def __init__(self, process: subprocess.Popen[str], gate: psycopg.Connection[Any]) -> None:
        self._process = process
        self._gate = gate
        driver = psutil.Process(process.pid)
        self._stopped = [driver, *driver.children(recursive=True)]
        for each in self._stopped:
            each.suspend()

    def resume(self) -> None:
        for each in self._stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()

    def goes_on(self) -> str:
        """Let it go on until it has ended; returns its output."""
        self._gate.execute("select pg_advisory_unlock(%s)", [paused.GATE])
        self.resume()
        _, said = self._process.communicate()
        return said


@contextmanager
def paused_driver(database: Database, what: str, directory: Path, condition: str = "true") -> Iterator[Paused]:
    command = [sys.executable, "-m", "tests.spark.paused", what, database.dsn, str(directory), condition]
    with database.connect(autocommit=True) as gate, database.connect(autocommit=True) as connection:
        gate.execute("select pg_advisory_lock(%s)", [paused.GATE])
        connection.execute("listen reached")
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
            ExitStack() as stopped,
        ):
            try:
                while not list(connection.notifies(timeout=1, stop_after=1)):
                    assert process.poll() is None, process.communicate()
                driver = Paused(process, gate)
                stopped.callback(driver.resume)
                connection.execute(f"select pg_terminate_backend(pid) from ({ITS_SESSION}) as its".encode())
                while connection.execute(ITS_SESSION.encode()).fetchall():
                    pass
                yield driver
            finally:
                process.kill()


def claims(database: Database) -> Any:
    with database.connect() as connection:
        return connection.execute(CLAIMS).fetchone()


@pytest.mark.parametrize(("condition", "effects"), [("true", MESSAGES), ("body = 'none'", 0)])
def test_a_driver_that_was_overtaken_completes_nothing_not_even_an_empty_batch(
    spark: SparkSession, database: Database, queue: Queue, tmp_path: Path, condition: str, effects: int
) -> None:
    post = paused.posting(database.dsn)
    is_at_claim_2, may_go_on = threading.Event(), threading.Event()

    def post_and_wait(batch: DataFrame, number: int) -> None:
        if number == 1:
            is_at_claim_2.set()
            may_go_on.wait()
        post(batch, number)

    with database.connect(autocommit=True) as connection:
        connection.execute("create table effects (body text)")
        with paused_driver(database, "post", tmp_path, condition) as driver:
            second = paused.start(spark, database.dsn, tmp_path, condition, post_and_wait)
            try:
                while not is_at_claim_2.wait(1):
                    assert second.isActive
                said = driver.goes_on()
                assert claims(database) == (1, 2)
            finally:
                may_go_on.set()
            second.awaitTermination()
        posted = connection.execute("select body::int from effects order by 1").fetchall()
    assert REFUSED in said
    assert [body for (body,) in posted] == list(range(effects))
    assert queue.peek() == []
    assert claims(database) == (3, None)


def test_an_overtaken_drain_leaves_the_files_of_the_other(
    spark: SparkSession, database: Database, queue: Queue, tmp_path: Path
) -> None:
    has_written_2, may_go_on = threading.Event(), threading.Event()

    def wait(progress: Progress) -> None:
        if progress.batches == 2:
            has_written_2.set()
            may_go_on.wait()

    with paused_driver(database, "drain", tmp_path) as driver, ThreadPoolExecutor() as threads:
        second = threads.submit(
            drain,
            paused.QUEUE,
            tmp_path,
            dsn=database.dsn,
            consumer=paused.CONSUMER,
            max_messages=paused.CLAIM,
            progress=wait,
            spark=spark,
        )
        try:
            while not has_written_2.wait(1):
                assert not second.done(), second.result()
            said = driver.goes_on()
            assert claims(database) == (1, 2)
        finally:
            may_go_on.set()
        assert second.result().messages == MESSAGES
    assert REFUSED in said
    landed = spark.read.parquet(str(tmp_path)).selectExpr("int(body)").collect()
    assert sorted(body for (body,) in landed) == list(range(MESSAGES))
    assert claims(database) == (3, None)
