"""A stream that consumes a queue: each batch is a claim, which is replayed unchanged until it is settled.

Spark makes these calls from one process on the driver, never two at a time:

=================  ========================================================================================
Spark              here
=================  ========================================================================================
latestOffset(N)    Spark has batch N in its commit log: N is completed, and N + 1 claimed, in one transaction
offset log         Spark records N + 1; after an earlier crash the open claim is found again, and no other is made
partitions(N, M)   the locks of M are renewed now, and in the background from now on
read               each task reads its share of the claim, then checks that it is still open in this epoch
sink, commit log   the batch takes effect
=================  ========================================================================================

Between two calls, only the messages of the open claim are locked, for ``lockDuration`` after the last renewal. While
the query runs, the locks are renewed every third of that time. If the query is killed, they expire, and the messages
are delivered to others. Before that, the query can be started again and finds its batch unchanged.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from pgqueue.spark.backlog import Backlog
from pgqueue.spark.claims import RELEASE_CLAIM, Held
from pgqueue.spark.connections import RETRIED_SECONDS, Instance, connect, first_row, is_lost, looking, trying_again
from pgqueue.spark.errors import CheckpointError
from pgqueue.spark.options import Options
from pgqueue.spark.relations import CLAIMED, literal, statement

OPTIONS = (
    "queue",
    "subscribe",
    "consumer",
    "maxMessagesPerTrigger",
    "maxOffsetsPerTrigger",
    "lockDuration",
    "onLostLocks",
    "numPartitions",
    "columns",
)
RELEASE, FAIL = "release", "fail"
IN_USE, FENCED = "PQ009", "PQ010"

#: How long to wait for a consumer that is still in use: the session of a stopped query may take a moment to end.
PATIENCE_SECONDS = 10.0
MOST = 2**31 - 1

ATTACH: LiteralString = "select settled_claim, epoch from pgqueue.attach_consumer(%s, %s)"

#: Before the connection is closed: a busy server may take its time to end the session.
DETACH: LiteralString = "select pg_catalog.pg_advisory_unlock_all()"

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

KNOWN: LiteralString = """
    select claim, settled_claim, pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)
      from pgqueue._consumer
     where name = %(consumer)s
"""

CLAIMS: LiteralString = """
    select claim, messages,
           pg_catalog.lower(numbers), pg_catalog.upper(numbers), pg_catalog.lower(fresh), pg_catalog.upper(fresh),
           settled_at is not null
      from pgqueue._claim
     where consumer = %(consumer)s and claim > %(start)s and claim <= %(claim)s
     order by claim
