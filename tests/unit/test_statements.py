"""The text of a statement with its parameters as literals."""

from __future__ import annotations

from enum import Enum

import pytest

from pgqueue.model.context import TransactionId
from pgqueue.model.message import Lock
from pgqueue.statements import settling
from pgqueue.statements.statement import Statement, literal, nothing

pytestmark = pytest.mark.core

LOCK = Lock("it's", 7, "00000000-0000-0000-0000-000000000001")


def test_a_call_of_one_function_by_position_takes_its_types_from_the_function() -> None:
    text = settling.complete_pinned(LOCK, TransactionId("77")).text()
    assert text == f"select pgqueue._complete_delivery('it''s', '7', '{LOCK.lock_token}', '77')"


@pytest.mark.parametrize(
    "sql",
    ["select %(a)s::bigint", "select f(g(%(a)s::bigint))", "select f(a => %(a)s::bigint)", "select f(%(a)s::int) + 1"],
)
def test_any_other_statement_keeps_the_types_of_its_literals(sql: str) -> None:
    assert Statement(sql, {"a": 7}, nothing).text() == sql.replace("%(a)s", "'7'")


class Name(str, Enum):  # noqa: UP042 - a StrEnum is formatted as its value anyway
    PLAIN = "orders"
    QUOTED = "o'r\\ders"


@pytest.mark.parametrize("name", Name)
def test_a_member_of_an_enum_is_its_value(name: Name) -> None:
    assert literal(name) == literal(str.__str__(name))
