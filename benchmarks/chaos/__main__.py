"""``python -m benchmarks.chaos``: a ledger under fire; ends with 1 when a promise is broken.

Each round has a seed, the first the one that is given, each further one the next number. A round is played again by its
seed: the same faults at the same moments, and the same choices of every actor.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import positive
from benchmarks.chaos import display, histories, session_histories
from benchmarks.chaos.kinds import RECEIVERS, SENDERS, SESSIONS, spark
from benchmarks.chaos.pair import Pair
from benchmarks.chaos.plan import FAILOVERS, FAULTS, MANUAL_STEPS, MISCHIEF, Plan, draw
from benchmarks.chaos.round import Result, Round, Watch
from benchmarks.report import machine
from pgqueue.testing import Database, ThrowawayServer
from pgqueue.testing.database import create_template, created, dsn
from pgqueue.testing.hosts import binaries
from pgqueue.testing.pgbouncer import PgBouncer, program

#: Seconds of a round in which faults happen. Calming down and draining take about as long again.
FIRE = 20.0
INTRODUCTION = (
    "Seed {seed}: {conditions}. In each round they work for {fire:g} s while faults are carried out. Then it is calm:"
    " each receiver has to empty its queue alone, and what everybody wrote down is compared with the database.\n"
)
#: Everything that a round can be about, and its description for a reader.
ALL = {**FAULTS, **MISCHIEF, **FAILOVERS}
#: Connections of a server that is promoted: all actors connect to it at the same time.
MANY = "400"
#: So many faults are named in a line.
FEW = 3
#: Each by itself; a failover with transactions that are prepared.
SERIES = [[name] for name in (*FAULTS, *MISCHIEF)] + [[name, "two-phase"] for name in FAILOVERS]
SENDING = ("sender", "sender", "sender", "async sender")


def main() -> None:
    options = _options()
    console = Console()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    books = Path(tempfile.mkdtemp(prefix="pgqueue-chaos-"))
    shown = display.Display(console)
    with arena() as place:
        conditions = _conditions(place)
        console.print(INTRODUCTION.format(seed=seed, fire=options.fire, conditions=conditions), highlight=False)
        series = [*SERIES, []] if options.each else [options.only]
        rows, results = [], []
        for only in series:
            played = list(_play(place, seed, options, only, books, shown))
            name = ", ".join(ALL[each] for each in only) or "all of these together"
            rows.append(display.row(name, played, _person(only), _command(seed, options.minutes, only)))
            results += played
    display.verdict(console, results)
    display.violations(console, results)
    if options.histories:
        for result in results:
            seen = result.deeds, result.evidence
            histories.add(options.histories / "histories.jsonl", histories.histories(*seen).values())
            histories.add(options.histories / "session_histories.jsonl", session_histories.histories(*seen))
    if options.markdown:
        display.write(options.markdown, f"{machine()}, {conditions}.", rows)
    if any(result.violations for result in results):
        console.print("\n[bold red]A promise was broken.[/]")
        sys.exit(1)
    if not all(result.evidence.effects for result in results):
        console.print("\n[bold red]In one of the rounds nothing was done: that shows nothing.[/]")
        sys.exit(1)
    shutil.rmtree(books)
    console.print("\n[bold green]Nothing was lost, doubled, or reported wrongly.[/]")


@dataclass(frozen=True)
class Arena:
    """A server, a migrated database to be copied, and PgBouncer before them, if there is one."""

    server: ThrowawayServer
    template: str
    through: str | None

    def play(self, seed: int, seconds: float, only: Sequence[str], books: Path, watch: Watch) -> Result:
        """A round in a database of its own."""
        kinds = [kind for kind in RECEIVERS if kind != "pgbouncer" or self.through]
        sessions = list(SESSIONS)
        if FAILOVERS.keys() & set(only):
            plan = draw(seed, seconds, _directly(kinds), SENDING, only, sessions=sessions, spark=spark.is_there())
            return self._fail_over(plan, books, watch)
        with created(self.server.dsn(), self.template) as database:
            pooled = dsn(self.through, database.name) if self.through else None
            plan = draw(seed, seconds, kinds, SENDING, only, sessions=sessions)
            return _balanced(Round(plan, database, self.server, pooled, books, watch))

    def _fail_over(self, plan: Plan, books: Path, watch: Watch) -> Result:
        """A round on a primary and a standby of its own."""
        pair = Pair(binaries())
        for server in (pair.primary, pair.standby):
            server.settings["max_connections"] = MANY
        try:
            pair.create()
            database = Database(f"{pair.dsn(create_template(pair.primary.dsn()))}&connect_timeout=2")
            pair.follow(synchronous=any(fault.name == "failover" for fault in plan.faults))
            return _balanced(Round(plan, database, pair.primary, None, books, watch, pair))
        finally:
            pair.remove()


def _balanced(played: Round) -> Result:
    """Play a round; its books are removed when they balance."""
    result = played.run()
    if not result.violations:
        shutil.rmtree(played.books)
    return result


def _directly(kinds: Sequence[str]) -> list[str]:
    """The kinds that find the new primary by themselves: PgBouncer would need a new configuration."""
    return [kind for kind in kinds if kind != "pgbouncer"]


@contextmanager
def arena(connections: str | None = None) -> Iterator[Arena]:
    server = ThrowawayServer(binaries())
    if connections is not None:
        server.settings["max_connections"] = connections
    pgbouncer = None
    try:
        server.create()
        server.start()
        if bouncer := program():
            pgbouncer = PgBouncer(bouncer, server.directory / "pgbouncer", server.dsn())
            pgbouncer.start()
        yield Arena(server, create_template(server.dsn()), pgbouncer.dsn if pgbouncer else None)
    finally:
        if pgbouncer is not None:
            pgbouncer.stop()
        server.remove()


def _play(
    place: Arena, seed: int, options: argparse.Namespace, only: list[str], books: Path, shown: display.Display
) -> Iterator[Result]:
    """Rounds, for as long as there is time for another; one at least."""
    began = time.monotonic()
    longest = 0.0
    for number in range(seed, sys.maxsize):
        if number > seed and time.monotonic() - began + longest / 2 > options.minutes * 60:
            return
        shown.begin(f"round {number}" + (f" ({', '.join(only)})" if 0 < len(only) <= FEW else ""))
        directory = books / "-".join([f"seed-{number}", *(name.replace(" ", "-") for name in only[:FEW])])
        result = place.play(number, options.fire, only, directory, shown.show)
        shown.end(result)
        longest = max(longest, result.seconds)
        yield result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    faults = "; ".join(f"{name}: {text}" for name, text in ALL.items())
    parser.add_argument("--minutes", type=positive, default=10.0)
    parser.add_argument("--seed", type=int, help="of the first round; drawn unless given")
    parser.add_argument("--fire", type=positive, default=FIRE, help="seconds of a round in which faults happen")
    parser.add_argument(
        "--only", type=faults_named, default=[], metavar="FAULT,FAULT", help=f"no faults but these; {faults}"
    )
    parser.add_argument("--each", action="store_true", help="every fault by itself, so many minutes each, then all")
    parser.add_argument("--markdown", type=Path, help="write a row for each to this page, in place of its table")
    parser.add_argument("--histories", type=Path, help="add the histories of messages to files in this folder: models")
    return parser.parse_args()


def faults_named(text: str) -> list[str]:
    """Raises ArgumentTypeError, which names those that there are."""
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in ALL]:
        raise argparse.ArgumentTypeError(f"no such fault: {', '.join(unknown)}; there are {', '.join(ALL)}")
    return names


def _conditions(place: Arena) -> str:
    kinds = f"{len(RECEIVERS) - (place.through is None)} kinds of receivers, {len(SESSIONS)} more in sessions,"
    kinds += f" {len(SENDERS)} of senders; with a standby {'and' if spark.is_there() else 'without'} Spark"
    return kinds if place.through else f"{kinds}; PgBouncer is left out, because PGQUEUE_TEST_PGBOUNCER names none"


def _person(only: Sequence[str]) -> str:
    """The steps of a person after these faults, or after all that are drawn together."""
    steps = (MANUAL_STEPS.get(each) for each in only or (*FAULTS, *MISCHIEF))
    return ", ".join(dict.fromkeys(filter(None, steps))) or "nothing"


def _command(seed: int, minutes: float, only: Sequence[str]) -> str:
    chosen = f' ONLY="{",".join(only)}"' if only else ""
    return f"make chaos MINUTES={minutes:g} SEED={seed}{chosen}"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nbroken off: no verdict")
