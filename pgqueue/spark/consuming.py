"""A stream that consumes a queue under lock: a batch is a claim, which replays unchanged until it is settled.

The protocol, as Spark drives it from one process on the driver, never two calls at a time:

=================  =====================================================================================
Spark              here
=================  =====================================================================================
latestOffset(N)    Spark has batch N in its commit log: N is completed, and N + 1 claimed, in one transaction
offset log         N + 1 is written down; a crash before it finds the open claim again, and takes none
partitions(N, M)   the locks of M are renewed, and from now on in the background
read               each task reads its share of what the claim's token locks
sink, commit log   the batch takes effect
=================  =====================================================================================

Between two calls nothing is held but the locks of the open claim, and those last ``lockDuration`` beyond the last
renewal. While the query lives they are renewed at a third of that; when it is killed or given up they run out, and the
messages are delivered to others. Within that time the query can be started again and finds its batch as it was.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
from psycopg.rows import TupleRow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pgqueue.model.holder import this_process
from pgqueue.spark import arrow
from pgqueue.spark.errors import CheckpointError, OptionError
from pgqueue.spark.options import Options

OPTIONS = ("queue", "consumer", "maxMessagesPerTrigger", "lockDuration", "numPartitions", "columns")
IN_USE = "PQ009"

#: Who was stopped a moment ago has not quite let go yet.
PATIENCE_SECONDS = 3.0
MOST = 2**31 - 1

#: What a message looks like in a stream: its column, Spark's type for it, and where it comes from.
COLUMNS = {
    "queue": ("string", "queue.name"),
    "claim": ("bigint", "{claim}"),
    "sequence_number": ("bigint", "message.sequence_number"),
    "body": ("string", "message.body::text"),
    "binary_body": ("binary", "message.binary_body"),
    "message_id": ("string", "message.message_id"),
    "correlation_id": ("string", "message.correlation_id"),
    "subject": ("string", "message.subject"),
    "content_type": ("string", "message.content_type"),
    "reply_to": ("string", "message.reply_to"),
    "application_properties": ("string", "message.application_properties::text"),
    "priority": ("int", "pgqueue._priority(message.lane)::int"),
    "delivery_count": ("int", "message.delivery_count"),
    "enqueued_time": ("timestamp", "message.enqueued_time"),
    "expires_at": ("timestamp", "message.expires_at"),
}

# A message that came back while its lock had run out, and that nobody else has taken, is found by its number.
SHARE = """
    select {columns}
      from pgqueue.message
      join pgqueue.queue on queue.id = message.queue_id
     where message.queue_id = {queue} and lane = any ('{fresh_lanes}') and position >= {low} and position < {high}
       and lock_token = '{token}'
     union all
    select {columns}
      from pgqueue.message
      join pgqueue.queue on queue.id = message.queue_id
     where message.queue_id = {queue} and lane % 2 = 0 and sequence_number >= {low} and sequence_number < {high}
       and lock_token = '{token}'
"""

CLAIMS = """
    select claim.claim, lock_token::text, messages, lower(numbers), upper(numbers), lower(fresh), upper(fresh),
           queue.id, queue.fresh_lanes::text, settled_at is not null
      from pgqueue.claim
      join pgqueue.consumer on consumer.name = claim.consumer
      join pgqueue.queue on queue.id = queue_id
     where claim.consumer = %s and claim.claim > %s and claim.claim <= %s
     order by claim.claim
