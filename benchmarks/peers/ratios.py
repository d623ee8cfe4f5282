"""The ratios that this project watches: each within one turn, so that both sides saw the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: By workload and system, the figures of each turn; none of them where a turn failed.
Results = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True)
class Ratio:
    """A figure of ours, as a multiple of a peer's in the same turn, or by itself."""

    title: str
    workload: str
    figure: str
    ours: str
    theirs: str | None = None
    #: Each turn is shown, not only the median and the range.
    each: bool = False

    def of(self, results: Results) -> list[float]:
        """One number a turn in which both were measured."""
        by_system = results.get(self.workload, {})
        ours = [turn.get(self.figure) for turn in by_system.get(self.ours, ())]
        if self.theirs is None:
            return [figure for figure in ours if figure is not None]
        theirs = [turn.get(self.figure) for turn in by_system.get(self.theirs, ())]
        return [our / their for our, their in zip(ours, theirs, strict=False) if our is not None and their]


RATIOS = [
    Ratio("W1 send_batch ÷ raw COPY, a thousand at a time", "W1", "rate", "pgqueue", "raw"),
    Ratio("W2 send ÷ raw", "W2", "rate", "pgqueue", "raw"),
    Ratio("W3 Worker ÷ raw", "W3", "rate", "pgqueue", "raw"),
    Ratio(
        "W3 receive(500) and complete_batch: client CPU ÷ that of psycopg alone",
        "W3",
        "client_us",
        "pgqueue-loop",
        "pgqueue-sql",
    ),
    Ratio("W4 p50 ÷ graphile-worker", "W4", "p50", "pgqueue", "graphile-worker", each=True),
    Ratio("W4 p99 ÷ graphile-worker", "W4", "p99", "pgqueue", "graphile-worker", each=True),
    Ratio("W5 Worker, a transaction a message ÷ raw", "W5", "rate", "pgqueue", "raw"),
    Ratio("W5 Worker, transaction_batch=50 ÷ raw", "W5", "rate", "pgqueue-50", "raw"),
    Ratio("W6 held ÷ not held", "W6", "rate", "pgqueue"),
    Ratio("W7 statements a second", "W7", "rate", "pgqueue"),
    *(Ratio(f"{name} ÷ before", name, "rate", "pgqueue", "pgqueue-before") for name in ("W1", "W2", "W3", "W5")),
    Ratio("W4 p50 ÷ before", "W4", "p50", "pgqueue", "pgqueue-before"),
    Ratio("W3, 1 ms each way: Worker ÷ raw", "W3-far", "rate", "pgqueue", "raw"),
    Ratio("W5, 1 ms each way: Worker, a transaction a message ÷ raw", "W5-far", "rate", "pgqueue", "raw"),
    Ratio("W5, 1 ms each way: Worker, transaction_batch=50 ÷ raw", "W5-far", "rate", "pgqueue-50", "raw"),
]


def table(results: Results, shown: Callable[[float], str]) -> str:
    """Markdown; a ratio of what was not measured has no row."""
    lines = ["| | median | each turn, or lowest to highest |", "| --- | ---: | ---: |"]
    for ratio in RATIOS:
        found = ratio.of(results)
        if found:
            turns = " ".join(map(shown, found)) if ratio.each else f"{shown(min(found))} to {shown(max(found))}"
            lines.append(f"| {ratio.title} | {shown(statistics.median(found))} | {turns} |")
    return "\n".join(lines)
