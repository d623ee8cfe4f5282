"""The counts of a worker: messages, and a histogram of the durations of handlers."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

#: The upper bounds, in seconds: up to handlers that need their locks renewed.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass
class Tally:
    """Counts of a worker's messages since it started."""

    received: int = 0
    completed: int = 0
    failed: int = 0
    lost: int = 0
    timed_out: int = 0


class Durations:
    """Counts of durations by bound. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        place = bisect_left(BOUNDS, seconds)
        with self._lock:
            self._counts[place] += 1
            self._total += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """The number of durations up to each bound, the last being the total; and the sum in seconds."""
        with self._lock:
            counts, total = list(self._counts), self._total
        return list(zip([*map(str, BOUNDS), "+Inf"], map(float, accumulate(counts)), strict=True)), total
