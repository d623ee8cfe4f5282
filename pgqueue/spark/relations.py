"""The readable tables of a queue, with the columns of the views of the same names.

Errors of deliveries, and where a message died before, are left out. The order of the columns is that of the first
version, with later ones at the end; times are exact, which most views show in seconds.

The statements read the tables below these views, because the views sort and cannot be read in parts. For that, each
table has a view of its own, its name with an underscore in front, which shows the ``ctid`` as ``place`` and checks what
the caller may do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType, TimestampType

from pgqueue.model.columns import TEXTS
from pgqueue.spark.errors import ColumnError, OptionError
from pgqueue.spark.options import Options


@dataclass(frozen=True)
class Column:
    """A column: Spark's type, and the SQL expression; ``reading.moment`` is the time of the read."""

    type: DataType
    sql: str


@dataclass(frozen=True)
class Relation:
    """A base table in the schema ``pgqueue``, its columns and a condition on its rows; its view has the alias ``kept``.

    ``usual`` are the columns that are read if none are named: all of them would cost almost twice as much.
    ``in_days`` means that the table has one partition a day, numbered by ``slot``, which are reused in turn.
    """

    base: str
    columns: dict[str, Column]
    usual: tuple[str, ...]
    condition: str | None = None
    in_days: bool = False


@dataclass(frozen=True)
class Stretch:
    """Blocks of a table from ``first`` until before ``end``; ``slot`` is the number of the day's partition, if any."""

    first: int
    end: int
    slot: int | None = None


def _text(name: str, sql: str | None = None) -> dict[str, Column]:
    return {name: Column(StringType(), sql or f"kept.{name}")}


def _number(name: str, sql: str | None = None) -> dict[str, Column]:
    return {name: Column(IntegerType(), sql or f"kept.{name}")}


def _long(name: str, sql: str | None = None) -> dict[str, Column]:
    return {name: Column(LongType(), sql or f"kept.{name}")}


def _time(name: str) -> dict[str, Column]:
    return {name: Column(TimestampType(), f"kept.{name}")}


def _said_time(name: str) -> dict[str, Column]:
    """A time that a user has chosen. Spark has no infinity, so an infinite time is null."""
    return {name: Column(TimestampType(), f"case when isfinite(kept.{name}) then kept.{name} end")}


NAMED = _text("queue") | _long("sequence_number")
PRIORITY = _number("priority", "pgqueue._priority(kept.lane)")
LABELS = _text("message_id") | _text("correlation_id") | _text("subject") | _text("content_type")
SESSION = _text("session_id")
BODIES = _text("body", "kept.body::text") | {"binary_body": Column(BinaryType(), "kept.binary_body")}
PROPERTIES = _text("application_properties", "kept.application_properties::text")
TEXT = {name: column for each in TEXTS for name, column in _text(each.name, f"kept.{each.identifier}").items()}
CONTENT = LABELS | _text("reply_to") | PROPERTIES | BODIES | TEXT
LOCK = _said_time("locked_until") | _text("locked_by")

NUMBERS = ("queue", "sequence_number", "enqueued_time", "delivery_count")
BODY = ("message_id", "subject", "body", "binary_body")

MESSAGE_STATE = """\
case when kept.locked_until > reading.moment then 'LOCKED'
     when kept.expires_at <= reading.moment then 'EXPIRED'
     when kept.delivery_count >= kept.max_delivery_count then 'EXHAUSTED'
     when pgqueue._is_deferred(kept.lane) then 'DEFERRED'
     else 'READY' end"""
DEFERRED_STATE = """\
case when kept.locked_until > reading.moment then 'LOCKED'
     when kept.delivery_count >= kept.max_delivery_count then 'EXHAUSTED'
     else 'DEFERRED' end"""

