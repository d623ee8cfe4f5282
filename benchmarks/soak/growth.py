"""The quantities sampled each time, and when one counts as growing: pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Sample:
    """The use of resources by a worker's process and its database at a moment, and the latencies since the last one."""

    minutes: float
    memory: float
    threads: int
    connections: int
    backend_memory: float
    dead_rows: int
    p50: float
    p99: float


#: By how much each may be higher at the end of the second half than at its beginning, by the line fitted to it: a share
#: of its mean, or so much, whichever is more. Of the latencies only the middle one is judged: machines have other work.
SLACK = {
    "memory": (0.03, 2.0),
    "threads": (0.0, 0.5),
    "connections": (0.0, 1.0),
    "backend_memory": (0.05, 3.0),
    "dead_rows": (0.5, 10_000.0),
    "p50": (0.3, 5.0),
}

#: A verdict takes so many looks.
LOOKS = 16

TITLES = ["minutes", "RSS, MB", "threads", "connections", "backends, MB", "dead rows", "p50, ms", "p99, ms"]


def interval(asked: float, seconds: float) -> float:
    """Seconds between two looks: those asked for, unless there would be too few."""
    return min(asked, seconds / LOOKS)


def growing(samples: Sequence[Any], slack: Mapping[str, tuple[float, float]] = SLACK) -> list[str]:
    """The quantities that have grown over the second half, each with by how much."""
    half = samples[len(samples) // 2 :]
    found = []
    for name, (share, least) in slack.items():
        values = [float(getattr(sample, name)) for sample in half]
        grown = rise([sample.minutes for sample in half], values)
        if grown > max(share * statistics.mean(values), least):
            found.append(f"{name} grows: by {grown:.1f} in {half[-1].minutes - half[0].minutes:.1f} minutes")
    return found


def rise(times: Sequence[float], values: Sequence[float]) -> float:
    """How much the line that fits best rises from the first to the last."""
    if len(set(times)) < 2:
        return 0.0
    return statistics.linear_regression(times, values).slope * (times[-1] - times[0])


def table(samples: Sequence[Any], titles: Sequence[str] = TITLES) -> str:
    assert all(len(titles) == len(fields(sample)) for sample in samples)
    lines = [f"| {' | '.join(titles)} |", f"|{' ---: |' * len(titles)}"]
    for sample in samples:
        cells = [f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in astuple(sample)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
