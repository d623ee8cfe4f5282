"""Spark in a process of its own: a stream that consumes a queue, and jobs that write to all of them."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any

import pgqueue.spark
from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.history import Outcome
from benchmarks.chaos.kinds.acting import READY, Actor, Broken, Kind
from pgqueue.spark import java

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CONSUMER = "chaos"
LOCK_SECONDS = 3
BATCH = 100
MOST_ROWS = 30
TRIES = 3
CONFIGURATION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # The usual one starts a process for each file that it looks at, on machines without Hadoop's native library.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
}


def is_there() -> bool:
    """Whether this machine has PySpark, and a Java that it runs on."""
    if importlib.util.find_spec("pyspark") is None:
        return False
    try:
        java.provide()
    except java.JavaMissing:
        return False
    return True


class Spark:
    """Consumes in transactions, and starts the stream again when it has failed; writes meanwhile."""

    def __init__(self, actor: Actor) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no type annotations
        from pyspark.errors import PySparkException

        self._actor = actor
        self._errors = (PySparkException, Py4JError)
        self._ready = actor.setting.directory / READY
        self._directory = actor.setting.directory / f"spark-{actor.name.rpartition('.')[2]}"
        places = {"spark.sql.warehouse.dir": self._directory, "spark.local.dir": self._directory}
        self._spark = pgqueue.spark.session(
            master="local[2,4]", config=CONFIGURATION | {name: str(place) for name, place in places.items()}
        )
        self._queues = [each for each in actor.setting.queues if each not in actor.setting.sessions]
        self._checkpoint = 0
        self._query: StreamingQuery | None = None

    def step(self) -> None:
        if self._query is None:
            self._send(self._actor.queue)  # for the first batch
        if self._query is None or not self._query.isActive:
            self._start()
        if self._actor.is_resting:
            self._actor.pause(0.5)
        else:
            self._send(self._actor.chance.choice(self._queues))

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def _start(self) -> None:
        """With its checkpoint, unless the stream refuses that."""
        if self._query is not None:
            line = pgqueue.spark.reason_of(self._query.exception() or Exception("stopped")).line
            with self._actor.operation("stream", reason=line):
                self._checkpoint += "a new checkpointLocation" in line
        options = {"dsn": self._actor.setting.dsn, "queue": self._actor.queue, "consumer": CONSUMER}
        limits = {"lockDuration": str(LOCK_SECONDS), "maxMessagesPerTrigger": str(BATCH)}
        stream = self._spark.readStream.format("pgqueue").options(**options, **limits)
        try:
            writer = stream.load().writeStream.foreachBatch(self._post).trigger(processingTime="200 milliseconds")
            self._query = writer.start(checkpointLocation=str(self._directory / f"checkpoint-{self._checkpoint}"))
        except self._errors as error:
            raise self._expected(error) from None
        while not self._ready.exists() and self._query.isActive:
            self._actor.pause(0.1)
            if self._query.lastProgress is not None:
                self._ready.touch()

    def _post(self, batch: DataFrame, number: int) -> None:
        """Its outcome is not known from here: a batch that has lost its locks is given back."""
        with self._actor.operation("take", effect=True, doubt=True) as operation:
            operation.outcome = Outcome.UNKNOWN

            @pgqueue.spark.in_transaction(CONSUMER, dsn=self._actor.setting.dsn)
            def work(batch: DataFrame, transaction: psycopg.Connection[Any]) -> None:
                operation.facts["ids"] = [json.loads(row["body"])["id"] for row in batch.select("body").collect()]
                self.write(transaction, operation.facts["ids"], operation.name)

            work(batch, number)

    def write(self, transaction: psycopg.Connection[Any], messages: list[str], attempt: str) -> None:
        for message in messages:
            transaction.execute(EFFECT, [message, attempt])

    def _send(self, queue: str) -> None:
        """A job that fails is written again under its name."""
        setting, chance = self._actor.setting, self._actor.chance
        messages = self._actor.new_messages(chance.randint(1, MOST_ROWS))
        frame = self._spark.createDataFrame([(json.dumps({"id": each}),) for each in messages], "body string")
        options = {"dsn": setting.dsn, "queue": queue, "job": f"job of {messages[0]}"}
        with self._actor.operation("send", queue, ids=messages, doubt=True):
            for attempt in range(TRIES):
                try:
                    frame.write.format("pgqueue").options(**options).mode("append").save()
                    break
                except self._errors as error:
                    if attempt + 1 == TRIES:
                        raise self._expected(error) from None
        self._actor.pause(chance.uniform(0, 1))

    def _expected(self, error: Exception) -> Exception:
        """The error that stands for a fault; the error itself, if the call was wrong."""
        reason = pgqueue.spark.reason_of(error)
        return error if reason.is_wrong_use else Broken(reason.line)


RECEIVERS: dict[str, type[Kind]] = {"spark": Spark}
