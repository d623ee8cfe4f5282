"""Checks of arguments: one of the wrong type is refused by name. None passes; the database decides what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from sys import float_info
from typing import Any, Final, TypeVar

from pgqueue.errors import InvalidArgumentError

Check = Callable[[str, Any], Any]

T = TypeVar("T")

LONGEST = timedelta(days=36_500)
LONGEST_SHOWN = 300
#: Characters that PostgreSQL cannot store in text.
NO_TEXT = re.compile("[\0\ud800-\udfff]")


def shown(value: Any) -> str:
    """A value as an error shows it: not all of a long one, and the type of one that Python cannot show."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - too deep, of too many digits, or of a class whose repr fails in any way
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def given(argument: str, value: T | None) -> T:
    """A value that is not None."""
    if value is None:
        raise InvalidArgumentError(f"{argument} must not be None")
    return value


def instance(argument: str, value: Any, kind: type[T]) -> T:
    """A value of a class of pgqueue's."""
    if not isinstance(value, kind):
        wanted, found = (each.__module__.rpartition(".")[0] for each in (kind, type(value)))
        of = f" of {found}" if type(value).__name__ == kind.__name__ else ""
        raise InvalidArgumentError(f"{argument} must be a {kind.__name__} of {wanted}, not {shown(value)}{of}")
    return value


def name_of(kind: str, value: Any) -> str:
    """The name of a queue, or of something else that must have one."""
    name = text(f"the name of a {kind}", value)
    if name is None:
        raise InvalidArgumentError(f"the name of a {kind} must be a str, not None")
    return name


def queue_name(value: Any) -> str:
    return name_of("queue", value)


def text(argument: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{argument} must be a str, not {shown(value)}")
    if value is not None and NO_TEXT.search(value):
        raise InvalidArgumentError(f"{argument} must be text without NUL and half surrogate pairs, not {shown(value)}")
    return value


def whole(argument: str, value: Any, *, bits: int = 32, least: int | None = None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidArgumentError(f"{argument} must be a whole number, not {shown(value)}")
    if value is not None and value.bit_length() >= bits:
        raise InvalidArgumentError(f"{argument} must be a whole number below 2^{bits - 1}, not {shown(value)}")
    if value is not None and least is not None and value < least:
        raise InvalidArgumentError(f"{argument} must be {least} or more, not {value}")
    return value


def real(argument: str, value: Any) -> float | None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= float_info.max
    ):
        raise InvalidArgumentError(f"{argument} must be a number, not {shown(value)}")
    return value


def count(argument: str, value: Any) -> int:
    number = whole(argument, value, least=1)
    if number is None:
        raise InvalidArgumentError(f"{argument} must be a whole number, not None")
    return number


def flag(argument: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{argument} must be True or False, not {shown(value)}")
    return value


def several(argument: str, value: Any, of: str = "whole numbers") -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidArgumentError(f"{argument} must be a list of {of}, not {shown(value)}")
    return list(value)


def numbers(argument: str, value: Any) -> list[int]:
    return [number(f"one of {argument}", each) for each in several(argument, value)]


def number(argument: str, value: Any) -> int:
    found = whole(argument, value, bits=64)
    if found is None:
        raise InvalidArgumentError(f"{argument} must be a whole number, not None")
    return int(found)


def moment(argument: str, value: Any) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        raise InvalidArgumentError(f"{argument} must be a datetime with a time zone, not {shown(value)}")
    return value


def duration(argument: str, value: Any) -> timedelta | None:
    if value is not None and not isinstance(value, timedelta):
        raise InvalidArgumentError(f"{argument} must be a timedelta, not {shown(value)}")
    if value is not None and abs(value) > LONGEST:
        raise InvalidArgumentError(f"{argument} must be a hundred years at the most, not {value}")
    return value


def unchecked(_: str, value: Any) -> Any:
    return value


#: Arguments that None is refused for.
BY_NAME: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("queue", "role", "schedule", "subscription", "topic"), name_of),
    "sequence_number": number,
}

BY_TYPE: Final[Mapping[str, Check]] = {
    "boolean": flag,
    "integer": whole,
    "bigint": partial(whole, bits=64),
    "bigint[]": numbers,
    "double precision": real,
    "interval": duration,
    "text": text,
    "timestamptz": moment,
}


def check_of(argument: str, kind: str) -> Check:
    """The check of an argument with this name and this type of SQL."""
    return BY_NAME.get(argument) or BY_TYPE.get(kind, unchecked)
