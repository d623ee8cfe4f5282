"""The output of a run: a line of progress, the verdict, the violations, and rows for a page."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.chaos import rules
from benchmarks.chaos.plan import BESIDE, FAILOVERS, FAULTS
from benchmarks.chaos.round import Moment, Result
from benchmarks.chaos.rules import Violation

DONE = "select count(*) from chaos.effect"
WAITING = """
select count(*)
  from (select queue_id from pgqueue.message union all select queue_id from pgqueue.scheduled_message) as message
  join pgqueue.queue on queue.id = queue_id
 where name <> %s"""

#: Violations printed whole; the rest is in the books.
SHOWN = 5

PROMISES = {
    "conservation": "nothing acknowledged is lost",
    "exactly once": "nothing takes effect twice",
    "exclusivity": "no message is held by two",
    "fence": "no lost lock settles anything",
    "truth": "reported outcomes are true",
    "order": "sessions keep their order",
    "state": "a session's state agrees with its effects",
    "liveness": "every receiver gets what is there",
    "invariants": "the tables contradict nothing",
    "surprises": "every error has a fault behind it",
}


class Display:
    """On a terminal one line that changes; into a file a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._every = 0.5 if console.is_terminal else 5.0
        self._due = 0.0
        self._heading = ""
        self._connection: psycopg.Connection[Any] | None = None

    def begin(self, heading: str) -> None:
        self._heading = heading
        self._due = 0.0
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def show(self, moment: Moment) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._every
        line = (
            f"{self._heading} {moment.phase:>10} {moment.seconds:4.0f} s  {self._counts(moment)}  {told(moment.faults)}"
        )
        if self._console.is_terminal:
            self._console.file.write(f"\r\x1b[K{line[: self._console.width - 1]}")
            self._console.file.flush()
        else:
            self._console.print(line, soft_wrap=True, highlight=False)

    def end(self, result: Result) -> None:
        if self._console.is_terminal:
            self._console.file.write("\r\x1b[K")
        verdict = counted(len(result.violations), "violation") if result.violations else "all in order"
        self._console.print(
            f"{self._heading} {result.seconds:4.0f} s  {result.acknowledged:,} messages, longest stall"
            f" {result.evidence.longest_stall:.1f} s: [bold {'red' if result.violations else 'green'}]{verdict}[/]",
            highlight=False,
            soft_wrap=True,
        )

    def _counts(self, moment: Moment) -> str:
        for _ in range(2):  # the first finds only that the server was restarted
            with suppress(psycopg.Error):
                if self._connection is None or self._connection.closed:
                    self._connection = moment.database.connect(autocommit=True)
                [[done]] = self._connection.execute(DONE).fetchall()
                [[waiting]] = self._connection.execute(WAITING, [BESIDE]).fetchall()
                return f"{done:>6,} done {waiting:>5,} waiting"
        return "the database is away".rjust(26)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def told(faults: Counter[str]) -> str:
    return " · ".join(f"{name} {count}" for name in (*FAULTS, *FAILOVERS) if (count := faults[name]))


def verdict(console: Console, results: Sequence[Result]) -> None:
    """The promises, by how much each was tested, and whether it held."""
    found = Counter(violation.rule for result in results for violation in result.violations)
    table = Table(title="Verdict", title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    table.add_column("promise")
    table.add_column("tested on", justify="right")
    table.add_column("violations", justify="right")
    table.add_column("")
    tested = _tested(results)
    for name, promise in PROMISES.items():
        mark = "[red]broken[/]" if found[name] else "[green]holds[/]"
        table.add_row(promise, tested[name], str(found[name] or "-"), mark)
    console.print()
    console.print(table)


def _tested(results: Sequence[Result]) -> dict[str, str]:
    messages = sum(len(result.deeds.sends) for result in results)
    in_sessions = sum(send.session is not None for result in results for send in result.deeds.sends.values())
    sessions = sum(len(result.evidence.sessions) for result in results)
    deliveries = sum(len(each) for result in results for each in result.deeds.deliveries.values())
    settlements = sum(len(each) for result in results for each in result.deeds.settlements.values())
    receivers = sum(
        process.role == "home" and len(process.actors) for result in results for process in result.plan.processes
    )
    return {
        "conservation": f"{messages:,} messages",
        "exactly once": f"{messages:,} messages",
        "exclusivity": f"{deliveries:,} deliveries",
        "fence": f"{settlements:,} settlements",
        "truth": f"{settlements:,} settlements",
        "order": f"{in_sessions:,} messages",
        "state": f"{sessions:,} sessions",
        "liveness": f"{receivers:,} receivers",
        "invariants": f"{len(results):,} rounds",
        "surprises": f"{messages + deliveries + settlements:,} calls",
    }


def violations(console: Console, results: Iterable[Result]) -> None:
    """The first ones whole, at least one of each kind, and where the rest is."""
    for result in results:
        if not result.violations:
            continue
        chosen = first(result.violations)
        console.print(f"\n[bold]Violations in the round with seed {result.plan.seed}[/]", highlight=False)
        for violation in chosen:
            console.print(str(violation), highlight=False, markup=False, soft_wrap=True)
        if rest := len(result.violations) - len(chosen):
            console.print(f"... and {rest:,} more.", highlight=False)
        console.print(f"All of them, with the books: {result.books}/violations.txt", highlight=False, soft_wrap=True)


def first(found: Sequence[Violation]) -> list[Violation]:
    """One of each rule, then others until there are enough."""
    leading = {violation.rule: violation for violation in reversed(found)}
    chosen = list(leading.values())[::-1]
    return chosen + [each for each in found if each not in chosen][: max(0, SHOWN - len(chosen))]


TITLES = [
    "fault",
    "load",
    "rounds",
    "messages",
    "faults",
    "lost",
    "doubled",
    "other violations",
    "longest stall",
    "manual steps",
    "command",
]


def row(fault: str, results: Sequence[Result], person: str, command: str) -> str:
    """A row of docs/reliability.md."""
    found = [violation for result in results for violation in result.violations]
    lost = sum("LOST" in violation.text for violation in found)
    doubled = sum(violation.rule == "exactly once" for violation in found)
    actors = {sum(len(process.actors) for process in result.plan.processes) for result in results}
    messages = sum(result.acknowledged for result in results)
    seconds = sum(result.plan.seconds for result in results)
    cells = [
        fault,
        f"{max(actors)} actors, {messages / seconds:.0f} messages/s",
        str(len(results)),
        f"{messages:,}",
        str(sum(result.faults.total() for result in results) or "in the actors"),
        str(lost),
        str(doubled),
        str(len(found) - lost - doubled),
        f"{max(result.evidence.longest_stall for result in results):.1f} s",
        person,
        f"`{command}`",
    ]
    return f"| {' | '.join(cells)} |"


def heading() -> str:
    return f"| {' | '.join(TITLES)} |\n|{' --- |' * len(TITLES)}"


def write(page: Path, conditions: str, rows: Sequence[str]) -> None:
    """Puts the table in the place of the one that the page has, with the conditions above it; or makes the page."""
    table = "\n".join([f"{conditions}\n", heading(), *rows])
    before = page.read_text() if page.exists() else ""
    place = re.compile(r"^[^\n]+\n\n" + re.escape(heading()) + r"(\n\|[^\n]*)*", re.MULTILINE)
    page.write_text(place.sub(lambda _: table, before) if place.search(before) else f"{before}{table}\n")


assert set(PROMISES) == {rule.__name__.replace("_", " ") for rule in rules.RULES}
