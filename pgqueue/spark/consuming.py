"""A stream that consumes a queue under lock: a batch is a claim, which replays unchanged until it is settled.

The protocol, as Spark drives it from one process on the driver, never two calls at a time:

=================  ========================================================================================
Spark              here
=================  ========================================================================================
latestOffset(N)    Spark has batch N in its commit log: N is completed, and N + 1 claimed, in one transaction
offset log         N + 1 is written down; a crash before it finds the open claim again, and takes none
partitions(N, M)   the locks of M are renewed, and from now on in the background
read               each task reads its share of the claim, then proves that it is still open in this epoch
sink, commit log   the batch takes effect
=================  ========================================================================================

Between two calls nothing is held but the locks of the open claim, and those last ``lockDuration`` beyond the last
renewal. While the query lives they are renewed at a third of that; when it is killed or given up they run out, and the
messages are delivered to others. Within that time the query can be started again and finds its batch as it was.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from pgqueue.spark.claims import Held
from pgqueue.spark.errors import CheckpointError, OptionError
from pgqueue.spark.options import Options

OPTIONS = ("queue", "consumer", "maxMessagesPerTrigger", "lockDuration", "numPartitions", "columns")
IN_USE, FENCED = "PQ009", "PQ010"

#: Who was stopped a moment ago has not quite let go yet.
PATIENCE_SECONDS = 10.0
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

CLAIM_BATCH: LiteralString = """
    select pgqueue.claim_batch(
           %(consumer)s, %(after)s, %(at_most)s, %(lock_duration)s, %(locked_by)s, %(up_to)s, epoch => %(epoch)s)
"""

BEGIN_CLAIM: LiteralString = """
    select pgqueue.begin_claim(%(consumer)s, %(claim)s, %(lock_duration)s, epoch => %(epoch)s)
"""

RENEW_CLAIM: LiteralString = """
    select pgqueue.renew_claim(%(consumer)s, %(lock_duration)s, claim => %(claim)s, epoch => %(epoch)s)
"""

CLAIMS: LiteralString = """
    select claim.claim, lock_token::text, messages,
           pg_catalog.lower(numbers), pg_catalog.upper(numbers), pg_catalog.lower(fresh), pg_catalog.upper(fresh),
           queue.id, queue.fresh_lanes::text, settled_at is not null
      from pgqueue.claim
      join pgqueue.consumer on consumer.name = claim.consumer
      join pgqueue.queue on queue.id = queue_id
     where claim.consumer = %(consumer)s and claim.claim > %(start)s and claim.claim <= %(claim)s
     order by claim.claim
"""


def layout(columns: str | None) -> str:
    """The columns of a stream, all or those named, as Spark reads them.

    Raises:
        OptionError: a column does not exist, or is named twice.
    """
    chosen = [name.strip() for name in columns.split(",")] if columns else list(COLUMNS)
    unknown = [name for name in chosen if name not in COLUMNS or chosen.count(name) > 1]
    if unknown:
        raise OptionError(f"each column is named once: not {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return ", ".join(f"{name} {COLUMNS[name][0]}" for name in chosen)


@dataclass
class Share(InputPartition):
    """The messages of a claim whose numbers lie from ``low`` up to ``high``, to be read while the epoch lasts."""

    claim: int
    epoch: int
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
        self._session: ConsumerSession | None = None  # on the driver only

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is sent from now on is left for the next time."""
        self._up_to = self._ask("select last_value from pgqueue.sequence_number")

    def initialOffset(self) -> dict[str, int]:
        """A query without a checkpoint goes on where the last one with this consumer's name had settled."""
        return {"claim": self._opened().settled}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        at_most = limit.max_rows if isinstance(limit, ReadMaxRows) else MOST
        self._check(start["claim"])
        return {"claim": self._opened().claim_batch(start["claim"], at_most, self._up_to)}

    def reportLatestOffset(self) -> dict[str, Any]:
        """What is worked on, for ``foreachBatch`` to settle that and nothing else; see ``claims.held_for``."""
        return asdict(self._opened().held)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The shares of the open claim; claims that were settled before have nothing left to give."""
        self._check(end["claim"])
        session = self._opened()
        session.begin(end["claim"])
        shares: list[InputPartition] = []
        for row in session.rows(CLAIMS, start=start["claim"], claim=end["claim"]):
            claim, *places, is_settled = row
            if not is_settled:
                shares += _shares(self._shares, claim, session.held.epoch, *places)
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
        yield from arrow.read(self._dsn, query, self._schema, before=arrow.BY_INDEX)
        self._prove(partition)

    def _prove(self, share: Share) -> None:
        """All of the share was read, if nobody has settled its claim until now: else this task fails."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("select pgqueue.check_claim(%s, %s, %s)", [self._consumer, share.claim, share.epoch])

    def stop(self) -> None:
        """What is claimed stays claimed: whether the last batch took effect only Spark's checkpoint knows."""
        if self._session is not None:
            self._session.close()

    def _ask(self, query: LiteralString) -> int:
        ((answer,),) = self._opened().rows(query)
        return int(answer)

    def _check(self, claim: int) -> None:
        made = self._ask("select claim from pgqueue.consumer where name = %(consumer)s")
        if claim > made:
            raise CheckpointError(
                f"the checkpoint is at claim {claim} of consumer {self._consumer!r}, which has made {made} in this "
                "database: it is another one, or was restored from before. Begin with a new checkpointLocation"
            )

    def _opened(self) -> ConsumerSession:
        if self._session is None:
            self._session = ConsumerSession(self._dsn, self._consumer, self._queue, self._lock_duration)
        return self._session


