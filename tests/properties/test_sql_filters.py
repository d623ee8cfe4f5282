"""SQL filters match as in SQL: random conditions, judged by the database and by three truth values in Python."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from operator import add, eq, ge, gt, le, lt, mod, mul, ne, sub, truediv
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.model.properties import as_json
from pgqueue.model.sql_filter import to_json_path
from pgqueue.model.sql_parameters import with_parameters
from pgqueue.testing import Database

#: True, false, or None for unknown.
Truth: TypeAlias = bool | None
Properties: TypeAlias = dict[str, Any]

COMPARISONS = {"=": eq, "<>": ne, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
IS_NULL = "{} is null"
ARITHMETIC = {"+": add, "-": sub, "*": mul, "/": truediv, "%": mod}


@dataclass(frozen=True)
class Meaning:
    """A piece of SQL, and what it is of a message with these properties."""

    sql: str
    of: Any

    def __repr__(self) -> str:
        return self.sql


class Literal(str):
    """A text in a filter: it is compared with a UUID or a datetime as one of these, if it is one."""

    __slots__ = ()

    def as_a(self, other: Any) -> Any:
        readers: dict[type, Any] = {UUID: UUID, datetime: datetime.fromisoformat}
        try:
            value = readers.get(type(other), str)(self)
        except ValueError:
            return str(self)
        is_of_utc = isinstance(value, datetime) and value.tzinfo is None and other.tzinfo is not None
        return value.replace(tzinfo=UTC) if is_of_utc else value


def literal(value: Any) -> str:
    return "null" if value is None else with_parameters("@value", {"value": value})


def in_sql(value: Any) -> Any:
    """The value of a literal: SQL has texts and numbers for those of other types."""
    match value:
        case str() | UUID():
            return Literal(value)
        case datetime():
            return Literal(value.isoformat())
    return value


def kind(value: Any) -> Any:
    if isinstance(value, datetime):
        return datetime, value.tzinfo is None
    return float if type(value) in (int, Decimal) else type(value)


def compared(operator: str, one: Any, other: Any) -> Truth:
    one, other = (
        each.as_a(against) if isinstance(each, Literal) else each for each, against in ((one, other), (other, one))
    )
    if one is None or other is None or kind(one) != kind(other) or isinstance(one, list):
        return None
    return bool(COMPARISONS[operator](one, other))


def computed(operator: str, one: Any, other: Any) -> Any:
    if kind(one) is not float or kind(other) is not float or (operator in "/%" and other == 0):
        return None
    return ARITHMETIC[operator](float(one), float(other))


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def both(one: Truth, other: Truth) -> Truth:
    return False if False in (one, other) else None if None in (one, other) else True


def like(value: Any, pattern: str) -> Truth:
    if not isinstance(value, str):
        return None
    expression = "".join({"%": "(.|\n)*", "_": "(.|\n)"}.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch(expression, value) is not None


names = st.sampled_from(["a", "b", "in stock", "Notes", "it's"])
plain = [True, False, 0, 1, 2, -3, 0.5, "", "x", "xy", "it's", "1", "%", "a\nb", "."]
naive = [datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 5)]  # noqa: DTZ001
typed = [
    *naive,
    Decimal("0.5"), Decimal("2.00"), Decimal(-3), UUID(int=7), UUID(int=8),
    datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 0, 0, 5, timezone(timedelta(hours=1))),
]  # fmt: skip
values = st.sampled_from(plain + typed)
lists: st.SearchStrategy[Any] = st.sampled_from([[], ["x"], [1, None]])
texts = st.sampled_from([str(UUID(int=7)), UUID(int=8).hex, "2026-01-01", "2026-01-01T00:00:00Z"])
patterns = st.text(st.sampled_from("xy%_.'1\n"), max_size=4)
columns = names.map(lambda name: Meaning(name if name.isalnum() else f"[{name}]", lambda has: has.get(name)))
constants = (values | texts | st.none()).map(lambda value: Meaning(literal(value), lambda has: in_sql(value)))


def arithmetic(operands: st.SearchStrategy[Meaning]) -> st.SearchStrategy[Meaning]:
    return st.builds(
        lambda one, operator, other: Meaning(
            f"({one} {operator} {other})", lambda has: computed(operator, one.of(has), other.of(has))
        ),
        operands, st.sampled_from("+-*"), operands,
    )  # fmt: skip


sums = st.recursive(columns | constants, arithmetic, max_leaves=3)
comparisons = st.builds(
    lambda one, operator, other: Meaning(
        f"{one} {operator} {other}", lambda has: compared(operator, one.of(has), other.of(has))
    ),
    sums, st.sampled_from(sorted(COMPARISONS)), sums,
)  # fmt: skip
likes = st.builds(
    lambda one, pattern: Meaning(f"{one} like {literal(pattern)}", lambda has: like(one.of(has), pattern)),
    columns, patterns,
)  # fmt: skip
presences = st.builds(
    lambda one, form: Meaning(form.format(one), lambda has: (one.of(has) is None) is (form == IS_NULL)),
    columns, st.sampled_from([IS_NULL, "{} IS NOT NULL", "exists({})"]),
)  # fmt: skip


def among(one: Meaning, others: list[Meaning]) -> Meaning:
    def of(has: Properties) -> Truth:
        found: Truth = True
        for other in others:
            found = both(found, negated(compared("=", one.of(has), other.of(has))))
        return negated(found)

    return Meaning(f"{one} in ({', '.join(map(repr, others))})", of)


predicates = comparisons | likes | presences | st.builds(among, sums, st.lists(constants, min_size=1, max_size=3))


def combined(conditions: st.SearchStrategy[Meaning]) -> st.SearchStrategy[Meaning]:
    return st.one_of(
        conditions.map(lambda one: Meaning(f"not ({one})", lambda has: negated(one.of(has)))),
        st.builds(
            lambda one, other: Meaning(f"({one}) and ({other})", lambda has: both(one.of(has), other.of(has))),
            conditions, conditions,
        ),
        st.builds(
            lambda one, other: Meaning(
                f"({one}) OR ({other})", lambda has: negated(both(negated(one.of(has)), negated(other.of(has))))
            ),
            conditions, conditions,
        ),
    )  # fmt: skip


conditions = st.recursive(predicates, combined, max_leaves=6)
properties = st.dictionaries(names, values | lists | st.none(), max_size=4)


def test_a_condition_has_its_truth_value_in_sql(database: Database) -> None:
    with database.connect() as connection:

        @given(conditions, st.lists(properties, min_size=1, max_size=8))
        def judged(condition: Meaning, messages: list[Properties]) -> None:
            documents = [json.dumps({"application_properties": as_json(has)}) for has in messages]
            found = connection.execute(
                "select pgqueue._satisfies(document::jsonb, %s::jsonpath) from unnest(%s::text[]) as document",
                [to_json_path(condition.sql), documents],
            )
            assert [truth for (truth,) in found] == [condition.of(has) is True for has in messages]

        judged()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("a = 007", 7),
        ("a = 00.50", 0.5),
        ("a = .5", 0.5),
        ("a = 1.", 1),
        ("a = 00", 0),
        ("a = 001e2", 100),
        ("a >= true and a <= true and a > false", True),
        ("a like '" + "%" * 1_000 + "y'", "x" * 1_000 + "y"),
        ("a like '" + "%_" * 500 + "'", "x" * 500),
        ("a like '%%x' escape '%'", "%x"),
        ("a + 1 = 3.5 and -a = -2.5 and a % 2 = .5", Decimal("2.50")),
        ("a = '00000000000000000000000000000007'", UUID(int=7)),
        ("a in ('x', '2026-01-01T01:00+01:00')", datetime(2026, 1, 1, tzinfo=UTC)),
        ("a >= '2026-01-01' and a < '2026-01-02'", datetime(2026, 1, 1, tzinfo=UTC)),
        ("a >= '2026-01-01' and a < '2026-01-02'", datetime(2026, 1, 1)),  # noqa: DTZ001
        ("a < '2026-01-01T00:00Z' or exists(a)", datetime(2025, 1, 1)),  # noqa: DTZ001
        ("a < '2020-01-01' or exists(a)", datetime(2026, 1, 1, tzinfo=UTC)),
        ("übung is null and ähnlich_1 is null and a = 7", 7),
        ("exists(a) and not a is null", []),
        ("exists(a) and not a is null", b"x"),
        ("p('a') = property('a') and P ('a') = 7 and exists(p('a')) and p is null", 7),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_condition_is_true(database: Database, sql: str, value: Any) -> None:
    with database.connect() as connection:
        given = [json.dumps({"application_properties": as_json({"a": value})}), to_json_path(sql)]
        assert connection.execute("select pgqueue._satisfies(%s::jsonb, %s::jsonpath)", given).fetchone() == (True,)


def test_two_literals_are_compared_as_texts(database: Database) -> None:
    with database.connect() as connection:
        given = [to_json_path("'2026-01-01T00:00Z' >= '2026-01-01T01:00+01:00'")]
        assert connection.execute("select pgqueue._satisfies('{}', %s::jsonpath)", given).fetchone() == (False,)


@pytest.mark.parametrize("written", ["2026-06-01 12:00:00+00", "2026-06-01T12:00:00-01:00"])
def test_a_datetime_that_sql_has_written_has_its_zone(database: Database, written: str) -> None:
    message = json.dumps({"application_properties": {"at": {"$datetime": written}}})
    with database.connect() as connection:
        given = [message, to_json_path("at < '2027-01-01T00:00:00+00:00' and at > '2026-01-01'")]
        found = connection.execute("select pgqueue._satisfies(%s::jsonb, %s::jsonpath)", given).fetchone()
        assert found == (True,)


def test_null_is_no_property(database: Database) -> None:
    with database.connect() as connection:
        message = json.dumps({"application_properties": {"a": 7, "null": 7}})
        for sql, is_true in {
            "a = null": False,
            "a in (8, NULL) or -null < a + null": False,
            "a = [null]": True,
        }.items():
            given = [message, to_json_path(sql)]
            found = connection.execute("select pgqueue._satisfies(%s::jsonb, %s::jsonpath)", given).fetchone()
            assert found == (is_true,)
