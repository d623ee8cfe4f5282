"""The parameters of a run of the demo."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from pgqueue.demo.flights import Source

QUEUE = "pgqueue-demo"
LOCK_DURATION = timedelta(seconds=3)
MAX_DELIVERY_COUNT = 3


@dataclass(frozen=True)
class Plan:
    """The parameters of a run; the same seed makes the same disturbances, but their timing depends on the machine."""

    dsn: str = field(repr=False)
    source: Source = Source.EXTRACT
    flights: int | None = None
    workers: int = 4
    kills: int | None = None
    seed: int = 2013

    def kills_among(self, flights: int) -> int:
        """The number of kills in a run of this many flights: few, so that no flight is hit again and again."""
        return min(8, flights // 1000) if self.kills is None else self.kills
