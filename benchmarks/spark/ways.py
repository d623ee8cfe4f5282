"""The ways to write and to read many rows, each over the same connection settings and into the same kind of table."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from pyspark.sql import DataFrame, SparkSession

from pgqueue.spark import relations

# A queue's table with its indexes, for those who do not know of queues: numbers and times are filled in by defaults.
TABLE = """
create table plain (like pgqueue.message including all);
alter table plain set (fillfactor = 45);
alter table plain alter sequence_number set default nextval('pgqueue.sequence_number');
alter table plain alter position set default nextval('pgqueue.sequence_number');
alter table plain alter enqueued_time set default clock_timestamp();
alter table plain alter queue_id set default 1;
alter table plain alter lane set default 1;
"""

READ = "sequence_number, delivery_count, enqueued_time, message_id, body"
MESSAGES = relations.RELATIONS["messages"]


@dataclass
class Load:
    """The rows to write; ``prepared`` before the clock runs: in Spark's cache, and as Python pairs."""

    frame: DataFrame
    pairs: Sequence[tuple[str, str]] = ()

    def prepared(self) -> Load:
        frame = self.frame.cache()
        return Load(frame, [(row[0], row[1]) for row in frame.toLocalIterator()])


@dataclass(frozen=True)
class Scene:
    """A server at ``address``, a queue ``bench`` and a table ``plain`` on it, and a session."""

    address: str
    spark: SparkSession
    partitions: int

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@{self.address}"

    def clear(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("truncate pgqueue.message, plain")
            connection.execute("checkpoint")

    def count(self, table: str) -> int:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(f"select count(*) from {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def rows(self, count: int) -> Load:
        """Bodies of some 200 bytes, with an id."""
        columns = "to_json(struct(id, 'UA' as carrier, repeat('x', 150) as notes)) as body", "string(id) as message_id"
        return Load(self.spark.range(0, count, 1, self.partitions).selectExpr(*columns))


def write_as_a_job(scene: Scene, load: Load) -> str:
    load.frame.write.format("pgqueue").options(dsn=scene.dsn, queue="bench").mode("append").save()
    return "pgqueue.message"


def write_by_task(scene: Scene, load: Load) -> str:
    load.frame.write.format("pgqueue").options(dsn=scene.dsn, queue="bench", atomicity="task").mode("append").save()
    return "pgqueue.message"


def write_by_jdbc(scene: Scene, load: Load, tuned: bool = True) -> str:
    tuning = "&reWriteBatchedInserts=true" if tuned else ""
    writer = load.frame.write.format("jdbc").option(
        "url", f"jdbc:postgresql://{scene.address}?stringtype=unspecified{tuning}"
    )
    writer = writer.options(user="postgres", dbtable="plain", driver="org.postgresql.Driver")
    writer.option("batchsize", 10_000 if tuned else 1_000).mode("append").save()
    return "plain"


def write_by_default_jdbc(scene: Scene, load: Load) -> str:
    return write_by_jdbc(scene, load, tuned=False)


def write_by_psycopg(scene: Scene, load: Load) -> str:
    """One process, one COPY, from Python rows."""
    command = "copy plain (body, message_id) from stdin"
    with psycopg.connect(scene.dsn) as connection, connection.cursor().copy(command) as copy:
        for pair in load.pairs:
            copy.write_row(pair)
    return "plain"


def read_by_pgqueue(scene: Scene, columns: str = READ) -> None:
    reader = scene.spark.read.format("pgqueue").options(dsn=scene.dsn, columns=columns, numPartitions=scene.partitions)
    reader.load().write.format("noop").mode("overwrite").save()


def read_all_by_pgqueue(scene: Scene) -> None:
    read_by_pgqueue(scene, ", ".join(MESSAGES.columns))


def read_by_jdbc(scene: Scene, source: str = f"select {READ}, position from pgqueue.message") -> None:
    with psycopg.connect(scene.dsn) as connection:
        span = connection.execute("select min(position), max(position) from pgqueue.message").fetchone()
    assert span is not None
    reader = (
        scene.spark.read.format("jdbc").option("url", f"jdbc:postgresql://{scene.address}").option("user", "postgres")
    )
    reader = reader.option("dbtable", f"({source}) as t")
    reader = reader.options(driver="org.postgresql.Driver", fetchsize=10_000, partitionColumn="position")
    reader = reader.options(lowerBound=span[0], upperBound=span[1], numPartitions=scene.partitions)
    reader.load().drop("position").write.format("noop").mode("overwrite").save()


def read_all_by_jdbc(scene: Scene) -> None:
    """The same columns, from the tables; JDBC cannot read pgqueue's views in parts."""
    columns = ", ".join(f"{column.sql} as {name}" for name, column in MESSAGES.columns.items())
    kept = (
        "(select message.*, queue.name as queue, max_delivery_count from pgqueue.message"
        " join pgqueue.queue on queue.id = queue_id) as kept"
    )
    read_by_jdbc(scene, f"select {columns}, position from {kept} cross join (values (now())) as reading (moment)")


def read_by_psycopg(scene: Scene) -> None:
    """One process, a cursor in the server, rows as Python objects."""
    with psycopg.connect(scene.dsn) as connection, connection.cursor("bench") as cursor:
        cursor.itersize = 10_000
        for _ in cursor.execute(f"select {READ.replace('body', 'body::text')} from pgqueue.message".encode()):
            pass


def drain(scene: Scene) -> None:
    """Everything that waits, in claims of 50,000, read by tasks and completed."""
    stream = scene.spark.readStream.format("pgqueue").options(dsn=scene.dsn, queue="bench", consumer=uuid.uuid4().hex)
    frame = stream.option("numPartitions", scene.partitions).load().select("claim", "body", "message_id")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