"""


def layout(columns: str | None) -> str:
    """The columns of a stream, all or those named, as Spark reads them.

    Raises
    ------
    OptionError
        One of them does not exist.
    """
    chosen = [name.strip() for name in columns.split(",")] if columns else list(COLUMNS)
    unknown = [name for name in chosen if name not in COLUMNS or chosen.count(name) > 1]
    if unknown:
        raise OptionError(f"each column is named once: not {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return ", ".join(f"{name} {COLUMNS[name][0]}" for name in chosen)


@dataclass
class Share(InputPartition):
    """The messages of a claim whose numbers lie from ``low`` up to ``high``."""

    claim: int
    token: str
    queue: int
    fresh_lanes: str
    low: int
    high: int


class QueueStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Consumes a queue: what a batch holds is locked for it, and completed when Spark is done with the batch.

    Options: ``queue``; ``consumer``, a name that stands for this query, whatever becomes of its checkpoint;
    ``maxMessagesPerTrigger`` (50 000); ``lockDuration``, in seconds (300): for so long after the query died its batch
    waits for it; ``numPartitions`` (2); ``columns``.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        read = Options(options, OPTIONS)
        self._dsn = read.dsn
        self._schema = schema
        self._limit = read.number("maxMessagesPerTrigger", 50_000)
        self._shares = read.number("numPartitions", 2)
        self._consumer = read.needed("consumer")
        self._queue = read.needed("queue")
        self._lock_duration = read.seconds("lockDuration", 300)
        self._up_to: int | None = None
        self._desk: Desk | None = None  # on the driver only

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is sent from now on is left for the next time."""
        self._up_to = self._ask("select last_value from pgqueue.sequence_number")

    def initialOffset(self) -> dict[str, int]:
        """A query without a checkpoint goes on where the last one with this consumer's name had settled."""
        return {"claim": self._at_the_desk().settled}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        at_most = limit.max_rows if isinstance(limit, ReadMaxRows) else MOST
        self._check(start["claim"])
        claim = self._ask(
            "select pgqueue.claim_batch(%s, %s, %s, %s, %s, %s)",
            self._consumer,
            start["claim"],
            at_most,
            self._lock_duration,
            this_process(),
            self._up_to,
        )
        return {"claim": claim}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The shares of the open claim; claims that were settled before have nothing left to give."""
        self._check(end["claim"])
        desk = self._at_the_desk()
        desk.begin(end["claim"])
        shares: list[InputPartition] = []
        for row in desk.rows(CLAIMS, self._consumer, start["claim"], end["claim"]):
            *claim, is_settled = row
            if not is_settled:
                shares += _shares(self._shares, *claim)
        return shares

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        columns = ", ".join(
            f'{COLUMNS[field.name][1].format(claim=partition.claim)} as "{field.name}"' for field in self._schema.fields
        )
        query = SHARE.format(
            columns=columns,
            queue=partition.queue,
            fresh_lanes=partition.fresh_lanes,
            low=partition.low,
            high=partition.high,
            token=partition.token,
        )
        return arrow.read(self._dsn, query, self._schema, before=arrow.BY_INDEX)

    def stop(self) -> None:
        """What is claimed stays claimed: whether the last batch took effect only Spark's checkpoint knows."""
        if self._desk is not None:
            self._desk.close()

    def _ask(self, query: LiteralString, *parameters: Any) -> int:
        ((answer,),) = self._at_the_desk().rows(query, *parameters)
        return int(answer)

    def _check(self, claim: int) -> None:
        made = self._ask("select claim from pgqueue.consumer where name = %s", self._consumer)
        if claim > made:
            raise CheckpointError(
                f"the checkpoint is at claim {claim} of consumer {self._consumer!r}, which has made {made} in this "
                "database: it is another one, or was restored from before. Begin with a new checkpointLocation"
            )

    def _at_the_desk(self) -> Desk:
        if self._desk is None:
            self._desk = Desk(self._dsn, self._consumer, self._queue, self._lock_duration)
        return self._desk


def _shares(
    number: int,
    claim: int,
    token: str,
    messages: int,
    low: int,
    high: int,
    fresh_low: int | None,
    fresh_high: int | None,
    queue: int,
    fresh_lanes: str,
) -> list[Share]:
    """Ranges of numbers that hold about as many fresh messages each, and all of the others between them."""
    first, last = (fresh_low, fresh_high) if fresh_low is not None and fresh_high is not None else (low, high)
    number = max(1, min(number, messages))
    cuts = [low, *(first + (last - first) * n // number for n in range(1, number)), high]
    return [Share(claim, token, queue, fresh_lanes, *cut) for cut in pairwise(cuts)]


class Desk:
    """The driver's side of a consumer: the session that it is attached to, and a thread that renews its locks.

    A session that broke is replaced; whoever has attached meanwhile keeps the consumer, and this side says so.
    """

    def __init__(self, dsn: str, consumer: str, queue: str, lock_duration: timedelta) -> None:
        self._dsn = dsn
        self._consumer = consumer
        self._queue = queue
        self._lock_duration = lock_duration
        self._connection = self._attach()
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._renewals = threading.Thread(target=self._renew_until_closed, name=f"renews {consumer}", daemon=True)
        self._renewals.start()

    def rows(self, query: LiteralString, *parameters: Any) -> list[TupleRow]:
        """The rows of a query that may be asked twice."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._connection.execute(query, parameters).fetchall()
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
            self._connection = self._attach()
            return self._connection.execute(query, parameters).fetchall()

    def begin(self, claim: int) -> None:
        self.rows("select pgqueue.begin_claim(%s, %s, %s)", self._consumer, claim, self._lock_duration)

    def close(self) -> None:
        self._closing.set()
        self._connection.close()
        self._renewals.join()

    def _attach(self) -> psycopg.Connection[TupleRow]:
        connection = psycopg.connect(self._dsn, autocommit=True, application_name=f"pgqueue stream {self._consumer}")
        connection.add_notice_handler(_tell)
        latest = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                row = connection.execute(
                    "select pgqueue.attach_consumer(%s, %s)", [self._consumer, self._queue]
                ).fetchone()
            except psycopg.Error as error:
                if error.sqlstate != IN_USE or time.monotonic() > latest:
                    connection.close()
                    raise
                time.sleep(0.2)
            else:
                assert row is not None
                self.settled = int(row[0])
                return connection

    def _renew_until_closed(self) -> None:
        """On a connection of its own: the other one may be busy claiming. An outage is waited out: what it cost is
        known when the batch is settled."""
        try:
            while not self._closing.wait(self._lock_duration.total_seconds() / 3):
                try:
                    with psycopg.connect(self._dsn, autocommit=True) as connection:
                        connection.execute("select pgqueue.renew_claim(%s, %s)", [self._consumer, self._lock_duration])
                except psycopg.OperationalError as error:
                    sys.stderr.write(f"the locks of consumer {self._consumer!r} were not renewed this time: {error}\n")
        except BaseException as error:  # noqa: BLE001 (the next call raises it)
            self._failure = error


def _tell(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        sys.stderr.write(f"{notice.message_primary}\n")
