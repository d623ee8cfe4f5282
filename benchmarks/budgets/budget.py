"""The committed budgets: a row for each verb, and how far a figure may be from it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[1] / "results" / "budgets.md"

#: How far a figure may be from its budget, in either direction: what is counted not at all.
TOLERANCES = {
    "statements": 0.0,
    "functions": 0.0,
    "settings": 0.0,
    "buffers": 0.02,
    "dirtied": 0.1,
    "WAL bytes": 0.02,
    "contexts": 0.02,
    "backend kB": 0.02,
    "bytecodes": 0.0,
    "allocated kB": 0.1,
}
ROUNDED = 0.02
CLIENTS = ("bytecodes", "allocated kB")

HEAD = """# Budgets of the hot path

`make budgets` measures what a call of each verb costs, through `QueueClient`, in things that do not depend on the
machine; the clock stands still, and nothing else happens in the database. A test compares. If a change makes a verb
cost more, or less, update this table by `make budgets WRITE=1`, and give the reason in the commit.

- **statements**: executed in a call, within functions too; **functions**: called and not inlined; **settings**: `SET`
  clauses of these functions
- **buffers**, **dirtied**: pages read and dirtied; **WAL bytes**: written, without whole pages
- **contexts**, **backend kB**: memory contexts of a backend (plans and catalogue entries), and their size, after a
  thousand calls
- **bytecodes**: executed in `pgqueue`; **allocated kB**: memory that a call needs at most, in the client

{versions}

"""


@dataclass(frozen=True)
class Difference:
    """A figure that is not its budget."""

    verb: str
    name: str
    measured: float
    budget: float

    def __str__(self) -> str:
        return f"{self.verb}: {self.name} {_shown(self.measured)}, budget {_shown(self.budget)}"


Table = Mapping[str, Mapping[str, float]]


def versions(server: str) -> str:
    """The versions that the figures hold for: PostgreSQL's major and Python's minor one."""
    return f"PostgreSQL {server.partition('.')[0]}, Python {'.'.join(platform.python_version_tuple()[:2])}"


def written(table: Table, versions: str) -> str:
    """The file."""
    lines = [["", *TOLERANCES], ["---", *["---:"] * len(TOLERANCES)]]
    lines += [[verb, *(_shown(figures[name]) for name in TOLERANCES)] for verb, figures in table.items()]
    return HEAD.format(versions=versions) + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read(text: str) -> Table:
    """The budgets of a file."""
    (head, _, *lines) = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    )
    return {verb: dict(zip(head[1:], map(_number, figures), strict=True)) for verb, *figures in lines}


def differences(measured: Table, budgets: Table) -> Iterator[Difference]:
    """The figures that are further from their budget than they may be."""
    for verb, figures in measured.items():
        for name, figure in figures.items():
            budget = budgets.get(verb, {}).get(name, 0.0)
            if abs(figure - budget) > TOLERANCES[name] * budget + ROUNDED:
                yield Difference(verb, name, figure, budget)


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:,.2f}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))
