"""What a run of the demo is to be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pgqueue.demo.flights import Source

QUEUE = "pgqueue-demo"
LOCK_DURATION = timedelta(seconds=3)
MAX_DELIVERY_COUNT = 3


@dataclass(frozen=True)
class Plan:
    """The same seed makes the same disturbances; when they strike is up to the machine."""

    dsn: str
    source: Source = Source.EXTRACT
    flights: int | None = None
    consumers: int = 4
    kills: int | None = None
    seed: int = 2013

    def kills_among(self, flights: int) -> int:
        """How many kills a run of so many flights has: few enough that no flight is their victim again and again."""
        return min(8, flights // 1000) if self.kills is None else self.kills
