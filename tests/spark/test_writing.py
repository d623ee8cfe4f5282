"""A DataFrame into a queue: exactly once, all or nothing, whatever becomes of its tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from pgqueue import QueueClient
from pgqueue.spark.source import QueueSource
from pgqueue.spark.writing import QueueWriter, Staged
from pgqueue.testing import Database
from tests.fields import STAGED_VALUES
from tests.patience import eventually
from tests.spark.leftovers import is_swept, left_over

# Spark's workers do not know the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("q")
        yield client


def writing(frame: DataFrame, database: Database, source: str = "pgqueue", **options: str) -> DataFrameWriter:
    return frame.write.format(source).options(dsn=database.dsn, **{"queue": "q", **options}).mode("append")


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("to_json(struct(id)) as body")


def ids(database: Database) -> list[int]:
    """The numbers that were sent, in the order that they will be received in."""
    with database.connect() as connection:
        found = connection.execute("select (body ->> 'id')::int from pgqueue.message order by position").fetchall()
    return [number for (number,) in found]


@pytest.mark.core
@pytest.mark.parametrize("atomicity", ["job", "task"])
def test_every_row_is_a_message_and_nothing_is_left_over(
    spark: SparkSession, database: Database, client: QueueClient, atomicity: str
) -> None:
    writing(numbers(spark, 1000, 3), database, atomicity=atomicity).save()
    assert sorted(ids(database)) == list(range(1000))
    assert left_over(database) == []


def test_a_job_is_sent_in_the_order_of_its_partitions_and_rows(
    spark: SparkSession, database: Database, client: QueueClient
) -> None:
    writing(numbers(spark, 1000, 4), database).save()
    assert ids(database) == list(range(1000))


def test_every_column_arrives_as_the_field_of_a_message(
    spark: SparkSession, database: Database, client: QueueClient
) -> None:
    at = datetime(2013, 1, 1, tzinfo=UTC)
    frame = spark.sql(
        """
        select '{"a": [1, null, "\u00fc\\\\u4e2d"]}' as body, '{"p": 1}' as application_properties, -7L as priority,
               interval '1 02:03:04' day to second as time_to_live,
               timestamp '2013-01-01 00:00:00' as scheduled_enqueue_time
        """
    )
    writing(frame.withColumns({name: lit(value) for name, value in STAGED_VALUES.items()}), database).save()
    (message,) = client.queue("q").receive(lock_duration=timedelta(seconds=9)) or pytest.fail("nothing was sent")
    assert message.body == {"a": [1, None, "\u00fc\u4e2d"]}
    assert {field: getattr(message, field) for field in STAGED_VALUES} == STAGED_VALUES
    assert message.priority == -7
    assert message.application_properties == {"p": 1}
    assert message.expires_at is not None
    assert message.expires_at - message.enqueued_time == timedelta(days=1, hours=2, minutes=3, seconds=4)
    assert message.enqueued_time > at


@pytest.mark.parametrize("column", ["body", "binary_body"])
def test_bytes_are_kept_byte_for_byte(
    spark: SparkSession, database: Database, client: QueueClient, column: str
) -> None:
    writing(spark.sql(f"select unhex('00ff0a') as {column}"), database).save()
    assert client.queue("q").receive()[0].body == b"\x00\xff\n"


def test_a_stream_of_nothing_sends_nothing(spark: SparkSession, database: Database, client: QueueClient) -> None:
    writing(numbers(spark, 10).where("false"), database).save()
    assert ids(database) == []


def test_duplicates_and_priorities_are_those_of_the_queue(
    spark: SparkSession, database: Database, client: QueueClient
) -> None:
    client.create_queue("once", requires_duplicate_detection=True)
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "to_json(struct(id)) as body", "string(id % 60) as message_id", "int(id % 3) as priority"
    )
    for _ in range(2):
        writing(frame, database, queue="once").save()
    received = client.queue("once").receive(max_messages=100)
    assert len({message.message_id for message in received}) == len(received) == 60
    assert [message.priority for message in received] == sorted(message.priority for message in received)


def test_a_full_queue_refuses_the_whole_job(spark: SparkSession, database: Database, client: QueueClient) -> None:
    client.create_queue("small", max_queue_length=99)
    with pytest.raises(PySparkException, match="queue small would be overfull: 100 messages, and it may hold 99"):
        writing(numbers(spark, 100), database, queue="small").save()
    assert ids(database) == []
    assert left_over(database) == []


@pytest.mark.parametrize(
    ("expressions", "complaint"),
    [
        (["if(id = 777, '{', '{}') as body"], "invalid input syntax for type json"),
        (["if(id = 777, null, '{}') as body"], ".*not one without"),
        (["'{}' as body", "if(id = 777, 101L, id % 2) as priority"], "the priority"),
        (["'{}' as body", "if(id = 777, 10000000000L, 1) as priority"], "its priority is 10000"),
        (["if(id = 777, concat('{\"a\": \"', char(92), 'u0000\"}'), '{}') as body"], "unsupported"),
        (["'{}' as body", "if(id = 777, string(unhex('61006200')), 'b') as subject"], "invalid byte"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_and_nothing_of_its_job_is_sent(
    spark: SparkSession, database: Database, client: QueueClient, expressions: list[str], complaint: str
) -> None:
    frame = spark.range(0, 1000, 1, 2).selectExpr(*expressions)
    with pytest.raises(PySparkException, match=f"partition 1, row 278: {complaint}"):
        writing(frame, database).save()
    assert ids(database) == []
    eventually(lambda: is_swept(database), "something is left")


@pytest.mark.parametrize(
    ("expressions", "complaint"),
    [
        (["'1' as body", "id as colour"], "a message has no 'colour': drop the column, or name it one of body, "),
        (["'1' as body", "'x' as session_id"], "a message has no 'session_id'"),
        (["id as body"], "'body' is bigint, which cannot be sent: make it text with to_json"),
        (["struct(id) as body"], "'body' is struct<id:bigint>, which cannot be sent: make it text with to_json"),
        (["'1' as body", "interval 2 months as time_to_live"], "cast it to interval day to second"),
        (["'1' as body", "date'2026-01-01' as scheduled_enqueue_time"], "cast it to timestamp"),
        (["'1' as body", "id as subject"], "'subject' is bigint, which cannot be sent: cast it to string"),
        (["'1' as body", "'5 min' as time_to_live"], "cast it to interval day to second"),
        (["'s' as subject"], "there is no column 'body'"),
    ],
)
def test_a_column_that_cannot_be_sent_is_refused_before_anything_runs(
    spark: SparkSession, database: Database, client: QueueClient, expressions: list[str], complaint: str
) -> None:
    with pytest.raises(AnalysisException, match=complaint):
        writing(spark.range(3).selectExpr(*expressions), database).save()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "red"}, "there is no option 'colour' here; there are dsn, schema, queue, atomicity, job"),
        ({"atomicity": "row"}, "'atomicity' must be one of job, task, not 'row'"),
        ({"queue": ""}, "the option 'queue' is missing"),
        ({"queue": "nowhere"}, "queue nowhere does not exist"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, database: Database, client: QueueClient, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException, match=complaint):
        writing(numbers(spark, 3), database, **options).save()


def test_without_a_database_there_is_a_word_about_it(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="no database was named"):
        numbers(spark, 3).write.format("pgqueue").option("queue", "q").mode("append").save()


def test_a_queue_is_not_overwritten(spark: SparkSession, database: Database, client: QueueClient) -> None:
    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        writing(numbers(spark, 3), database).mode("overwrite").save()


@pytest.mark.parametrize("atomicity", ["job", "task"])
def test_a_job_with_a_name_is_sent_once(
    spark: SparkSession, database: Database, client: QueueClient, atomicity: str
) -> None:
    for _ in range(2):
        writing(numbers(spark, 100), database, atomicity=atomicity, job="night of the 3rd").save()
    assert sorted(ids(database)) == list(range(100))


class Unlucky(QueueWriter):
    """The first try of each task fails, before its work is stored or after."""

    def __init__(self, options: Any, schema: StructType, when: str) -> None:
        super().__init__(options, schema, overwrite=False)
        self._when = when

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() > 0:
            return super().write(iterator)
        if self._when == "before":
            super().write(broken(iterator))
        super().write(iterator)
        raise RuntimeError("after it was stored")


class Forgetful(QueueWriter):
    """The driver fails when everything is staged."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        raise RuntimeError("just before it was published")


