"""How a worker is: what its loops say of themselves, for an operator and for a probe."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

#: A loop that has not come round for so long is stuck. None of them waits longer than half a minute, for a dead socket.
STUCK_AFTER = timedelta(seconds=60)


@dataclass
class Heartbeat:
    """When a loop last came round, and what it failed with since."""

    turned_at: float = field(default_factory=time.monotonic)
    failures: int = 0
    error: BaseException | None = None

    def beat(self) -> None:
        """Note that the loop has come round."""
        self.turned_at = time.monotonic()

    @property
    def age(self) -> timedelta:
        """How long ago the loop last came round."""
        return timedelta(seconds=time.monotonic() - self.turned_at)


@dataclass(frozen=True)
class Health:
    """How a worker is.

    ``loops`` says for each loop how long ago it last came round, ``failing`` which of them fail at the moment, with the
    error: the database is away, as a rule. ``running`` and ``waiting`` count messages in handlers and ready for one,
    ``overdue`` handlers that ran out of their time and ignore it.
    """

    is_stopping: bool
    running: int
    waiting: int
    overdue: int
    loops: Mapping[str, timedelta]
    failing: Mapping[str, str]

    @property
    def is_alive(self) -> bool:
        """Whether every loop comes round. A worker that waits for its database is alive."""
        return all(age < STUCK_AFTER for age in self.loops.values())

    def as_dict(self) -> dict[str, object]:
        """For a program to read; durations in seconds."""
        return {
            "is_alive": self.is_alive,
            "is_stopping": self.is_stopping,
            "running": self.running,
            "waiting": self.waiting,
            "overdue": self.overdue,
            "loops": {name: round(age.total_seconds(), 3) for name, age in self.loops.items()},
            "failing": dict(self.failing),
        }