"""


@dataclass
class Share(InputPartition):
    """The messages of a claim with numbers from ``low`` up to but not including ``high``, read in one epoch."""

    claim: int
    epoch: int
    low: int
    high: int


class QueueStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Consumes a queue: the messages of a batch are locked, and completed when Spark has recorded the batch as done.

    Options: ``queue``; ``consumer``, a name for this query that does not depend on its checkpoint;
    ``maxMessagesPerTrigger`` (50 000); ``lockDuration``, in seconds (300), how long a batch stays locked after the
    query has died; ``onLostLocks``, whether ``in_transaction`` releases a batch that has lost locks, or fails;
    ``numPartitions`` (2); ``columns``.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        read = Options(options, OPTIONS)
        self._instance = read.instance
        self._schema = schema
        self._limit = read.number("maxMessagesPerTrigger") or 50_000
        self._shares = read.number("numPartitions") or 2
        self._consumer = read.needed("consumer")
        self._queue = read.needed("queue")
        self._lock_duration = read.seconds("lockDuration", 300)
        self._releases = read.one_of("onLostLocks", (RELEASE, FAIL)) == RELEASE
        self._up_to: int | None = None
        self._backlog = Backlog(self._queue)
        self._open_claim: int | None = None
        self._begun: int | None = None
        self._is_planned = False
        self._is_transactional = False
        self._session: ConsumerSession | None = None  # on the driver only

    def look(self) -> None:
        """Attach in a transaction that is rolled back: what would fail when the query starts fails now.

        Raises:
            DatabaseError: the database cannot be reached, or refuses to let this role consume the queue.
        """
        with looking(self._instance) as connection:
            try:
                connection.execute(ATTACH, [self._consumer, self._queue])
            except psycopg.Error as error:
                if error.sqlstate != IN_USE:  # the query that uses it may end in time
                    raise
            connection.rollback()
            connection.execute(DETACH)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the newest message: those sent from now on are left for the next run."""
        self._up_to = self._ask("select pgqueue._newest_number(%(queue)s)", queue=self._queue)

    def initialOffset(self) -> dict[str, Any]:
        """The last settled claim of the consumer: a query without a checkpoint continues after it."""
        return {"claim": self._opened().settled}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next claim.

        Its offset also records the timeline of the server that it was made on, whether the batches before it were
        completed in the transactions of their effects, and whether it was settled before it became part of this batch:
        an older checkpoint was restored then.
        """
        at_most = limit.max_rows if isinstance(limit, ReadMaxRows) else MOST
        self._is_planned = False
        settled, timeline = self._settle(start)
        claim = self._opened().claim_batch(start["claim"], at_most, self._up_to)
        self._open_claim = claim if claim > start["claim"] else None
        self._backlog.count(self._opened().rows)
        if self._open_claim is None:
            return start
        return {
            "claim": claim,
            "timeline": timeline,
            "transactional": self._is_transactional,
            "settled_before": claim <= settled,
        }

    def _settle(self, start: dict[str, Any]) -> tuple[int, str]:
        """Give back the batch that Spark has recorded as done, if its effects were forgotten.

        Return the last settled claim before that, and the timeline.

        They were if the claim is open, although the sink completes in transactions, and a standby was promoted since.
        """
        claim: int = start["claim"]
        settled, timeline = self._check(claim)
        was_transactional = self._is_transactional or start.get("transactional", False)
        if settled < claim and was_transactional and start.get("timeline", timeline) != timeline:
            self._opened().rows(RELEASE_CLAIM, claim=claim)
            sys.stderr.write(
                f"a promoted standby has forgotten claim {claim} of {self._consumer!r}: it is given back\n"
            )
        elif self._begun == claim:
            self._is_transactional = settled >= claim
        else:
            self._is_transactional = was_transactional
        self._begun = None
        return settled, timeline

    def reportLatestOffset(self) -> dict[str, Any]:
        """The claim in progress, so that ``foreachBatch`` settles exactly this one, and what waits besides.

        Spark shows it as ``latestOffset`` in the progress of the query, and does not compare it with other offsets. It
        is also asked for by ``claims.held_for``.
        """
        held = replace(self._opened().held, is_planned=self._is_planned)
        return asdict(held) | {"open_claim": self._open_claim} | self._backlog.counted

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The shares of the open claim; claims that are settled have no messages left.

        Spark asks before ``foreachBatch``, also when it repeats a batch, if the offset has changed or is the first.
        """
        self._check(end["claim"])
        self._is_planned = end["claim"] > start["claim"] and not end.get("settled_before", False)
        session = self._opened()
        self._begun = end["claim"] if session.begin(end["claim"]) else None
        shares: list[InputPartition] = []
        for row in session.rows(CLAIMS, start=start["claim"], claim=end["claim"]):
            claim, *places, is_settled = row
            if not is_settled:
                shares += _shares(self._shares, claim, session.held.epoch, *places)
        return shares

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        conditions = [
            f"kept.consumer = {literal(self._consumer)} and kept.claim = {partition.claim}",
            f"kept.number >= {partition.low} and kept.number < {partition.high}",
        ]
        query = statement(CLAIMED, self._schema.names, None, conditions, schema=self._instance.schema)
        yield from arrow.read(self._instance.dsn, query, self._schema, before=arrow.BY_INDEX)
        self._prove(partition)

    def _prove(self, share: Share) -> None:
        """Fail this task if the claim has been settled meanwhile: the share may then be incomplete."""
        with connect(self._instance, autocommit=True) as connection:
            connection.execute("select pgqueue.check_claim(%s, %s, %s)", [self._consumer, share.claim, share.epoch])

    def stop(self) -> None:
        """Close the session. The claim stays open: only Spark's checkpoint knows whether its batch took effect."""
        if self._session is not None:
            self._session.close()

    def _ask(self, query: LiteralString, **parameters: str) -> int:
        ((answer,),) = self._opened().rows(query, **parameters)
        return int(answer)

    def _check(self, claim: int) -> tuple[int, str]:
        """Return the last settled claim, and the timeline of the server.

        Raises:
            CheckpointError: this database has not made the claim.
        """
        ((made, settled, timeline),) = self._opened().rows(KNOWN)
        if claim > made:
            raise CheckpointError(
                f"the checkpoint is at claim {claim} of consumer {self._consumer!r}, whose last claim in this database "
                f"is {made}: this is another database, or an older backup of it. Use a new checkpointLocation"
            )
        return settled, timeline

    def _opened(self) -> ConsumerSession:
        if self._session is None:
            self._session = ConsumerSession(
                self._instance, self._consumer, self._queue, self._lock_duration, releases=self._releases
            )
        return self._session


