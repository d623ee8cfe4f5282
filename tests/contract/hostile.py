"""Values that no call is made for, as Python writes them, and what some of them are made of."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any


class Text(str):
    """A text of another class."""

    __slots__ = ()


class Number(int):
    """A number of another class."""


class Colour(StrEnum):
    """A text that is a member of an enumeration."""

    RED = "red"


class Zoneless(tzinfo):
    """A time zone that knows no offset: a time with it has none."""

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str | None:
        return None


def deep(depth: int = 100_000) -> Any:
    """A tuple in a tuple, and so on."""
    found: Any = ()
    for _ in range(depth):
        found = (found,)
    return found


def ring() -> Any:
    """A mapping that contains itself."""
    found: dict[str, Any] = {}
    found["a"] = found
    return found


VALUES = [
    "None", "True", "0", "1", "-1", "7", "2**31", "2**63", "-2**63 - 1", "10**5000", "1.5", "-0.0", "float('nan')",
    "float('inf')", "1j", "Decimal('NaN')", "Decimal(1)", "Number(5)", "''", "' '", "'x'", "'\\0'", "'\\ud800'",
    "'x' * 129", "'x' * 300", "'x' * 10**6", "'é'", "'a/b'", "'%s'", "'; drop'", "Text('x')", "Colour.RED", "b''",
    "b'\\xff'", "bytearray(b'x')", "memoryview(b'x')", "[]", "[None]", "[1]", "[2**63]", "['a']", "[[]]", "[True]",
    "()",
    "(1, 2)", "{}", "{1: 2}", "{'a': None}", "{'': 1}", "{'\\0': 1}", "{'\\ud800': 1}", "{'a': float('nan')}",
    "{'a': 10**5000}", "{'a': object()}", "{('a', 'b'): 1}", "{'x' * 70_000: 1}", "set()", "{1}", "object()", "object",
    "int", "len", "lambda: 1", "lambda one: one", "iter([1])", "(each for each in [1])", "range(3)", "...",
    "Exception('x')", "Exception('\\0\\ud800')", "ValueError", "timedelta(0)", "timedelta(-1)", "timedelta.max",
    "timedelta.min", "timedelta(microseconds=1)", "timedelta(days=36_500)", "timedelta(days=36_501)", "datetime.max",
    "datetime.min", "datetime(2000, 1, 1)", "datetime.max.replace(tzinfo=UTC)", "datetime.min.replace(tzinfo=UTC)",
    "datetime.max.replace(tzinfo=timezone(timedelta(hours=-23)))",
    "datetime.min.replace(tzinfo=timezone(timedelta(hours=23)))", "datetime(2099, 1, 1, tzinfo=UTC)",
    "datetime(2099, 1, 1, tzinfo=Zoneless())", "datetime(2000, 1, 1).date()", "UUID(int=0)", "deep()", "deep(900)",
    "{'a': deep()}", "ring()", "{'a': ring()}", "Path('/')", "Message(1)", "[Message(1)]", "[Message(1), None]",
    "[Message(1), Message(float('nan'))]", "received", "[received]", "[received, received]", "[received, 1]", "queue",
    "client", "session", "Queue", "SqlFilter('a = 1')", "CorrelationFilter(subject='x')", "JsonPathFilter('$.a')",
    "RetryPolicy()", "CatchUp.ALL", "ReceiveMode.PEEK_LOCK", "SubQueue.DEAD_LETTER",
]  # fmt: skip
"""Expressions; those that name an object of a test are of that test's."""
