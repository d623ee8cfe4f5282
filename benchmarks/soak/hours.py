"""``python -m benchmarks.soak.hours``: every kind of sender and receiver for hours; ends with 1 when anything grows.

In the middle a snapshot is held for an eighth of the time; then the database is dumped under load, and restored. Beside
it a day passes in a second database. At the end everything that was written down is compared with the database, as in a
round of ``benchmarks.chaos``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from benchmarks.arguments import positive
from benchmarks.chaos.__main__ import MANY, SENDING, Arena, arena
from benchmarks.chaos.history import Book
from benchmarks.chaos.kinds import RECEIVERS, SESSIONS
from benchmarks.chaos.nemesis import Nemesis
from benchmarks.chaos.plan import BESIDE, MISCHIEF, Plan, draw
from benchmarks.chaos.processes import Member
from benchmarks.chaos.round import Moment, Round
from benchmarks.report import filled, machine
from benchmarks.server import version
from benchmarks.soak import bounds
from benchmarks.soak.day import Day
from benchmarks.soak.growth import interval
from benchmarks.soak.resources import Observer, Sample
from pgqueue.testing import Database
from pgqueue.testing.database import create, created, drop, dsn
from pgqueue.testing.hosts import binaries

ROOT = Path(__file__).parents[2]
PAGE, PICTURE = ROOT / "docs" / "reliability.md", ROOT / "docs" / "pictures" / "soak.svg"
#: Actors do these to themselves. A transaction left prepared would have to be decided by a person.
ALLOWED = [name for name in MISCHIEF if name != "two-phase"]
#: The share of the time after which the database is dumped.
DUMPED = 0.7
SWEEP_SECONDS = 60.0
TICK = 0.1


def main() -> None:
    options = _options()
    books = Path(tempfile.mkdtemp(prefix="pgqueue-soak-"))
    with arena(MANY) as place:
        seconds = options.hours * 3600
        every = interval(options.every, seconds)
        played = soak(place, seconds, books / "books", options.seed, options.pace, every)
        server = f"PostgreSQL {version(place.server)}"
    conditions = f"{machine()}, {server}, {options.hours:g} hours, {played.load}."
    text = f"{conditions}\n\n{bounds.table(played.samples)}"
    found = [*bounds.excesses(played.samples), *played.broken]
    print("", text, "", *(found or ["Nothing grows. Nothing was lost, doubled, or reported wrongly."]), sep="\n")
    if options.publish:
        PICTURE.write_text(bounds.picture(played.samples))
        PAGE.write_text(filled(PAGE.read_text(), {"hours": text}))
    if found:
        sys.exit(f"The books: {books}")
    shutil.rmtree(books)


@dataclass(frozen=True)
class Played:
    """``broken`` are promises; figures may be out of bounds, too."""

    load: str
    samples: list[Sample]
    broken: list[str]


def soak(place: Arena, seconds: float, books: Path, seed: int, pace: float, every: float) -> Played:
    """Play a round without faults, and look at the resources every so many seconds."""
    plan = peaceful(seed, seconds, place)
    with (
        created(place.server.dsn(), place.template) as database,
        created(place.server.dsn(), place.template) as of_the_day,
    ):
        pooled = dsn(place.through, database.name) if place.through else None
        day = Day(of_the_day, seconds)
        hours = Hours(plan, database, place.server, pooled, books, _look_away, pace=pace, day=day, every=every)
        result = hours.run()
    actors = sum(len(process.actors) for process in plan.processes)
    load = f"{actors} actors, {result.acknowledged:,} messages, {result.acknowledged / seconds:.0f} a second"
    return Played(load, hours.samples, [*hours.broken, *map(str, result.violations)])


def peaceful(seed: int, seconds: float, place: Arena) -> Plan:
    """A receiver of every kind at its queue, senders, and no faults."""
    kinds = [kind for kind in RECEIVERS if kind != "pgbouncer" or place.through]
    plan = draw(seed, seconds, kinds, SENDING, ALLOWED, sessions=list(SESSIONS))
    return replace(
        plan,
        floods=(),
        processes=tuple(process for process in plan.processes if process.role != "visitor"),
        queues=tuple(queue for queue in plan.queues if queue != BESIDE),
    )


@dataclass
class Hours(Round):
    """In place of faults: samples, a sweep a minute, a snapshot, a dump, and a day that passes."""

    day: Day = field(kw_only=True)
    every: float = field(kw_only=True)
    samples: list[Sample] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    _watched: list[Member] = field(default_factory=list)

    def _nemesis(self, book: Book, members: list[Member]) -> Nemesis:
        self._watched = members
        return super()._nemesis(book, members)

    def _fire(self, nemesis: Nemesis) -> None:
        observer = Observer(self.database, self.server, self._watched, self.books, self._began)
        look, sweep = Clockwork(self.every), Clockwork(SWEEP_SECONDS)
        held = ExitStack()
        events: list[tuple[float, Callable[[], object]]] = [
            (bounds.HELD[0], lambda: held.enter_context(closing(self._snapshot()))),
            (bounds.HELD[1], held.close),
            (DUMPED, self._dump),
        ]
        while (elapsed := time.monotonic() - self._began) < self.plan.seconds:
            while events and events[0][0] * self.plan.seconds <= elapsed:
                events.pop(0)[1]()
            if sweep.is_due(elapsed):
                self._sweep()
            if look.is_due(elapsed):
                self.samples.append(observer.sample())
                print(self.samples[-1], flush=True)
            self.day.pass_time()
            time.sleep(TICK)
        observer.close()
        self.broken += self.day.end()

    def _snapshot(self) -> psycopg.Connection[object]:
        connection = self.database.connect()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from pgqueue.message")
        return connection

    def _sweep(self) -> None:
        with self.database.connect(autocommit=True) as connection:
            connection.execute("select pgqueue.sweep()")

    def _dump(self) -> None:
        """Dump the database under load, restore it into another, and check that."""
        restored = create(self.server.dsn())
        archive = self.books / "dump"
        try:
            _run("pg_dump", "--format=custom", f"--file={archive}", self.database.direct)
            _run("pg_restore", "--exit-on-error", f"--dbname={restored.dsn}", str(archive))
            self.broken += _broken(restored)
        finally:
            archive.unlink(missing_ok=True)
            drop(self.server.dsn(), restored.name)


def _broken(restored: Database) -> Iterator[str]:
    with restored.connect() as connection:
        for (text,) in connection.execute("select * from pgqueue.broken_invariants()"):
            yield f"in the restored dump: {text}"


def _run(program: str, *arguments: str) -> None:
    subprocess.run([binaries() / program, *arguments], check=True)


class Clockwork:
    """Is due every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = seconds

    def is_due(self, elapsed: float) -> bool:
        is_due = elapsed >= self._next
        while self._next <= elapsed:
            self._next += self._seconds
        return is_due


def _look_away(moment: Moment) -> None: ...


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.hours", description=__doc__)
    parser.add_argument("--hours", type=positive, default=8.0)
    parser.add_argument("--every", type=positive, default=60.0, help="seconds between looks, at most a 16th of all")
    parser.add_argument("--pace", type=positive, default=4.0, help="the pauses of senders are so many times as long")
    parser.add_argument("--seed", type=int, default=1, help="of the choices of all actors")
    parser.add_argument(
        "--publish", action="store_true", help="write the table to docs/reliability.md, and its picture"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nbroken off: no verdict")
