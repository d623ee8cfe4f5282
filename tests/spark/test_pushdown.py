"""Filters give the same rows in the database as in Spark, whatever is in the columns and in the filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pgqueue.spark import filters, reading, relations
from pgqueue.spark.options import Options
from pgqueue.spark.source import QueueSource
from pgqueue.testing.database import Database

COLUMNS = relations.RELATIONS["messages"].columns

PIECES = ["a", "B", "b", "Z", "é", "e\u0301", "ß", "€", "😀", "\uffee", "'", '"', "\\", "%", "_", " ", "\n", "-", "1"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
BYTES = st.binary(max_size=3) | st.sampled_from([b"\\", b"'", b"\x00", b"\xff\xfe"])
NUMBERS = st.integers(-2, 3) | st.sampled_from([-(2**31), 2**31 - 1])
TIMES = st.sampled_from([
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC),
    datetime(1900, 1, 2, tzinfo=UTC),
])  # fmt: skip

VALUES = {
    "subject": TEXTS,
    "state": st.sampled_from(["READY", "LOCKED", "EXPIRED"]),
    "binary_body": BYTES,
    "delivery_count": NUMBERS,
    "expires_at": TIMES,
}

ROWS = st.tuples(*(st.none() | VALUES[name] for name in ("subject", "binary_body", "expires_at")), NUMBERS)

INSERT = """
insert into pgqueue.message (sequence_number, position, enqueued_time, queue_id, lane,
                             subject, binary_body, expires_at, delivery_count)
select %(n)s, %(n)s, pgqueue.clock(), id, 1, %(subject)s, %(binary_body)s, %(expires_at)s, %(delivery_count)s
  from pgqueue.queue
