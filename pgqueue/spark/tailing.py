"""The history as a stream: each settled message once; nothing is consumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pgqueue.spark import reading, relations
from pgqueue.spark.connections import RETRIED_SECONDS, connect_once, first_row, trying_again
from pgqueue.spark.errors import CheckpointError, OptionError
from pgqueue.spark.options import Options

T = TypeVar("T")

OPTIONS = ("queue", "subscribe", "table", "columns", "startingFrom", "startingOffsets", "numPartitions")
EARLIEST, LATEST = "earliest", "latest"
HISTORY = relations.RELATIONS["history"]

#: How far the database's clock may be set back, and how old a settlement's time may be when it is written.
SLACK = timedelta(minutes=1)

BEGINNING = "0001-01-01T00:00:00+00:00"

#: The snapshot is taken first, so its transactions have ended before the position.
HORIZON: LiteralString = """
    select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
           left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_current_wal_insert_lsn()::text
"""

#: Whether the server, when it was promoted, had all WAL up to a position. Where its replay ended is known until it
#: stops; after a crash it is where the recovery ended, and that was before the statistics were reset.
HAS_KEPT: LiteralString = """
    select coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)
       and coalesce(pg_last_xact_replay_timestamp() > pg_stat_get_bgwriter_stat_reset_time(), false)
