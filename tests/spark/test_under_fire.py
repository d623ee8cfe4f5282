"""The ledger sees what a stream does wrong: with Spark as an actor of a round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from benchmarks.chaos import evidence
from benchmarks.chaos.deeds import tell
from benchmarks.chaos.history import Book, read
from benchmarks.chaos.kinds.acting import Actor, Assignment, Setting
from benchmarks.chaos.kinds.spark import LOCK_SECONDS, Spark
from benchmarks.chaos.plan import SPARK
from benchmarks.chaos.rules import Case, judge
from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.patience import eventually


class Skipping(Spark):
    def write(self, transaction: psycopg.Connection[Any], messages: list[str], attempt: str) -> None:
        super().write(transaction, messages[1:], attempt)


class Doubling(Spark):
    def write(self, transaction: psycopg.Connection[Any], messages: list[str], attempt: str) -> None:
        super().write(transaction, [*messages, messages[0]], attempt)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path, SPARK)
    yield book
    book.close()


@pytest.mark.parametrize(
    ("kind", "broken"), [(Spark, set()), (Skipping, {"conservation"}), (Doubling, {"exactly once"})]
)
def test_a_stream_that_breaks_a_promise_is_seen(
    spark: SparkSession, database: Database, book: Book, tmp_path: Path, kind: type[Spark], broken: set[str]
) -> None:
    with QueueClient(database.dsn) as client, database.connect() as connection:
        client.create_queue(SPARK)
        connection.execute(evidence.INSTALL)
        connection.commit()
        setting = Setting(database.dsn, None, tmp_path, frozenset(), (SPARK,))
        actor = Actor(setting, Assignment(SPARK, SPARK, SPARK, seed=1), 0, book)
        playing = kind(actor)
        try:
            playing.step()
            eventually(lambda: client.queue(SPARK).peek() == [])
        finally:
            playing.stop()
        found = evidence.collect(connection)
    violations = judge(Case(tell(read(tmp_path)), found, LOCK_SECONDS))
    assert {violation.rule for violation in violations} == broken
    assert found.effects