"""


@pytest.fixture
def plain(spark: SparkSession, database: Database) -> DataFrame:
    """The messages of one queue, read by a source that is not given the filters."""

    class PlainQueueSource(QueueSource):
        @classmethod
        def name(cls) -> str:
            return "pgqueue without pushing"

    spark.dataSource.register(PlainQueueSource)
    with database.connect() as connection:
        connection.execute("select pgqueue.create_queue('q')")
        _compare_as_people_do(connection)
    return spark.read.format(PlainQueueSource.name()).option("dsn", database.dsn).load()


def pushing(spark: SparkSession, database: Database) -> DataFrame:
    """The same, for one filter that is pushed."""
    return spark.read.format("pgqueue").options(dsn=database.dsn, pushFilters="true").load()


def _compare_as_people_do(connection: psycopg.Connection[Any]) -> None:
    """Where the server knows a collation of a language, columns have that, for order and equality are harder then."""
    row = connection.execute(
        "select collname from pg_collation where collname = any (%s)", [["en-x-icu", "en_US.utf8", "en_US"]]
    ).fetchone()
    if row is not None:
        change = sql.SQL("alter table pgqueue.message alter column subject type text collate {}")
        connection.execute(change.format(sql.Identifier(row[0])))


def _about(name: str) -> st.SearchStrategy[Filter]:
    """A comparison, a list, a question for null or a pattern, about one column."""
    path, value = (name,), VALUES[name]
    comparisons = st.sampled_from(sorted(filters.COMPARISONS, key=str))
    kinds: list[st.SearchStrategy[Filter]] = [
        st.builds(lambda kind, value: kind(path, value), comparisons, value),
        st.builds(lambda values: In(path, tuple(values)), st.lists(st.none() | value, min_size=1, max_size=4)),
        st.sampled_from([IsNull(path), IsNotNull(path)]),
    ]
    if name == "subject":
        patterns = st.sampled_from(sorted(filters.PATTERNS, key=str))
        kinds.append(st.builds(lambda kind, value: kind(path, value), patterns, TEXTS))
    return st.one_of(kinds)


ABOUT = st.sampled_from(sorted(VALUES)).flatmap(_about)
FILTERS = ABOUT | ABOUT.map(Not)

METHODS: dict[type[Filter], str] = {
    EqualTo: "__eq__",
    EqualNullSafe: "eqNullSafe",
    GreaterThan: "__gt__",
    GreaterThanOrEqual: "__ge__",
    LessThan: "__lt__",
    LessThanOrEqual: "__le__",
    In: "isin",
    StringStartsWith: "startswith",
    StringEndsWith: "endswith",
    StringContains: "contains",
    IsNull: "isNull",
    IsNotNull: "isNotNull",
}


def _as_column(asked: Filter) -> Column:
    """What the user has said when Spark asks us for this filter."""
    if isinstance(asked, Not):
        return ~_as_column(asked.child)
    fields = vars(asked)
    method = getattr(sf.col(*fields["attribute"]), METHODS[type(asked)])
    value = list(fields["value"]) if isinstance(asked, In) else fields.get("value")
    column: Column = method(value) if "value" in fields else method()
    return column


def _in_the_database(database: Database, asked: list[Filter]) -> set[tuple[int, int]]:
    """For each filter the numbers of its rows, as the database finds them."""
    found = [filters.condition(each, COLUMNS) for each in asked]
    answers = ", ".join(f"({condition})" for condition in found)
    source = relations.statement(relations.RELATIONS["messages"], ["sequence_number"], database.clock.now())
    with database.connect() as connection:
        return _yes(connection.execute(source.replace(" as sequence_number", f", {answers}", 1).encode()).fetchall())


def _in_spark(frame: DataFrame, asked: list[Column]) -> set[tuple[int, int]]:
    """The same, as Spark finds them among all."""
    return _yes(frame.select("sequence_number", *asked).collect())


def _yes(rows: Iterable[Sequence[Any]]) -> set[tuple[int, int]]:
    return {(n, row[0]) for row in rows for n, answer in enumerate(row[1:]) if answer}


def _pushed(spark: SparkSession, database: Database, asked: list[Column]) -> set[tuple[int, int]]:
    """The same where Spark decides what to push, all in one job; each filter needs a read of its own."""
    parts = [
        pushing(spark, database).filter(each).select(sf.lit(n).alias("filter"), "sequence_number")
        for n, each in enumerate(asked)
    ]
    return {tuple(row) for row in reduce(DataFrame.unionAll, parts).collect()}


def _fill(database: Database, rows: list[tuple[object, ...]]) -> None:
    names = "subject", "binary_body", "expires_at", "delivery_count"
    with database.connect() as connection:
        connection.execute("truncate pgqueue.message")
        connection.cursor().executemany(
            INSERT, [{"n": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(rows)]
        )


@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=30, max_size=50), asked=st.lists(FILTERS, min_size=50, max_size=60))
def test_the_rows_are_those_that_spark_would_choose(
    database: Database, plain: DataFrame, rows: list[tuple[object, ...]], asked: list[Filter]
) -> None:
    _fill(database, rows)
    there, here = _in_the_database(database, asked), _in_spark(plain, [_as_column(each) for each in asked])
    assert not {(asked[n], rows[row]) for n, row in there ^ here}


def test_what_is_hard_to_write_or_to_translate(spark: SparkSession, database: Database, plain: DataFrame) -> None:
    texts = [None, "", "a", "A", "b", "100%", "100x", "it's", 'back\\slash"', "\\'", "$$", "é", "E", "a\\", "%_", "_"]
    time = datetime(2024, 1, 1, tzinfo=UTC)
    _fill(database, [(text, text and text.encode(), time + timedelta(microseconds=len(text or "")), n)
                     for n, text in enumerate(texts)])  # fmt: skip
    subject, count = sf.col("subject"), sf.col("delivery_count")
    asked = [
        subject == "a\0b",
        subject != "a\0b",
        subject.isin(["a", "a\0b"]),
        subject.isin([]),
        ~subject.isin([]),
        subject.isin(["a", None]),
        ~subject.isin(["a", None]),
        subject.isin([f"{n}" for n in range(20)] + ["it's"]),
        count > 3_000_000_000,
        count < 3_000_000_000,
        count == 2.5,
        count > 2.5,
        sf.col("sequence_number") == 2**63 - 1,
        sf.col("expires_at") > "2024-01-01 00:00:00.000002",
        sf.col("expires_at") < sf.lit("2024-01-02").cast("date"),
        sf.col("expires_at") == sf.lit("2024-01-01 02:00:00+02:00").cast("timestamp"),
        sf.col("binary_body").isin([b"a", b"\\'"]),
        sf.col("binary_body") > sf.lit(b"a"),
        subject.like("100\\%"),
        subject.rlike("^[ab]$"),
        (subject == "a") | (count == 4),
        (subject == "a") & (count == 2),
        sf.upper(subject) == "A",
        *(getattr(subject, method)(text) for method in ("__eq__", "contains") for text in ["it's", "\\'", "%_"]),
    ]
    found = _pushed(spark, database, asked)
    assert not {(str(asked[n]), texts[row]) for n, row in found ^ _in_spark(plain, asked)}
    assert len({n for n, _ in found}) > 15


def test_columns_that_are_not_selected_are_filtered_by(
    spark: SparkSession, database: Database, plain: DataFrame
) -> None:
    _fill(database, [("a", None, None, 1), ("b", None, None, 2)])
    rows = pushing(spark, database).filter("subject = 'b'").select("delivery_count").collect()
    assert [row.asDict() for row in rows] == [{"delivery_count": 2}]


def test_a_dataframe_is_filtered_in_several_ways_when_nothing_is_said(
    spark: SparkSession, database: Database, plain: DataFrame
) -> None:
    _fill(database, [(None, None, None, n) for n in range(10)])
    frame = spark.read.format("pgqueue").option("dsn", database.dsn).load()
    few, many = frame.filter("delivery_count > 7"), frame.filter("delivery_count > 3")
    assert [few.count(), frame.count(), few.union(many).count()] == [2, 10, 8]


PUSHED: list[tuple[Filter, str]] = [
    (EqualTo(("subject",), "it's"), "((kept.subject) collate \"C\") = E'it''s'"),
    (GreaterThan(("subject",), "\\"), "((kept.subject) collate \"C\") > E'\\\\'"),
    (Not(In(("delivery_count",), (1, None))), "not ((kept.delivery_count) in (1, null))"),
    (EqualNullSafe(("binary_body",), b"'"), "(kept.binary_body) is not distinct from decode('27', 'hex')"),
    (IsNull(("subject",)), '((kept.subject) collate "C") is null'),
    (IsNotNull(("delivery_count",)), "(kept.delivery_count) is not null"),
    (StringStartsWith(("subject",), "%"), "starts_with(((kept.subject) collate \"C\"), E'%')"),
    (StringContains(("body",), "x"), "strpos(((kept.body::text) collate \"C\"), E'x') > 0"),
    (
        StringEndsWith(("subject",), ""),
        "right(((kept.subject) collate \"C\"), char_length(E'')) = E''",
    ),
]

LEFT_TO_SPARK: list[Filter] = [
    EqualTo(("subject",), "a\0"),
    EqualTo(("subject",), "\ud800"),
    EqualTo(("subject",), 1),
    EqualTo(("subject",), None),
    EqualTo(("delivery_count",), True),
    EqualTo(("delivery_count",), 1.5),
    EqualTo(("expires_at",), datetime(2024, 1, 1)),  # noqa: DTZ001
    EqualTo(("subject", "field"), "a"),
    EqualTo(("nothing",), "a"),
    In(("subject",), ()),
    In(("subject",), ("a", "\0")),
    Not(In(("subject",), ("a", 1))),
    StringContains(("binary_body",), "a"),
]


@pytest.mark.parametrize(("asked", "expected"), PUSHED)
def test_a_filter_is_said_in_sql(asked: Filter, expected: str) -> None:
    assert filters.condition(asked, COLUMNS) == expected


@pytest.mark.parametrize("asked", LEFT_TO_SPARK)
def test_what_might_mean_something_else_is_left_to_spark(asked: Filter) -> None:
    reader = reading.PushingQueueReader(
        {"dsn": "postgresql://nowhere", "pushFilters": "true"}, relations.schema(Options({}, ()))
    )
    assert list(reader.pushFilters([asked, IsNull(("subject",))])) == [asked]


def test_the_time_of_settlement_is_looked_up_in_the_index(database: Database) -> None:
    schema = relations.schema(Options({"table": "history", "columns": "outcome"}, ("table", "columns")))
    options = {"dsn": database.dsn, "table": "history", "pushFilters": "true"}
    reader = reading.PushingQueueReader(options, schema)
    assert not list(reader.pushFilters([GreaterThan(("settled_at",), datetime(2024, 1, 1, tzinfo=UTC))]))
    (part,) = reader.partitions()
    with database.connect() as connection:
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(b"explain " + part.statement.encode()))
    assert "Bitmap Index Scan on settled_message_00_settled_at_idx" in plan
    assert "Index Cond: (settled_at >" in plan
