"""The bound of each figure: what it may be when a snapshot has been held, beside what it was before. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from benchmarks.drawing import Line, lines
from benchmarks.soak.resources import Sample

#: Shares of the time: calm, a snapshot held, and calm again, once vacuum has removed what it kept.
BEFORE, HELD, AFTER = (0.15, 0.5), (0.5, 0.625), (0.75, 1.0)
#: The curve has so many points.
POINTS = 24


@dataclass(frozen=True)
class Bound:
    """The median after the snapshot may be higher than the one before by a share of it or by ``more``, whichever is
    greater; while the snapshot is held no sample may be above so many ``times`` that bound."""

    title: str
    share: float
    more: float
    times: float = inf

    def after(self, before: float) -> float:
        return before + max(self.share * before, self.more)


BOUNDS = {
    "oldest": Bound("oldest message that waits, s", 0.5, 5.0, 6.0),
    "processes": Bound("processes, MB", 0.03, 5.0, 1.2),
    "threads": Bound("threads of the processes", 0.0, 4.0, 1.2),
    "files": Bound("open files of the processes", 0.0, 10.0, 1.2),
    "connections": Bound("connections", 0.0, 10.0, 1.2),
    "backend": Bound("a backend on average, MB", 0.05, 0.1, 1.2),
    "largest": Bound("largest backend, MB", 0.1, 0.5, 1.2),
    "settings": Bound("settings of a session, kB", 0.1, 4.0, 1.2),
    "tables": Bound("tables and indexes, MB", 0.5, 20.0),
    "dead_rows": Bound("dead rows", 0.5, 5_000.0),
    "pages": Bound("pages a message", 0.2, 50.0, 10.0),
    "multixacts": Bound("multixacts a message", 0.2, 0.5, 2.0),
    "log_lines": Bound("lines of the server's log a minute", 0.3, 10.0, 2.0),
    "client_lines": Bound("lines of the clients' logs a minute", 0.3, 10.0, 2.0),
}
#: Messages a second may be lower by so much.
SLOWER = 0.2
CURVES = ("processes", "backend", "largest", "settings", "tables", "pages", "multixacts")


@dataclass(frozen=True)
class Row:
    """A figure: its median before the snapshot and after it, and its highest while it was held."""

    title: str
    before: float
    held: float
    after: float
    bound: float
    held_bound: float

    @property
    def is_within(self) -> bool:
        return self.after <= self.bound and self.held <= self.held_bound


def rows(samples: Sequence[Sample]) -> list[Row]:
    before, held, after = (list(_during(samples, share)) for share in (BEFORE, HELD, AFTER))
    found = []
    for name, bound in BOUNDS.items():
        usual, least = _median(before, name), bound.after(_median(before, name))
        highest = max(float(getattr(sample, name)) for sample in held)
        found.append(Row(bound.title, usual, highest, _median(after, name), least, least * bound.times))
    return found


def excesses(samples: Sequence[Sample]) -> Iterator[str]:
    """The figures that are out of bounds, each with by how much."""
    for row in rows(samples):
        if row.after > row.bound:
            yield f"{row.title}: {row.after:,.2f} at the end, {row.before:,.2f} at first, and at most {row.bound:,.2f}"
        if row.held > row.held_bound:
            yield f"{row.title}: {row.held:,.2f} while the snapshot was held, and at most {row.held_bound:,.2f}"
    slowest = (1 - SLOWER) * _median(list(_during(samples, BEFORE)), "rate")
    for name, share in (("while the snapshot was held", HELD), ("after the snapshot", AFTER)):
        if (rate := _median(list(_during(samples, share)), "rate")) < slowest:
            yield f"messages/s: {rate:,.1f} {name}; at least {slowest:,.1f}"


def table(samples: Sequence[Sample]) -> str:
    heading = "| | before the snapshot | while it is held, at most | after it | bound |\n|---|---:|---:|---:|---:|"
    return "\n".join(
        [heading, *(f"| {row.title} | {_cells(row.before, row.held, row.after, row.bound)} |" for row in rows(samples))]
    )


def picture(samples: Sequence[Sample]) -> str:
    """Curves of figures that should be flat, as multiples of what they were before the snapshot."""
    size = max(1, len(samples) // POINTS)
    groups = [samples[first : first + size] for first in range(0, len(samples), size)]
    usual = list(_during(samples, BEFORE))
    return lines(
        "Resources over time",
        "multiples of the median before a snapshot is held",
        [f"{group[-1].minutes:.0f}" if nth % 4 == 0 else "" for nth, group in enumerate(groups)],
        "minutes",
        [
            Line(BOUNDS[name].title, [_median(group, name) / (_median(usual, name) or 1) for group in groups], color)
            for color, name in enumerate(CURVES)
        ],
    )


def _during(samples: Sequence[Sample], share: tuple[float, float]) -> Iterator[Sample]:
    first, last = (part * samples[-1].minutes for part in share)
    return (sample for sample in samples if first < sample.minutes <= last)


def _median(samples: Sequence[Sample], name: str) -> float:
    return statistics.median(float(getattr(sample, name)) for sample in samples)


def _cells(*figures: float) -> str:
    return " | ".join(f"{figure:,.0f}" if figure >= 100 else f"{figure:,.2f}" for figure in figures)