"""


@dataclass(frozen=True)
class Seen:
    """How far the history is final, by the database.

    ``horizon`` is the oldest open transaction: all before it have ended. ``fence`` is greater than the id of every
    transaction that had an id at the time ``at``. ``timeline`` is the server's, which is another after a promotion, and
    ``position`` is where its WAL was: transactions that ended before have an earlier position.
    """

    at: str
    horizon: int
    fence: int
    timeline: str = ""
    position: str = ""

    @classmethod
    def now(cls, connection: psycopg.Connection[Any]) -> Seen:
        """Read clock, fence and horizon, each in a statement of its own, in this order.

        The order matters: the horizon can then reach the fence if no transaction is open. It is not beyond, because an
        id that was given out later may not have been written to disk, and is given out again after a crash.
        """
        at = reading.clock(connection).isoformat()
        (fence,) = first_row(connection, "select pgqueue._next_xid()::text::bigint")
        horizon, timeline, position = first_row(connection, HORIZON)
        return cls(at, min(horizon, fence), fence, timeline, position)


@dataclass(frozen=True)
class Offset:
    """The position of a stream: it has read every row of the transactions below ``transaction``.

    Transactions do not end in the order of their ids. All below the horizon, the oldest open transaction, have ended.
    So a batch from one horizon to a later one has all its rows, and no later batch contains them again.

    Rows are not stored in the order of transactions, and transaction ids have no index. The time of settlement has
    one, so a batch also has a lower bound on it, ``since``. At the time ``fence_at``, all transaction ids in use were
    below ``fence``. Once ``transaction`` has reached the fence, every later row belongs to a transaction that got its
    id after ``fence_at``, and was settled after that. So ``fence_at`` becomes the new ``since``, and a new fence is
    taken. A minute of slack allows for a clock that is set back.

    A promotion begins another ``timeline``. Transaction ids continue where the standby had read the WAL of the old
    primary. If that was before ``position``, ids that were read are given out again, and the stream cannot continue.

    ``at`` is the time for which a batch that ends here decides what the queues retain, so that a replay has the same
    rows. A row is missing from a replay only if its day of history was reclaimed in the meantime.
    """

    transaction: int
    at: str
    since: str = BEGINNING
    fence: int = 0
    fence_at: str = BEGINNING
    timeline: str = ""
    position: str = ""

    def advanced(self, seen: Seen) -> Offset:
        """The offset up to which the history is final now; its ``since`` is valid for all rows after this offset."""
        place = (seen.timeline, seen.position)
        if self.transaction < self.fence:
            return Offset(seen.horizon, seen.at, self.since, self.fence, self.fence_at, *place)
        return Offset(seen.horizon, seen.at, self.fence_at, seen.fence, seen.at, *place)

    @property
    def is_bounded(self) -> bool:
        return self.since != BEGINNING


class HistoryTail(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Messages settled in queues that retain history, each once, after its transaction and all older ones have ended.

    A transaction that stays open delays the stream. A batch contains all rows there are, because a limit would need a
    sort. The first batch of a stream from the beginning is read in as many parts as the table would be.

    Options: ``queue``, by default all queues; ``columns``; ``startingFrom``, earliest or latest, for a stream without
    a checkpoint; ``numPartitions``, the number of parts of each batch.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        read = Options(options, OPTIONS)
        if read.text("table") != "history":
            raise OptionError(
                "a stream reads option('table', 'history'), or consumes a queue with option('consumer', ...)"
            )
        relations.check(HISTORY, schema)
        self._instance = read.instance
        self._queue = read.text("queue")
        self._schema = schema
        self._from_earliest = read.one_of("startingFrom", (EARLIEST, LATEST)) == EARLIEST
        self._wanted = read.number("numPartitions")
        self._is_beginning = False
        self._empty_until: Offset | None = None
        self._target: Seen | None = None

    def initialOffset(self) -> dict[str, Any]:
        if self._from_earliest:
            return asdict(Offset(0, BEGINNING))
        self._is_beginning = True
        return asdict(Offset(0, BEGINNING).advanced(self._ask(Seen.now)))

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ask(Seen.now)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. The first from ``latest`` is empty: Spark records only where a batch ends."""
        if self._is_beginning:
            self._is_beginning = False
            return start
        return asdict(self._ask(lambda connection: self._latest(connection, Offset(**start))))

    def _latest(self, connection: psycopg.Connection[Any], start: Offset) -> Offset:
        """The newest offset, or the start if there are no new rows: another offset would make an empty batch."""
        seen = self._target or Seen.now(connection)
        if seen.horizon < start.transaction:
            raise CheckpointError(
                f"the checkpoint is at transaction {start.transaction}, but this database is at {seen.horizon}: "
                "this is another database, or a restored one. Use a new checkpointLocation"
            )
        _check_timeline(connection, start, seen)
        behind = self._empty_until
        known = behind if behind is not None and behind.transaction >= start.transaction else start
        end = known.advanced(seen)
        if _has_rows(connection, known, end):
            return end
        self._empty_until = end
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[reading.Part]:
        """The parts of a batch. They need no common snapshot: the rows of a batch exist and do not change."""
        first, last = Offset(**start), Offset(**end)
        if first.transaction >= last.transaction:
            return []
        wanted = self._wanted or (1 if last.is_bounded else None)
        conditions = [*_between(first, last), *self._ask(lambda connection: reading.of_queue(connection, self._queue))]
        cuts = reading.cut(self._ask(lambda connection: reading.stretches(connection, HISTORY)), wanted)
        at, names, schema = datetime.fromisoformat(last.at), self._schema.names, self._instance.schema
        places = cuts if len(cuts) > 1 else [[]]
        return [
            reading.Part(relations.statement(HISTORY, names, at, conditions, each, schema=schema)) for each in places
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, reading.Part), "we are given what we have planned"
        return reading.batches(self._instance.dsn, partition, self._schema)

    def _ask(self, question: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Ask the database, again if the connection is lost; each statement sees the newest state."""

        def ask_once() -> T:
            with connect_once(self._instance, autocommit=True) as connection:
                return question(connection)

        return trying_again(RETRIED_SECONDS)(ask_once)


def _check_timeline(connection: psycopg.Connection[Any], start: Offset, seen: Seen) -> None:
    """Refuse an offset of another timeline, unless this server was promoted from it and has forgotten nothing.

    Raises:
        CheckpointError: transaction ids that the stream has read past may be given out again.
    """
    if start.timeline in ("", seen.timeline):
        return
    is_next = int(seen.timeline, 16) == int(start.timeline, 16) + 1
    if not is_next or not first_row(connection, HAS_KEPT, [start.position])[0]:
        raise CheckpointError(
            "the server was promoted or restored since this checkpoint, and has forgotten settlements that it read, or "
            "may have. Use a new checkpointLocation, and a new place for what the stream writes"
        )


def _between(start: Offset, end: Offset) -> list[str]:
    """The conditions of a batch; its lower bound in time is in its end."""
    conditions = [
        f"kept.transaction_id >= '{start.transaction}'::xid8",
        f"kept.transaction_id < '{end.transaction}'::xid8",
    ]
    if end.is_bounded:
        since = datetime.fromisoformat(end.since) - SLACK
        conditions.append(f"kept.settled_at >= {relations.literal(since)}")
    return conditions


def _has_rows(connection: psycopg.Connection[Any], start: Offset, end: Offset) -> bool:
    """Whether any queue has rows in between: a stream of one queue also advances past the rows of the others."""
    condition = " and ".join(_between(start, end))
    statement = f"select exists (select from pgqueue._settled_message as kept where {condition})"
    return bool(first_row(connection, statement.encode())[0])
