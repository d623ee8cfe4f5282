"""The counts of a worker: messages, and a histogram of the durations of handlers."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from math import inf

#: The upper bounds, in seconds: up to handlers that need their locks renewed.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
#: How many durations are kept until they are counted.
COUNTED_AT_ONCE = 1_000


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
        #: Those that are not counted yet: threads that handle messages do not wait for each other here.
        self._observed: deque[float] = deque()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        self._observed.append(seconds)
        if len(self._observed) >= COUNTED_AT_ONCE:
            with self._lock:
                self._count()

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """The number of durations up to each bound, the last being the total; and the sum in seconds."""
        with self._lock:
            self._count()
            counts, total = list(self._counts), self._total
        return list(zip([*map(str, BOUNDS), "+Inf"], map(float, accumulate(counts)), strict=True)), total

    def _count(self) -> None:
        durations = sorted([self._observed.popleft() for _ in range(len(self._observed))])
        if not durations:  # another thread has counted them
            return
        self._total += sum(durations)
        up_to = 0
        for place, bound in enumerate((*BOUNDS, inf)):
            before, up_to = up_to, bisect_right(durations, bound)
            self._counts[place] += up_to - before
