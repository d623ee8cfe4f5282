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

from pgqueue.model.columns import KEPT, KEPT_TEXTS, identifier
from pgqueue.model.schemas import in_schema
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


def _of(kind: DataType, names: Iterable[str], sql: str = "kept.{0}") -> dict[str, Column]:
    return {name: Column(kind, sql.format(identifier(name))) for name in names}


#: Columns that are the same in every table that has them.
COLUMNS = {
    **_of(
        StringType(), ["queue", "locked_by", "outcome", "reason", "dead_letter_reason", "dead_letter_error_description"]
    ),
    **_of(StringType(), (text.name for text in KEPT_TEXTS)),
    **_of(StringType(), ["body", "application_properties"], "kept.{0}::text"),
    **_of(BinaryType(), ["binary_body"]),
    **_of(LongType(), ["sequence_number", "claim"]),
    **_of(LongType(), ["transaction_id"], "kept.{0}::text::bigint"),
    **_of(IntegerType(), ["delivery_count", "body_size"]),
    **_of(IntegerType(), ["priority"], "pgqueue._priority(kept.lane)"),
    **_of(TimestampType(), ["enqueued_time", "dead_lettered_at", "first_locked_at", "settled_at"]),
    # Times that a user has chosen may be infinite, and are null then: Spark has no infinity.
    **_of(
        TimestampType(),
        ["expires_at", "locked_until", "scheduled_enqueue_time"],
        "case when isfinite(kept.{0}) then kept.{0} end",
    ),
}

LABELS = ("message_id", "correlation_id", "subject", "content_type")
FIRST = (*LABELS, "reply_to", "application_properties", "body", "binary_body")
CONTENT = (*FIRST, *(text.name for text in KEPT_TEXTS if text.name not in FIRST))
LOCK = ("locked_until", "locked_by")

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


def _columns(before: str, *names: str, **particular: Column) -> dict[str, Column]:
    """The columns of a table, in this order; those that are particular to it are given."""
    return {name: particular.get(name) or COLUMNS[name] for name in (*before.split(), *names)}


#: The relations by the value of the option ``table``; the first is the default.
RELATIONS = {
    "messages": Relation(
        "message",
        _columns(
            "queue sequence_number state priority delivery_count enqueued_time expires_at",
            *(*LOCK, *CONTENT),
            state=Column(StringType(), MESSAGE_STATE),
        ),
        usual=(*NUMBERS, *BODY),
    ),
    "dead_letters": Relation(
        "dead_letter",
        _columns(
            "queue sequence_number dead_letter_reason dead_letter_error_description dead_lettered_at delivery_count "
            "priority enqueued_time",
            *(*LOCK, *CONTENT),
        ),
        usual=(*NUMBERS, "dead_letter_reason", "dead_lettered_at", *BODY),
    ),
    "deferred": Relation(
        "message",
        _columns(
            "queue sequence_number state delivery_count priority enqueued_time expires_at",
            *(*LOCK, *CONTENT),
            state=Column(StringType(), DEFERRED_STATE),
        ),
        usual=(*NUMBERS, *BODY),
        condition="kept.is_deferred",
    ),
    "scheduled": Relation(
        "scheduled_message",
        _columns(
            "queue sequence_number scheduled_enqueue_time delivery_count priority enqueued_time expires_at", *CONTENT
        ),
        usual=(*NUMBERS, "scheduled_enqueue_time", *BODY),
    ),
    "history": Relation(
        "settled_message",
        _columns(
            "queue sequence_number outcome reason enqueued_time first_locked_at settled_at delivery_count locked_by "
            "priority body_size",
            *(*LABELS, "transaction_id", "session_id"),
            priority=Column(IntegerType(), "kept.priority"),
        ),
        usual=(*NUMBERS, "outcome", "reason", "first_locked_at", "settled_at", "message_id", "subject", "content_type"),
        condition="kept.settled_at > reading.moment - kept.retain_history",
        in_days=True,
    ),
}

#: The messages of claims, which a stream reads; not a value of ``table``.
CLAIMED = Relation(
    "claimed_message",
    _columns(
        "queue claim sequence_number",
        *(column.name for column in KEPT if column.is_staged),
        *("priority", "delivery_count", "enqueued_time", "expires_at"),
    ),
    usual=("queue", "claim", "sequence_number", "enqueued_time", "delivery_count", *BODY),
)


def chosen(options: Options) -> Relation:
    """The table that the option ``table`` names.

    Raises:
        OptionError: there is no such table.
    """
    return RELATIONS[options.one_of("table", tuple(RELATIONS))]


def schema(options: Options, relation: Relation | None = None) -> StructType:
    """The columns that the option ``columns`` lists, in that order: ``*`` is all, and without it the usual ones.

    Raises:
        OptionError: there is no such table, or it has no such column.
    """
    relation = relation or chosen(options)
    listed = options.text("columns") or ",".join(relation.usual)
    names = relation.columns if listed.strip() == "*" else [name.strip() for name in listed.split(",")]
    schema = StructType()
    for name in dict.fromkeys(names):
        if name not in relation.columns:
            raise OptionError(f"there is no column {name!r} here; there are {', '.join(relation.columns)}")
        schema = schema.add(name, relation.columns[name].type)
    return schema


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
    moment: datetime | None,
    conditions: Sequence[str] = (),
    stretches: Sequence[Stretch] = (),
    *,
    schema: str,
) -> str:
    """The select of some columns, at a time, under all conditions, from the whole table or from stretches of it."""
    columns = ", ".join(f"{relation.columns[name].sql} as {name}" for name in names)
    rows = in_schema(f"select {columns} from pgqueue._{relation.base} as kept", schema)
    source = f"{rows} cross join (values ({literal(moment)})) as reading (moment)"
    always = [relation.condition, *conditions] if relation.condition else [*conditions]
    places = [_where(stretch) for stretch in stretches] or [[]]
    return " union all ".join(source + _all_of([*place, *always]) for place in places)


def _where(stretch: Stretch) -> list[str]:
    blocks = f"kept.place >= '({stretch.first},0)'::tid and kept.place < '({stretch.end},0)'::tid"
    return [blocks] if stretch.slot is None else [f"kept.slot = {stretch.slot}", blocks]


def _all_of(conditions: Iterable[str]) -> str:
    together = " and ".join(f"({condition})" for condition in conditions)
    return f" where {together}" if together else ""


def literal(value: str | datetime | None) -> str:
    """A value as an SQL literal, quoted so that it means the same under any settings of the server."""
    match value:
        case None:
            return "null"
        case datetime():
            return f"'{value.isoformat()}'::timestamptz"
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