#: The relations by the value of the option ``table``; the first is the default.
RELATIONS = {
    "messages": Relation(
        "message",
        NAMED
        | _text("state", MESSAGE_STATE)
        | PRIORITY
        | _number("delivery_count")
        | _time("enqueued_time")
        | _said_time("expires_at")
        | LOCK
        | CONTENT,
        usual=(*NUMBERS, *BODY),
    ),
    "dead_letters": Relation(
        "dead_letter",
        NAMED
        | _text("dead_letter_reason")
        | _text("dead_letter_error_description")
        | _time("dead_lettered_at")
        | _number("delivery_count")
        | PRIORITY
        | _time("enqueued_time")
        | LOCK
        | CONTENT,
        usual=(*NUMBERS, "dead_letter_reason", "dead_lettered_at", *BODY),
    ),
    "deferred": Relation(
        "message",
        NAMED
        | _text("state", DEFERRED_STATE)
        | _number("delivery_count")
        | PRIORITY
        | _time("enqueued_time")
        | _said_time("expires_at")
        | LOCK
        | CONTENT,
        usual=(*NUMBERS, *BODY),
        condition="kept.is_deferred",
    ),
    "scheduled": Relation(
        "scheduled_message",
        NAMED
        | _said_time("scheduled_enqueue_time")
        | _number("delivery_count")
        | PRIORITY
        | _time("enqueued_time")
        | _said_time("expires_at")
        | CONTENT,
        usual=(*NUMBERS, "scheduled_enqueue_time", *BODY),
    ),
    "history": Relation(
        "settled_message",
        NAMED
        | _text("outcome")
        | _text("reason")
        | _time("enqueued_time")
        | _time("first_locked_at")
        | _time("settled_at")
        | _number("delivery_count")
        | _text("locked_by")
        | _number("priority")
        | _number("body_size")
        | LABELS
        | _long("transaction_id", "kept.transaction_id::text::bigint")
        | SESSION,
        usual=(*NUMBERS, "outcome", "reason", "first_locked_at", "settled_at", "message_id", "subject", "content_type"),
        condition="kept.settled_at > reading.moment - kept.retain_history",
        in_days=True,
    ),
}


def chosen(options: Options) -> Relation:
    """The table that the option ``table`` names.

    Raises:
        OptionError: there is no such table.
    """
    return RELATIONS[options.one_of("table", tuple(RELATIONS))]


def schema(options: Options) -> StructType:
    """The usual columns of a table, or those that the option ``columns`` lists, in that order; ``*`` is all of them.

    Raises:
        OptionError: there is no such table, or it has no such column.
    """
    relation = chosen(options)
    schema = StructType()
    for name in dict.fromkeys(listed(options.text("columns"), relation.columns, relation.usual)):
        if name not in relation.columns:
            raise OptionError(f"the table has no column {name!r}; it has {', '.join(relation.columns)}")
        schema = schema.add(name, relation.columns[name].type)
    return schema


def listed(columns: str | None, every: Iterable[str], usual: Iterable[str]) -> list[str]:
    """The names in the option ``columns``: ``*`` is all columns, and without the option it is the usual ones."""
    if columns is None:
        return list(usual)
    return list(every) if columns.strip() == "*" else [name.strip() for name in columns.split(",")]


def check(relation: Relation, schema: StructType) -> None:
    """Refuse a ``schema(...)`` that the table does not have.

    Raises:
        ColumnError: the schema names a column that does not exist, or gives it another type.
    """
    for field in schema.fields:
        column = relation.columns.get(field.name)
        if column is None:
            raise ColumnError(f"the table has no column {field.name!r}; it has {', '.join(relation.columns)}")
        if column.type != field.dataType:
            kinds = column.type.simpleString(), field.dataType.simpleString()
            raise ColumnError(f"the column {field.name!r} is {kinds[0]}, not {kinds[1]}: read it so and cast it later")


def statement(
    relation: Relation,
    names: Sequence[str],
    moment: datetime,
    conditions: Sequence[str] = (),
    stretches: Sequence[Stretch] = (),
) -> str:
    """The select of some columns, at a time, under all conditions, from the whole table or from stretches of it."""
    columns = ", ".join(f"{relation.columns[name].sql} as {name}" for name in names)
    source = (
        f"select {columns} from pgqueue._{relation.base} as kept"
        f" cross join (values ({literal(moment)})) as reading (moment)"
    )
    always = [relation.condition, *conditions] if relation.condition else [*conditions]
    places = [_where(stretch) for stretch in stretches] or [[]]
    return " union all ".join(source + _all_of([*place, *always]) for place in places)


def _where(stretch: Stretch) -> list[str]:
    blocks = f"kept.place >= '({stretch.first},0)'::tid and kept.place < '({stretch.end},0)'::tid"
    return [blocks] if stretch.slot is None else [f"kept.slot = {stretch.slot}", blocks]


def _all_of(conditions: Iterable[str]) -> str:
    together = " and ".join(f"({condition})" for condition in conditions)
    return f" where {together}" if together else ""


def literal(value: object) -> str:
    """A value as an SQL literal, quoted so that it means the same under any settings of the server.

    Raises:
        TypeError: values of this type cannot be written as a literal.
    """
    match value:
        case None:
            return "null"
        case int():
            return str(int(value))
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "''")
            return f"E'{escaped}'"
        case bytes():
            return f"decode('{value.hex()}', 'hex')"
        case datetime():
            return f"'{value.isoformat()}'::timestamptz"
    raise TypeError(f"no literal of SQL for {type(value).__name__}")
