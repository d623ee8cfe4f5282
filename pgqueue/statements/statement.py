"""One round trip to the database."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from math import inf
from types import MappingProxyType
from typing import Any, Final, Generic, LiteralString, NamedTuple, TypeVar

from pgqueue.model.arguments import Check, check_of
from pgqueue.model.columns import identifier
from pgqueue.model.row import Row
from pgqueue.statements.signatures import SIGNATURES

T = TypeVar("T")


#: The limit of a statement that takes the longer, the longer its queue is.
NO_LIMIT = inf

#: A call in which the arguments are left out.
CALL = re.compile(r"pgqueue\.(\w+)\(\s*…")

#: A call of one function by position, and what it does not need of literals: PostgreSQL parses types for long, and
#: takes them from the function.
ONE_CALL = re.compile(r"select [^(]+\((%\(\w+\)s::\w+(, )?)+\)")
CAST = re.compile(r"::\w+")

PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")

NOT_ASCII = re.compile(r"[^\x00-\x7f]")

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Statement(NamedTuple, Generic[T]):
    """A query with named parameters, and how its rows are converted to a result."""

    sql: LiteralString
    parameters: Mapping[str, Any]
    read: Callable[[Sequence[Row]], T]
    #: In seconds: how long to wait for the answer if that is less than the client's timeout, or infinite.
    limit: float | None = None

    def within(self, seconds: float) -> Statement[T]:
        """The same, to be answered within so many seconds."""
        return self._replace(limit=seconds)

    def text(self, write: Callable[[object], str] | None = None) -> str:
        """The SQL with its parameters inserted as literals, to be sent with other commands in one round trip."""
        write = write or literal
        return _for_literals(self.sql) % {name: write(value) for name, value in self.parameters.items()}


def call(
    sql: LiteralString, read: Callable[[Sequence[Row]], T], known: Mapping[str, Any] = NOTHING, /, **given: Any
) -> Statement[T]:
    """A statement that calls verbs: in ``pgqueue.unlock(…)`` the dots stand for the values that ``unlock`` takes.

    Each is passed by name, as the type that the verb declares. ``known`` values are passed as they are. ``given`` ones
    come from an application, and are checked.

    Raises:
        InvalidArgumentError: a given value is not of the type of its argument.
    """
    text, checks = _with_arguments(sql, tuple(known), tuple(given))
    for name, check in checks:
        given[name] = check(name, given[name])
    return Statement(text, {**known, **given} if given else known, read)


@cache
def numbered(sql: str, place: str = "${}") -> tuple[str, Sequence[str]]:
    """The SQL with placeholders by number, and the names of the parameters in that order."""
    names = list(dict.fromkeys(PLACEHOLDER.findall(sql)))
    places = {name: place.format(number) for number, name in enumerate(names, 1)}
    return PLACEHOLDER.sub(lambda found: places[found[1]], sql).replace("%%", "%"), names


@cache
def _for_literals(sql: str) -> str:
    sql = sql.replace(")b::", ")s::")  # placeholders of values that are sent in binary otherwise
    return CAST.sub("", sql) if ONE_CALL.fullmatch(sql) else sql


@cache
def _with_arguments(
    sql: LiteralString, known: tuple[str, ...], given: tuple[str, ...]
) -> tuple[LiteralString, list[tuple[str, Check]]]:
    left_out = {name for name in (*known, *given) if f"%({name})" not in sql}
    types: dict[str, LiteralString] = {}

    def arguments(verb: re.Match[str]) -> str:
        taken = {name: kind for name, kind in SIGNATURES[verb[1]].items() if name in left_out}
        types.update(taken)
        return verb[0][:-1] + ", ".join(f"{identifier(name)} => %({name})s::{kind}" for name, kind in taken.items())

    text = CALL.sub(arguments, sql)
    assert "…" not in text, f"no call: {text}"
    assert left_out == types.keys(), f"no verb takes {left_out - types.keys()}: {sql}"
    return text, [(name, check_of(name, types[name])) for name in given]


def literal(value: object) -> str:
    """A value as text of SQL, under any setting of ``standard_conforming_strings``."""
    if value is None:
        return "null"
    text = value if isinstance(value, str) else as_text(value)
    if "'" in text:
        text = text.replace("'", "''")
    return "'" + text + "'" if "\\" not in text else " E'" + text.replace("\\", "\\\\") + "'"  # also if it is an Enum


def ascii_literal(value: object) -> str:
    """The same, for any encoding of a client: whatever is not ASCII is escaped."""
    text = literal(value)
    if text.isascii():
        return text
    if text.startswith("'"):
        text = " E" + text
    return NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", text)


def as_text(value: object) -> str:
    """A value as PostgreSQL reads it in any session."""
    match value:
        case str():
            return value
        case list():
            return f"{{{','.join(map(_element, value))}}}"
        case bytes():
            return f"\\x{value.hex()}"
        case timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case datetime():
            return value.isoformat()
    return str(value)


def _element(value: object) -> str:
    """An element of an array."""
    return "NULL" if value is None else '"' + as_text(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def nothing(rows: Sequence[Row]) -> None:
    """For a statement whose rows are ignored."""


def scalar(rows: Sequence[Row]) -> Any:
    """The one value of the one row."""
    return rows[0][0]


def column(rows: Sequence[Row]) -> list[Any]:
    """The first value of every row."""
    return [row[0] for row in rows]


def rows(found: Sequence[Row]) -> list[Any]:
    """The rows unchanged."""
    return list(found)


def each(make: Callable[..., T]) -> Callable[[Sequence[Row]], list[T]]:
    """A value of every row, made of its columns."""
    return lambda rows: [make(*row) for row in rows]


def columns_of(record: type) -> LiteralString:
    """The columns of a record that is made of a row, which have the names of its fields."""
    return ", ".join(field.name for field in fields(record))