def _shares(
    number: int,
    claim: int,
    epoch: int,
    messages: int,
    low: int,
    high: int,
    fresh_low: int | None,
    fresh_high: int | None,
) -> list[Share]:
    """Divide the numbers of a claim into ranges with about equal numbers of fresh messages."""
    first, last = (fresh_low, fresh_high) if fresh_low is not None and fresh_high is not None else (low, high)
    number = max(1, min(number, messages))
    cuts = [low, *(first + (last - first) * n // number for n in range(1, number)), high]
    return [Share(claim, epoch, *cut) for cut in pairwise(cuts)]


class ConsumerSession:
    """The driver's side of a consumer: the session that it is attached to, and a thread that renews its locks.

    A lost session is replaced by one with a new epoch. If another query has attached meanwhile, it keeps the consumer,
    and this side raises an error.
    """

    def __init__(
        self, instance: Instance, consumer: str, queue: str, lock_duration: timedelta, *, releases: bool = False
    ) -> None:
        self._instance = instance
        self._consumer = consumer
        self._queue = queue
        self._lock_duration = lock_duration
        self._attaching = threading.Lock()
        self._connection, self.settled, epoch = self._attached()
        self.held = Held(consumer, self.settled, epoch, releases, queue)
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._renewals = threading.Thread(target=self._renew_until_closed, name=f"renews {consumer}", daemon=True)
        self._renewals.start()

    def rows(self, query: LiteralString, **parameters: Any) -> list[TupleRow]:
        """Return the rows of a query that may run twice; its parameters include the fields of ``held``."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._rows(query, parameters)
        except psycopg.OperationalError as error:
            if not is_lost(error):
                raise
            return trying_again(RETRIED_SECONDS)(self._rows_anew, query, parameters)

    def _rows_anew(self, query: LiteralString, parameters: dict[str, Any]) -> list[TupleRow]:
        self._connection.close()
        with self._attaching:
            self._connection, _, epoch = self._attached()
            self.held = replace(self.held, epoch=epoch)
        return self._rows(query, parameters)

    def _rows(self, query: LiteralString, parameters: dict[str, Any]) -> list[TupleRow]:
        known = {**asdict(self.held), "lock_duration": self._lock_duration}
        return self._connection.execute(query, known | parameters).fetchall()

    def claim_batch(self, after: int, at_most: int, up_to: int | None) -> int:
        """Complete the claims up to ``after``; return the next claim, or ``after`` if there are no messages."""
        ((claim,),) = self.rows(CLAIM_BATCH, after=after, at_most=at_most, locked_by=this_process(), up_to=up_to)
        self.held = replace(self.held, claim=claim)
        return int(claim)

    def begin(self, claim: int) -> bool:
        """Renew the locks of a claim; return whether it is open."""
        ((is_open,),) = self.rows(BEGIN_CLAIM, claim=claim)
        self.held = replace(self.held, claim=claim)
        return bool(is_open)

    def close(self) -> None:
        self._closing.set()
        with suppress(psycopg.Error):  # the connection is lost, and with it the lock
            self._connection.execute(DETACH)
        self._connection.close()
        self._renewals.join()

    def _attached(self) -> tuple[psycopg.Connection[TupleRow], int, int]:
        """Attach a new session; return it, the last settled claim, and the new epoch."""
        connection = connect(self._instance, autocommit=True, application_name=f"pgqueue stream {self._consumer}")
        connection.add_notice_handler(_log_notice)
        latest = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                settled, epoch = first_row(connection, ATTACH, [self._consumer, self._queue])
            except psycopg.Error as error:
                if error.sqlstate != IN_USE or time.monotonic() > latest:
                    connection.close()
                    raise
                time.sleep(0.2)
            else:
                return connection, settled, epoch

    def _renew_until_closed(self) -> None:
        """Renew the locks on a separate connection, because the other one may be busy claiming.

        It continues after an outage. If a lock was lost meanwhile, settling the batch shows it.
        """
        try:
            while not self._closing.wait(self._lock_duration.total_seconds() / 3):
                self._renew(self.held)
        except BaseException as error:  # noqa: BLE001 (the next call raises it)
            self._failure = error

    def _renew(self, held: Held) -> None:
        try:
            with self._instance.connect(autocommit=True) as connection:
                connection.execute(RENEW_CLAIM, {**asdict(held), "lock_duration": self._lock_duration})
        except psycopg.OperationalError as error:
            sys.stderr.write(f"the locks of consumer {self._consumer!r} were not renewed; trying again: {error}\n")
        except psycopg.Error as error:
            if error.sqlstate != FENCED or not self._is_of_the_past(held):
                raise

    def _is_of_the_past(self, held: Held) -> bool:
        """Whether this side itself has attached again since."""
        with self._attaching:
            return held.epoch != self.held.epoch


def _log_notice(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        sys.stderr.write(f"{notice.message_primary}\n")
