"""The history as a stream: what is settled, batch by batch, each row once, and nothing is consumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pgqueue.spark import reading, relations
from pgqueue.spark.errors import CheckpointError, OptionError
from pgqueue.spark.options import Options

OPTIONS = ("queue", "table", "columns", "startingFrom", "numPartitions")
EARLIEST, LATEST = "earliest", "latest"
HISTORY = relations.RELATIONS["history"]

#: How far the clock of the database may go back, and how long a settlement may take to read it.
SLACK = timedelta(minutes=1)

BEGINNING = "0001-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Seen:
    """What the database says when it is asked how far the history is final.

    ``horizon`` is the oldest transaction that is open: all before it have ended. ``fence`` is above the id of every
    transaction that had one at the time ``at``.
    """

    at: str
    horizon: int
    fence: int

    @classmethod
    def now(cls, connection: psycopg.Connection[Any]) -> Seen:
        """Reads clock, fence and horizon, each in a statement of its own, in this order.

        The fence depends on the order: with nothing open, the horizon is already beyond it.
        """
        at = reading.clock(connection).isoformat()
        fence = _number(connection, "select pgqueue._next_xid()::text::bigint")
        horizon = _number(connection, "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
        return cls(at, horizon, fence)


@dataclass(frozen=True)
class Offset:
    """How far a stream has come: every row of the transactions below ``transaction``.

    Transactions do not end in the order of their ids. Those below the horizon, the oldest that is open, have all ended,
    so a batch that reaches from one horizon to a later one has all its rows, and no later batch has them again.

    Rows are not in the order of transactions either, and there is no index on them; but there is one on the time of
    settlement, so a batch also has a lower bound for that, ``since``. It comes about so: at the time ``fence_at`` all
    ids that had been given were below ``fence``. Once ``transaction`` has reached the fence, every row still to come
    is of a transaction that got its id after ``fence_at``, and was settled after that. So ``fence_at`` is the new
    ``since``, and a new fence is taken. A minute of slack allows for a clock that is set back.

    ``at`` is the time by which a batch that ends here judges what the queues still retain, so that it has the same rows
    when it is read again; rows are missing from it only if their day was given back in the meantime.
    """

    transaction: int
    at: str
    since: str = BEGINNING
    fence: int = 0
    fence_at: str = BEGINNING

    def advanced(self, seen: Seen) -> Offset:
        """As far as the history is final now; its ``since`` holds for all that is after this offset."""
        if self.transaction < self.fence:
            return Offset(seen.horizon, seen.at, self.since, self.fence, self.fence_at)
        return Offset(seen.horizon, seen.at, self.fence_at, seen.fence, seen.at)

    @property
    def is_bounded(self) -> bool:
        return self.since != BEGINNING


class HistoryTail(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is settled in queues that retain history, each row once, when its transaction and all older ones have ended.

    A transaction that stays open holds the stream back. Each batch is all that there is, for a limit would have to sort
    what it leaves for later; the first one, from the beginning, is read in as many parts as the table would be.

    Options: ``queue``, all when nothing is said; ``columns``; ``startingFrom``, earliest or latest, for a stream
    without a checkpoint; ``numPartitions``, the parts that each batch is read in.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        read = Options(options, OPTIONS)
        if read.text("table") != "history":
            raise OptionError(
                "a stream reads option('table', 'history'), or consumes a queue with option('consumer', ...)"
            )
        relations.check(HISTORY, schema)
        self._dsn = read.dsn
        self._queue = read.text("queue")
        self._schema = schema
        self._from_earliest = read.one_of("startingFrom", (EARLIEST, LATEST)) == EARLIEST
        self._wanted = read.number("numPartitions", 1) if read.text("numPartitions") else None
        self._is_beginning = False
        self._empty_until: Offset | None = None
        self._target: Seen | None = None

    def initialOffset(self) -> dict[str, Any]:
        if self._from_earliest:
            return asdict(Offset(0, BEGINNING))
        self._is_beginning = True
        with self._connected() as connection:
            seen = Seen.now(connection)
        return asdict(Offset(seen.horizon, seen.at, BEGINNING, seen.fence, seen.at))

    def prepareForTriggerAvailableNow(self) -> None:
        with self._connected() as connection:
            self._target = Seen.now(connection)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The first batch from ``latest`` is empty: Spark writes down where a batch ends, and not where it begins."""
        if self._is_beginning:
            self._is_beginning = False
            return start
        with self._connected() as connection:
            return asdict(self._latest(connection, Offset(**start)))

    def _latest(self, connection: psycopg.Connection[Any], start: Offset) -> Offset:
        """The start itself while there is nothing new: another offset would be a batch without rows."""
        seen = self._target or Seen.now(connection)
        if seen.horizon < start.transaction:
            raise CheckpointError(
                f"the checkpoint has seen transaction {start.transaction}, this database is at {seen.horizon}: "
                "it is another one, or was restored; begin a new checkpoint"
            )
        behind = self._empty_until
        known = behind if behind is not None and behind.transaction >= start.transaction else start
        end = known.advanced(seen)
        if _has_rows(connection, known, end):
            return end
        self._empty_until = end
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[reading.Part]:
        """All rows of a batch are there and stay as they are, so the parts need no snapshot to agree."""
        first, last = Offset(**start), Offset(**end)
        if first.transaction >= last.transaction:
            return []
        with self._connected() as connection:
            conditions = [*_between(first, last), *reading.of_queue(connection, self._queue)]
            wanted = self._wanted or (1 if last.is_bounded else None)
            cuts = reading.cut(reading.stretches(connection, HISTORY), wanted)
        at, names = datetime.fromisoformat(last.at), self._schema.names
        return [
            reading.Part(relations.statement(HISTORY, names, at, conditions, each if len(cuts) > 1 else ()))
            for each in cuts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, reading.Part), "we are given what we have planned"
        return reading.batches(self._dsn, partition, self._schema)

    def _connected(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)


def _between(start: Offset, end: Offset) -> list[str]:
    """The condition of a batch; its bound in time is the one that was found with its end."""
    conditions = [
        f"kept.transaction_id >= '{start.transaction}'::xid8",
        f"kept.transaction_id < '{end.transaction}'::xid8",
    ]
    if end.is_bounded:
        since = datetime.fromisoformat(end.since) - SLACK
        conditions.append(f"kept.settled_at >= {relations.literal(since)}")
    return conditions


def _has_rows(connection: psycopg.Connection[Any], start: Offset, end: Offset) -> bool:
    """Of any queue: a stream of one queue moves on with the others, or would look at their rows again and again."""
    condition = " and ".join(_between(start, end))
    statement = f"select exists (select from pgqueue.settled_message as kept where {condition})"
    row = connection.execute(statement.encode()).fetchone()
    return row is not None and bool(row[0])


def _number(connection: psycopg.Connection[Any], query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None, "a select without a table has a row"
    return int(row[0])
