"""Figures as a table, with the machine they were measured on."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol


class Figures(Protocol):
    """A row: a title, a unit, and a figure for each column."""

    @property
    def title(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def figures(self) -> Mapping[str, float]: ...


def machine() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def load() -> str:
    """How busy the machine is, to be asked before anything is measured."""
    return f"load average {os.getloadavg()[0]:.1f} when it began"


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """The page with the blocks in place; one that has no mark is left out, a mark that has no block keeps its text."""

    def block(match: re.Match[str]) -> str:
        text = blocks.get(match["name"])
        return match[0] if text is None else f"{match['begin']}\n{text}\n{match['end']}"

    marks = r"(?P<begin><!-- begin (?P<name>[\w-]+) -->)\n.*?(?P<end><!-- end (?P=name) -->)"
    return re.sub(marks, block, page, flags=re.DOTALL)


def table(columns: Mapping[str, str], rows: Sequence[Figures]) -> str:
    """Markdown. The first column's figure is also given as a multiple of each other's."""
    first = next(iter(columns))
    head = ["", *columns.values(), *(f"{columns[first]} ÷ {columns[other]}" for other in columns if other != first)]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        ratios = [_ratio(row.figures, first, other) for other in columns if other != first]
        lines.append([f"{row.title} ({row.unit})", *(_shown(row.figures.get(name)) for name in columns), *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ratio(figures: Mapping[str, float], first: str, other: str) -> str:
    return f"{figures[first] / figures[other]:.2f}" if other in figures else ""


def _shown(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def medians(measured: Mapping[str, Sequence[float]], floors: Mapping[str, str], unit: str) -> str:
    """A row for each title: the median, the range, and the median of the ratios to its floor within each run."""
    lines = [f"| | {unit} (median) | lowest to highest | ÷ raw |", "| --- | ---: | ---: | ---: |"]
    for title, figures in measured.items():
        ratio = statistics.median(a / b for a, b in zip(figures, measured[floors[title]], strict=True))
        span = f"{_shown(min(figures))} to {_shown(max(figures))}"
        lines.append(f"| {title} | {_shown(statistics.median(figures))} | {span} | {ratio:.2f} |")
    return "\n".join(lines)