def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield next(batches)
    raise RuntimeError("in the middle of it")


class UnluckyBefore(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "unlucky-before"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return Unlucky(self.options, schema, "before")


class UnluckyAfter(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "unlucky-after"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return Unlucky(self.options, schema, "after")


class ForgetfulSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "forgetful"

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return Forgetful(self.options, schema, overwrite)


@pytest.mark.parametrize("atomicity", ["job", "task"])
@pytest.mark.parametrize("source", [UnluckyBefore, UnluckyAfter])
def test_a_task_that_fails_and_is_tried_again_sends_once(
    spark: SparkSession, database: Database, client: QueueClient, source: type[QueueSource], atomicity: str
) -> None:
    spark.dataSource.register(source)
    writing(numbers(spark, 1000), database, source.name(), atomicity=atomicity).save()
    assert sorted(ids(database)) == list(range(1000))
    assert left_over(database) == []


def test_a_driver_that_fails_before_it_publishes_sends_nothing_and_leaves_nothing(
    spark: SparkSession, database: Database, client: QueueClient
) -> None:
    spark.dataSource.register(ForgetfulSource)
    with pytest.raises(PySparkException, match="just before it was published"):
        writing(numbers(spark, 10), database, "forgetful").save()
    assert ids(database) == []
    assert left_over(database) == []
