"""A standby is promoted while a stream runs: it continues exactly, or is refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from benchmarks.chaos.pair import Pair
from pgqueue.spark import relations
from pgqueue.spark.consuming import QueueStream
from pgqueue.spark.errors import CheckpointError
from pgqueue.spark.options import Options
from pgqueue.spark.tailing import OPTIONS, HistoryTail, Seen
from pgqueue.testing import Database
from pgqueue.testing.database import create_template
from pgqueue.testing.hosts import binaries
from tests.patience import eventually

QUEUE, CONSUMER = "orders", "ledger"
GIVE_OUT_AN_ID = "select pg_current_xact_id()"
CREATE = "select pgqueue.create_queue('orders', retain_history => '7 days')"
SEND = "select pgqueue.send('orders', to_jsonb(n)) from generate_series(1, 10) n"
SETTLE = "select sequence_number from pgqueue.receive_and_delete('orders')"
HAS_REPLAYED = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"


class Scene:
    """A primary with a queue of ten messages, and a standby."""

    def __init__(self, pair: Pair, database: str) -> None:
        self.pair = pair
        self.dsn = f"{pair.dsn(database)}&connect_timeout=2"
        self._database = database

    def run(self, statement: str) -> int:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def settle(self) -> int:
        return self.run(SETTLE)

    def catch_up(self) -> None:
        """Wait until the standby has replayed all that was written."""
        with psycopg.connect(self.pair.primary.dsn()) as connection:
            row = connection.execute("select pg_current_wal_insert_lsn()").fetchone()

        def has_replayed() -> bool:
            with psycopg.connect(self.pair.standby.dsn()) as connection:
                return connection.execute(HAS_REPLAYED, row).fetchone() == (True,)

        with psycopg.connect(self.pair.primary.dsn(), autocommit=True) as connection:
            connection.execute("checkpoint")  # flushes and sends the latest WAL
        eventually(has_replayed)

    def stop_standby(self) -> None:
        """It misses what is written from now on."""
        self.catch_up()
        self.pair.standby.stop()

    def promote(self) -> None:
        self.pair.primary.kill()
        if not self.pair.standby.is_running():
            self.pair.standby.start()
        self.pair.standby.promote()


@pytest.fixture(params=[False, True], ids=["asynchronous", "synchronous"])
def is_synchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def scene(is_synchronous: bool) -> Iterator[Scene]:
    pair = Pair(binaries())
    try:
        pair.create()
        template = create_template(pair.primary.dsn())
        scene = Scene(pair, template)
        with psycopg.connect(scene.dsn, autocommit=True) as connection:
            connection.execute(CREATE)
            connection.execute(SEND)
        pair.follow(synchronous=is_synchronous)
        yield scene
    finally:
        pair.remove()


only_asynchronous = pytest.mark.parametrize("is_synchronous", [False], ids=["asynchronous"])


class Tail:
    """A stream of the history without Spark, called as Spark calls it."""

    def __init__(self, scene: Scene) -> None:
        options = {"dsn": scene.dsn, "table": "history"}
        self.tail = HistoryTail(options, relations.schema(Options(options, OPTIONS)))
        self.offset = self.tail.initialOffset()

    def step(self) -> list[int]:
        end = self.tail.latestOffset(self.offset, ReadAllAvailable())
        found = self.tail.partitions(self.offset, end)
        self.offset = end
        return sorted(
            number
            for part in found
            for batch in self.tail.read(part)
            for number in batch.column("sequence_number").to_pylist()
        )


def test_the_history_continues_after_a_promotion_that_has_forgotten_nothing(scene: Scene, is_synchronous: bool) -> None:
    tail = Tail(scene)
    first = scene.settle()
    assert tail.step() == [first]
    second = scene.settle()
    if not is_synchronous:
        scene.catch_up()
    scene.promote()
    third = scene.settle()
    assert tail.step() == [second, third]
    fourth = scene.settle()
    assert tail.step() == [fourth]


@only_asynchronous
def test_the_history_is_refused_after_a_promotion_that_has_forgotten_what_was_read(scene: Scene) -> None:
    """Its transaction ids are given out again: what is settled under them would be skipped."""
    tail = Tail(scene)
    first = scene.settle()
    assert tail.step() == [first]
    scene.stop_standby()
    second = scene.settle()
    assert tail.step() == [second]
    scene.promote()
    for _ in range(20):
        scene.run(GIVE_OUT_AN_ID)
    scene.settle()
    with pytest.raises(CheckpointError, match=r"has forgotten .* Use a new checkpointLocation"):
        tail.step()


def test_ids_that_may_be_forgotten_in_a_crash_are_beyond_the_horizon(database: Database) -> None:
    """An id of a transaction that was rolled back need not have been written anywhere."""
    with database.connect(autocommit=True) as another:

        class Busy(psycopg.Connection[Any]):
            def execute(self, *arguments: Any, **options: Any) -> psycopg.Cursor[Any]:
                cursor = super().execute(*arguments, **options)
                with another.transaction(force_rollback=True):
                    another.execute(GIVE_OUT_AN_ID)
                return cursor

        with Busy.connect(database.dsn, autocommit=True) as connection:
            seen = Seen.now(connection)
    assert seen.horizon <= seen.fence


class Ledger:
    """A stream of the queue without Spark, two messages a batch, called as Spark calls it."""

    def __init__(self, scene: Scene, offset: dict[str, Any] | None = None) -> None:
        options = {"dsn": scene.dsn, "queue": QUEUE, "consumer": CONSUMER}
        self.stream = QueueStream(options, StructType().add("sequence_number", "long"))
        self.offset = offset or self.stream.initialOffset()
        self._scene = scene

    def claim(self) -> list[int]:
        """The next batch."""
        end = self.stream.latestOffset(self.offset, ReadMaxRows(2))
        shares = self.stream.partitions(self.offset, end)
        self.offset = end
        return sorted(
            number
            for share in shares
            for batch in self.stream.read(share)
            for number in batch.column("sequence_number").to_pylist()
        )

    def complete(self) -> None:
        """As ``in_transaction`` does, together with its effects."""
        held = self.stream.reportLatestOffset()
        self._scene.run(f"select pgqueue.complete_claim('{CONSUMER}', {held['claim']}, {held['epoch']})::int")

    def restarted(self) -> Ledger:
        self.stream.stop()
        return Ledger(self._scene, self.offset)


@only_asynchronous
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_batch_whose_effects_were_forgotten_comes_again(scene: Scene, is_restarted: bool) -> None:
    ledger = Ledger(scene)
    ledger.claim()
    ledger.complete()
    second = ledger.claim()
    scene.stop_standby()
    ledger.complete()
    scene.promote()
    if is_restarted:
        ledger = ledger.restarted()
    assert ledger.claim() == second
    ledger.complete()
    assert len(ledger.claim()) == 2
    ledger.stream.stop()


def test_a_batch_of_a_sink_elsewhere_is_completed_by_the_promoted_standby(scene: Scene) -> None:
    """The effects are not in the database, so nothing of them was forgotten."""
    ledger = Ledger(scene)
    first, second = ledger.claim(), ledger.claim()
    scene.catch_up()
    scene.promote()
    third = ledger.claim()
    assert len({*first, *second, *third}) == 6
    assert scene.run(f"select open_claim - settled_claim from pgqueue.consumers where consumer = '{CONSUMER}'") == 1
    ledger.stream.stop()