def _shares(
    number: int,
    claim: int,
    epoch: int,
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
    return [Share(claim, epoch, token, queue, fresh_lanes, *cut) for cut in pairwise(cuts)]


class ConsumerSession:
    """The driver's side of a consumer: the session that it is attached to, and a thread that renews its locks.

    A session that broke is replaced, in another epoch; whoever has attached meanwhile keeps the consumer, and this side
    says so.
    """

    def __init__(self, dsn: str, consumer: str, queue: str, lock_duration: timedelta) -> None:
        self._dsn = dsn
        self._consumer = consumer
        self._queue = queue
        self._lock_duration = lock_duration
        self._attaching = threading.Lock()
        self._connection, self.settled, epoch = self._attached()
        self.held = Held(consumer, self.settled, epoch)
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._renewals = threading.Thread(target=self._renew_until_closed, name=f"renews {consumer}", daemon=True)
        self._renewals.start()

    def rows(self, query: LiteralString, **parameters: Any) -> list[TupleRow]:
        """The rows of a query that may be asked twice; what is held is among its parameters."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._rows(query, parameters)
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
            with self._attaching:
                self._connection, _, epoch = self._attached()
                self.held = replace(self.held, epoch=epoch)
            return self._rows(query, parameters)

    def _rows(self, query: LiteralString, parameters: dict[str, Any]) -> list[TupleRow]:
        known = {**asdict(self.held), "lock_duration": self._lock_duration}
        return self._connection.execute(query, known | parameters).fetchall()

    def claim_batch(self, after: int, at_most: int, up_to: int | None) -> int:
        """Completes what was claimed up to ``after``; returns the claim that comes then, or ``after``."""
        ((claim,),) = self.rows(CLAIM_BATCH, after=after, at_most=at_most, locked_by=this_process(), up_to=up_to)
        self.held = replace(self.held, claim=claim)
        return int(claim)

    def begin(self, claim: int) -> None:
        self.rows(BEGIN_CLAIM, claim=claim)
        self.held = replace(self.held, claim=claim)

    def close(self) -> None:
        self._closing.set()
        self._connection.close()
        self._renewals.join()

    def _attached(self) -> tuple[psycopg.Connection[TupleRow], int, int]:
        """A session that is attached, the last claim that is settled, and the epoch that has begun."""
        connection = psycopg.connect(self._dsn, autocommit=True, application_name=f"pgqueue stream {self._consumer}")
        connection.add_notice_handler(_log_notice)
        latest = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                row = connection.execute(
                    "select settled_claim, epoch from pgqueue.attach_consumer(%s, %s)", [self._consumer, self._queue]
                ).fetchone()
            except psycopg.Error as error:
                if error.sqlstate != IN_USE or time.monotonic() > latest:
                    connection.close()
                    raise
                time.sleep(0.2)
            else:
                assert row is not None
                settled, epoch = row
                return connection, settled, epoch

    def _renew_until_closed(self) -> None:
        """Renew the locks on a connection of its own: the other one may be busy claiming.

        After an outage it goes on. Whether a lock was lost is known when the batch is settled.
        """
        try:
            while not self._closing.wait(self._lock_duration.total_seconds() / 3):
                self._renew(self.held)
        except BaseException as error:  # noqa: BLE001 (the next call raises it)
            self._failure = error

    def _renew(self, held: Held) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                connection.execute(RENEW_CLAIM, {**asdict(held), "lock_duration": self._lock_duration})
        except psycopg.OperationalError as error:
            sys.stderr.write(f"the locks of consumer {self._consumer!r} were not renewed this time: {error}\n")
        except psycopg.Error as error:
            if error.sqlstate != FENCED or not self._is_of_the_past(held):
                raise

    def _is_of_the_past(self, held: Held) -> bool:
        """Whether it was this side that has attached once more since."""
        with self._attaching:
            return held.epoch != self.held.epoch


def _log_notice(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        sys.stderr.write(f"{notice.message_primary}\n")
