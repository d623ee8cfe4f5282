"""The health of a worker: what its loops report, for an operator and for a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Protocol

from pgqueue.worker.service import QueueService
from pgqueue.worker.tally import Tally

#: A loop without a heartbeat for so long is stuck. No loop waits longer than half a minute, even on a dead socket.
STUCK_AFTER = timedelta(seconds=60)


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


class Monitored(Protocol):
    """The driver of a worker."""

    @property
    def services(self) -> Sequence[QueueService]:
        """Its services, by queue."""

    def health(self) -> Health:
        """How it is."""


def tally_of(services: Sequence[QueueService]) -> Tally:
    """The counts of all queues together."""
    return Tally(*map(sum, zip(*(astuple(service.dispatcher.tally) for service in services), strict=True)))


class Driven(Protocol):
    """A worker of either face."""

    @property
    def _driver(self) -> Monitored: ...


def driver_of(worker: Driven) -> Monitored:
    """The source of the health and the metrics of a worker."""
    return worker._driver  # noqa: SLF001 - a public name would be a promise to users
