"""Results as Markdown: a table a workload, and the ratios that this project watches."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.ratios import Results
from benchmarks.peers.ratios import table as ratio_table
from benchmarks.peers.systems import BY_NAME
from benchmarks.peers.workloads import WORKLOADS

Turn = Mapping[str, Any]

COLUMNS = {
    "W4": {"p50": "p50", "p95": "p95", "p99": "p99"},
    "W6": {"rate": "held ÷ not held"},
    "W7": {"rate": "statements/s", "client_ms": "client CPU, ms/s", "server_ms": "server CPU, ms/s"},
}
USUAL = {"rate": "messages/s", "client_us": "client CPU, µs a message", "server_us": "server CPU, µs a message"}


def report(results: Results, about: Mapping[str, Turn], missing: Mapping[str, str]) -> str:
    parts = ["## Ratios\n\n" + ratio_table(results, shown)]
    parts += [f"## {name}: {WORKLOADS[name].title}\n\n{table(name, results[name], missing)}" for name in results]
    parts.append("## Settings\n\n" + _settings(about))
    return "\n\n".join(parts)


def table(workload: str, by_system: Mapping[str, Sequence[Turn]], missing: Mapping[str, str]) -> str:
    """A row a system: medians, and the range of the first figure."""
    columns = COLUMNS.get(workload, USUAL)
    measured = [turn for turns in by_system.values() for turn in turns]
    names = [name for name in columns if any(name in turn for turn in measured)] or list(columns)[:1]
    head = ["", columns[names[0]], "lowest to highest", *(columns[name] for name in names[1:]), "remarks"]
    lines = [head, ["---", *["---:"] * (len(head) - 2), "---"]]
    for system, turns in by_system.items():
        lines.append([BY_NAME[system].title, *_cells(names, turns), _remarks(turns)])
    for system, reason in missing.items():
        if BY_NAME[system].takes_part(workload):
            lines.append([BY_NAME[system].title, *[""] * (len(head) - 2), reason])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(names: Sequence[str], turns: Sequence[Turn]) -> list[str]:
    figures = [[turn[name] for turn in turns if turn.get(name) is not None] for name in names]
    first, *others = ([shown(statistics.median(found)) if found else ""] for found in figures)
    span = f"{shown(min(figures[0]))} to {shown(max(figures[0]))}" if len(figures[0]) > 1 else ""
    return [*first, span, *(cell for (cell,) in others)]


def _remarks(turns: Sequence[Turn]) -> str:
    flaws = {str(turn["flaw"]): None for turn in turns if "flaw" in turn}
    stretches = [
        f"{label}: {' '.join(shown(rate) for rate in turn[key])}"
        for turn in turns[-1:]
        for key, label in (("free", "messages/s, not held"), ("held", "held"))
        if key in turn
    ]
    return "; ".join([*flaws, *stretches])


def _settings(about: Mapping[str, Turn]) -> str:
    lines = ["| | version | settings | W5: the message is completed |", "| --- | --- | --- | --- |"]
    for system, said in about.items():
        how = "in the handler's transaction" if said["is_atomic"] else "after the handler's transaction"
        lines.append(f"| {BY_NAME[system].title} | {said['version']} | {said['settings']} | {how} |")
    return "\n".join(lines)


def shown(figure: float) -> str:
    if figure != figure:  # noqa: PLR0124 - not a number
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.2f}"
