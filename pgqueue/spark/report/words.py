"""Numbers and times as text for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pgqueue.model.printable import printable
from pgqueue.spark.report.columns import Unit

THIN = "\N{NARROW NO-BREAK SPACE}"
UNKNOWN = "\N{EM DASH}"
UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def said(value: Any, unit: Unit) -> str:
    """A value of a column; text is made printable."""
    if value is None or isinstance(value, str):
        return UNKNOWN if value is None else printable(value)
    return FORMATS[unit](value)


def count(number: float) -> str:
    """A whole number with separated thousands."""
    return f"{round(number):,}".replace(",", THIN)


def rate(per_second: float) -> str:
    """A rate with three significant digits; whole from 100 on."""
    return count(per_second) if per_second >= 100 else f"{per_second:.3g}"


def share(part: float | None) -> str:
    """A share in percent; never rounded to 0 or to 100 %."""
    if part is None:
        return UNKNOWN
    percent = 100 * part
    if 0 < percent < 0.1:
        return f"<{THIN}0.1{THIN}%"
    if 99.9 < percent < 100:
        return f">{THIN}99.9{THIN}%"
    return f"{percent:.0f}{THIN}%" if percent in {0, 100} else f"{percent:.1f}{THIN}%"


def duration(seconds: float | None) -> str:
    """A duration in one or two units: `350 µs`, `12 ms`, `1.25 s`, `3 min 20 s`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return "\N{MINUS SIGN}" + duration(-seconds)
    if seconds < 59.95:
        return _short_duration(seconds)
    whole = round(seconds)
    largest = next(place for place, (_, length) in enumerate(UNITS) if whole >= length)
    (unit, length), (smaller, smaller_length) = UNITS[largest : largest + 2]
    rest = whole % length // smaller_length
    return f"{whole // length}{THIN}{unit}" + (f" {rest}{THIN}{smaller}" if rest else "")


def moment(when: datetime) -> str:
    """A time in UTC, to the second."""
    return when.strftime("%Y-%m-%d %H:%M:%S")


def minute(when: datetime) -> str:
    """A time in UTC, with seconds if they are not zero."""
    return when.strftime("%Y-%m-%d %H:%M:%S" if when.second else "%Y-%m-%d %H:%M")


def bucket(length: timedelta) -> str:
    """The length of a bucket: `1 hour`, `15 minutes`, `90 seconds`."""
    seconds = round(length.total_seconds())
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            return _plural(seconds // size, unit)
    return _plural(seconds, "second")


def _plural(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _short_duration(seconds: float) -> str:
    if seconds == 0:
        return f"0{THIN}s"
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g}{THIN}{unit}"
    return f"{seconds / 1e-6:.0f}{THIN}µs"


FORMATS: dict[Unit, Callable[[Any], str]] = {
    Unit.TIME: minute,
    Unit.COUNT: count,
    Unit.RATE: rate,
    Unit.SECONDS: duration,
    Unit.SHARE: share,
}
