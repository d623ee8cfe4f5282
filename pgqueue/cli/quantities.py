"""Durations, times and sizes as people write them: 30s, 1h30m, 2026-01-31T08:00Z, 64kB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import typer

from pgqueue.cli.failures import WrongUse
from pgqueue.model.arguments import LONGEST

#: The value of an option that sets no limit.
NONE = "none"

SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
BYTES = {"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])", re.ASCII)
BARE = re.compile(r"\d+(\.\d+)?", re.ASCII)
COUNT = re.compile(r"\d+", re.ASCII)
SIZE = re.compile(r"(\d+) ?(B|kB|MB|GB|)", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Reads a duration; a bare number is seconds.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    parts = PART.findall(text)
    if BARE.fullmatch(text):
        parts = [(text, "s")]
    elif not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is no duration: write 30s, 5m or 1h30m")
    try:
        return timedelta(seconds=sum(float(number) * SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long") from None


def format_duration(duration: timedelta) -> str:
    """Writes a duration in its two largest units, so that it can be read at a glance.

    >>> format_duration(timedelta(days=1, hours=2, minutes=3))
    '1d2h'
    """
    if abs(duration) < timedelta(seconds=10) and duration % timedelta(seconds=1):
        return f"{round(duration.total_seconds(), 3):g}s"
    rest, parts = round(duration.total_seconds()), []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


@dataclass(frozen=True)
class Moment:
    """A time, or a distance from now; the command decides whose clock now is."""

    text: str
    value: datetime | timedelta

    def after(self, now: datetime) -> datetime:
        return self._near(now, 1)

    def before(self, now: datetime) -> datetime:
        return self._near(now, -1)

    def _near(self, now: datetime, sign: int) -> datetime:
        """The time, within a lifetime of now: the calendar ends, too."""
        away = self.value - now if isinstance(self.value, datetime) else sign * self.value
        if abs(away) > LONGEST:
            raise WrongUse(f"{self.text} is more than a hundred years away from now: give a time within them")
        return now + away


def parse_moment(text: str) -> Moment:
    """Reads a time with its zone, or a duration.

    >>> parse_moment("2026-01-31T08:00Z").value
    datetime.datetime(2026, 1, 31, 8, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        return Moment(text, parse_duration(text))
    except typer.BadParameter:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-01-31T08:00Z, or a duration such as 10m") from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"{text!r} lacks its zone: write 2026-01-31T08:00Z, or +01:00 instead of the Z")
    return Moment(text, time)


def parse_count(text: str) -> int:
    """Reads a whole number that is not negative."""
    if COUNT.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is no number: write digits, such as 10000")
    return int(text)


def parse_rate(text: str) -> float:
    """Reads a number of messages a second, which may have a fraction."""
    if BARE.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is no number: write digits, such as 100 or 0.5")
    return float(text)


def parse_host(text: str) -> str:
    """Reads the name or address of a machine."""
    try:
        text.encode("idna")
    except UnicodeError:
        raise typer.BadParameter(f"{text!r} is no name or address of a machine: write 127.0.0.1") from None
    return text


def parse_size(text: str) -> int:
    """Reads a number of bytes; units are PostgreSQL's, of 1024.

    >>> parse_size("64kB")
    65536
    """
    match = SIZE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size: write a number of bytes, 64kB or 1MB")
    return int(match[1]) * BYTES[match[2]]
