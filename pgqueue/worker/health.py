"""The health of a worker: what its loops report, for an operator and for a probe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

#: A loop without a heartbeat for so long is stuck. No loop waits longer than half a minute, even on a dead socket.
STUCK_AFTER = timedelta(seconds=60)

#: A loop that has waited for the database for so long fails, though there is no error yet.
SILENT_AFTER = timedelta(seconds=10)


@dataclass
class Heartbeat:
    """When a loop last completed a round, and its error since then, if any.

    ``asked_at`` is when it turned to the database, if it waits for that now.
    """

    turned_at: float = field(default_factory=time.monotonic)
    asked_at: float | None = None
    failures: int = 0
    error: BaseException | None = None

    def beat(self) -> None:
        """Note that the loop has completed a round."""
        self.turned_at = time.monotonic()

    @property
    def trouble(self) -> str | None:
        """What fails at the moment, as text."""
        if self.error is not None:
            return str(self.error)
        asked_at = self.asked_at
        silence = timedelta(seconds=0 if asked_at is None else time.monotonic() - asked_at)
        return f"no answer from the database for {silence.seconds} s" if silence >= SILENT_AFTER else None

    @property
    def age(self) -> timedelta:
        """How long ago the loop last completed a round."""
        return timedelta(seconds=time.monotonic() - self.turned_at)


@dataclass(frozen=True)
class Health:
    """The health of a worker.

    ``loops`` has for each loop how long ago it last completed a round. ``failing`` holds the loops that fail at the
    moment, with their errors; usually the database cannot be reached, or has not answered for ten seconds. ``running``
    counts the messages in handlers, ``waiting`` the messages ready for one, ``overdue`` the handlers that exceeded
    their timeout and still run.
    ``paused`` holds the queues whose last claim found nothing because they are paused.
    """

    is_stopping: bool
    running: int
    waiting: int
    overdue: int
    loops: Mapping[str, timedelta]
    failing: Mapping[str, str]
    paused: Sequence[str]

    @property
    def is_alive(self) -> bool:
        """Whether no loop is stuck. A worker that waits for its database is alive."""
        return all(age < STUCK_AFTER for age in self.loops.values())

    def as_dict(self) -> dict[str, object]:
        """Return the fields as a dictionary for programs; durations in seconds."""
        return {
            "is_alive": self.is_alive,
            "is_stopping": self.is_stopping,
            "running": self.running,
            "waiting": self.waiting,
            "overdue": self.overdue,
            "loops": {name: round(age.total_seconds(), 3) for name, age in self.loops.items()},
            "failing": dict(self.failing),
            "paused": list(self.paused),
        }
