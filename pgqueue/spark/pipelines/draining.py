"""A queue to a lake of Parquet, each message once.

A batch is a claim: messages locked for a consumer, under a number that is never used again. They are written to
``queue=…/date=…/consumer=…/claim=…``, and then completed. Until then the claim is replayed after a crash, with or
without its checkpoint, and overwrites what it had written.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

import pgqueue.spark
from pgqueue.spark.claims import COMPLETE_CLAIM, RELEASE_CLAIM, Held, held_for
from pgqueue.spark.connections import Instance, retried_until_known
from pgqueue.spark.consuming import BEGIN_CLAIM, ConsumerSession
from pgqueue.spark.errors import PipelineError
from pgqueue.spark.pipelines.ingesting import check_queue
from pgqueue.spark.pipelines.lake import Lake, counting, day_of, escaped, located
from pgqueue.spark.pipelines.objects import opened
from pgqueue.spark.pipelines.progress import Progress, Tell
from pgqueue.spark.pipelines.sending import LONGEST_SAMPLE

LAYOUT = ("queue", "date", "consumer", "claim")
LOOKS_EVERY_SECONDS = 1
PAUSE_OF_A_FOLLOWER = "1 second"

OPEN_CLAIM: LiteralString = "select open_claim from pgqueue.consumers where consumer = %(consumer)s"
LOST = "select coalesce(max(lost_messages), 0) from pgqueue._consumer where name = %(consumer)s"
WAITING_IN_CLAIM = "select coalesce(sum(messages), 0)::bigint from pgqueue.consumers where consumer = %(consumer)s"


@dataclass(frozen=True)
class Drained:
    """The result of a drain; in a dry run, what it would do now."""

    queue: str
    consumer: str
    output: str
    messages: int
    """How many messages were written and completed."""
    claims: int
    """In how many batches."""
    lost: int
    """How many of them had lost their locks, and are also delivered to others. A longer lock duration prevents it."""
    dry_run: bool
    sample: tuple[dict[str, Any], ...] = ()
    """In a dry run: a few messages."""


class Stopped(Exception):
    """The drain is over, so this batch must not be written."""


def drain(
    queue: str,
    output: str | Path,
    *,
    dsn: str,
    schema: str = "pgqueue",
    consumer: str | None = None,
    max_messages: int = 50_000,
    lock_duration: float = 300,
    partitions: int = 2,
    follow: bool = False,
    stop: threading.Event | None = None,
    dry_run: bool = False,
    progress: Tell | None = None,
    spark: SparkSession | None = None,
) -> Drained:
    """Move messages of a queue into Parquet, each exactly once: those there now, or with ``follow`` all to come.

    Unless the drain is killed, it leaves nothing locked: what was written is completed, the rest is given back. If it
    was killed, run it again: it finds what it had claimed, and writes that again in the same place. Without that
    within ``lock_duration``, those messages are delivered to others.

    Args:
        queue: the queue to drain.
        output: a directory; the checkpoint is in it, in ``_checkpoints``.
        dsn: the database.
        schema: the schema of pgqueue there.
        consumer: the name under which messages are claimed, by one drain at a time; by default a name made of the queue
            and the output. Drains of one queue into one output, each under a name of its own, do not touch each other's
            files.
        max_messages: how many messages one batch has at most.
        lock_duration: for how many seconds a batch stays claimed after the drain was killed; while it runs, it is
            renewed.
        partitions: in how many parts a batch is read, and how many files are written to each directory at most.
        follow: go on until ``stop`` is set, or the process is interrupted.
        stop: an event that ends a drain.
        dry_run: report what there is to drain, without Spark; claim nothing, write nothing.
        progress: called after each batch.
        spark: the session to use; by default :func:`pgqueue.spark.session`.

    Raises:
        pgqueue.errors.QueueNotFoundError: no queue has that name.
        pgqueue.spark.errors.PipelineError: the consumer is another queue's, or in use; as Spark hands it on.
    """
    instance = Instance(dsn, schema)
    check_queue(instance, queue)
    where = located(output)
    name = consumer or f"{queue}-lake-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    if dry_run:
        return _foreseen(queue, name, where, instance)
    session = spark or pgqueue.spark.session()
    lake = opened(session, where)
    before = _ask(instance, LOST, consumer=name) or 0
    claims = Claims(lake, instance, queue, name, timedelta(seconds=lock_duration), progress)
    stream = session.readStream.format("pgqueue").options(
        **asdict(instance),
        queue=queue,
        consumer=name,
        maxMessagesPerTrigger=max_messages,
        lockDuration=lock_duration,
        numPartitions=partitions,
        columns="*",
    )
    writer = stream.load().writeStream.foreachBatch(claims.write)
    timed = writer.trigger(processingTime=PAUSE_OF_A_FOLLOWER) if follow else writer.trigger(availableNow=True)
    with lake.checkpoint(escaped(name)) as checkpoint, claims.closed_at_the_end():
        _run(timed.option("checkpointLocation", checkpoint.location).start(), stop or threading.Event())
    open_claim = _ask(instance, OPEN_CLAIM, consumer=name)
    if open_claim is not None:
        raise PipelineError(f"claim {open_claim} of consumer {name!r} is still open: run the drain again")
    lost = (_ask(instance, LOST, consumer=name) or 0) - before
    return Drained(queue, name, where, claims.messages, claims.claims, lost, dry_run=False)


def _run(query: StreamingQuery, stop: threading.Event) -> None:
    """Wait until the query has ended, or stop it when ``stop`` is set."""
    try:
        while not stop.is_set() and not query.awaitTermination(LOOKS_EVERY_SECONDS):
            pass
    finally:
        query.stop()


@dataclass
class Claims:
    """Writes claims to the lake, and records which claim it has written completely."""

    lake: Lake
    instance: Instance
    queue: str
    consumer: str
    lock_duration: timedelta
    progress: Tell | None
    messages: int = 0
    claims: int = 0
    written: Held | None = None
    is_closed: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)

    def write(self, batch: DataFrame, _batch_id: int) -> None:
        """Write a batch; called by Spark. The batch of a settled claim is empty: it was written before."""
        with self.turn:
            if self.is_closed:
                raise Stopped("the drain was stopped")
            held = held_for(batch)[self.consumer]
            if _ask(self.instance, BEGIN_CLAIM, lock_duration=self.lock_duration, **asdict(held)):
                self._write(batch, held)

    def _write(self, batch: DataFrame, held: Held) -> None:
        earlier = self._places_of(held.claim)
        rows = batch.withColumns({"date": day_of("enqueued_time"), "consumer": F.lit(self.consumer)})
        written = counting(rows, lambda seen: self.lake.overwrite(seen, self.lake.root, *LAYOUT))
        if earlier:
            self._clear(earlier, {str(row["date"]) for row in rows.select("date").distinct().collect()})
        if held != self.written:
            self.written = held
            self.messages += written
            self.claims += 1
        if self.progress is not None:
            self.progress(Progress(self.messages, self.claims))

    def _clear(self, earlier: list[str], days: set[str]) -> None:
        """Delete what an earlier attempt wrote: messages whose locks were lost since no longer belong to this claim."""
        for place in earlier:
            if not any(f"/date={day}/" in place for day in days):
                self.lake.remove(place)

    def _places_of(self, claim: int) -> list[str]:
        consumer = f"consumer={escaped(self.consumer)}"
        return self.lake.find("queue=*", "date=*", consumer, f"claim={claim}")

    @contextmanager
    def closed_at_the_end(self) -> Iterator[None]:
        """At the end of the block, stop writing, and complete or release the open claim."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the first error is raised
                self._close()
            raise
        self._close()

    def _close(self) -> None:
        with self.turn:
            self.is_closed = True
            claim = _ask(self.instance, OPEN_CLAIM, consumer=self.consumer)
            if self.written is not None and self.written.claim == claim:
                _ask(self.instance, COMPLETE_CLAIM, **asdict(self.written))
            elif claim is not None:
                self._give_back()

    def _give_back(self) -> None:
        """Release the claim in an attached session: another drain that uses the consumer by now keeps its claim."""
        session = ConsumerSession(self.instance, self.consumer, self.queue, self.lock_duration)
        try:
            for (claim,) in session.rows(OPEN_CLAIM):
                if claim is not None:
                    for place in self._places_of(claim):
                        self.lake.remove(place)
                    session.rows(RELEASE_CLAIM, claim=claim)
        finally:
            session.close()


def _foreseen(queue: str, consumer: str, output: str, instance: Instance) -> Drained:
    with instance.client() as client:
        ready = client.get_queue_runtime_properties(queue).ready
        peeked = client.queue(queue).peek(max_messages=LONGEST_SAMPLE)
    claimed = _ask(instance, WAITING_IN_CLAIM, consumer=consumer) or 0
    shown = tuple(
        {
            "sequence_number": message.sequence_number,
            "message_id": message.message_id,
            "subject": message.subject,
            "body": message.body,
        }
        for message in peeked
    )
    return Drained(queue, consumer, output, ready + claimed, 0, 0, dry_run=True, sample=shown)


def _ask(instance: Instance, query: str, **parameters: object) -> int | None:
    """Return one number, in a transaction of its own; the query may run twice."""
    row = retried_until_known(instance, lambda connection: connection.execute(query.encode(), parameters).fetchone())
    return None if row is None else row[0]
