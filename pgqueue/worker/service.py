"""What a worker consists of, as an operator sees it: a service for each queue, and loops beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Protocol

from pgqueue.worker.dispatcher import Dispatcher, Tally
from pgqueue.worker.health import Health, Heartbeat


class Service(Protocol):
    """What works off one queue."""

    queue: str
    dispatcher: Dispatcher

    @property
    def running(self) -> int:
        """How many messages are in handlers."""

    @property
    def waiting(self) -> int:
        """How many messages lie ready."""

    @property
    def overdue(self) -> int:
        """How many handlers exceeded their timeout and still run."""

    @property
    def beats(self) -> Mapping[str, Heartbeat]:
        """The heartbeats of its loops."""


class Monitored(Protocol):
    """The driver of a worker."""

    @property
    def services(self) -> Sequence[Service]:
        """What it runs, by queue."""

    def health(self) -> Health:
        """How it is."""


class Driven(Protocol):
    """A worker of either face."""

    @property
    def _driver(self) -> Monitored: ...


def driver_of(worker: Driven) -> Monitored:
    """What the health and the metrics of a worker are read from."""
    return worker._driver  # noqa: SLF001 - a public name would be a promise to users


def tally_of(services: Sequence[Service]) -> Tally:
    """The counts of all queues together."""
    return Tally(*map(sum, zip(*(astuple(service.dispatcher.tally) for service in services), strict=True)))


def health_of(services: Sequence[Service], beside: Mapping[str, Heartbeat], *, is_stopping: bool) -> Health:
    """The health of a worker; with several queues, its loops have their names."""
    beats = dict(beside)
    for service in services:
        prefix = f"{service.queue}: " if len(services) > 1 else ""
        beats |= {f"{prefix}{name}": beat for name, beat in service.beats.items()}
    return Health(
        is_stopping=is_stopping,
        running=sum(service.running for service in services),
        waiting=sum(service.waiting for service in services),
        overdue=sum(service.overdue for service in services),
        loops={name: beat.age for name, beat in beats.items()},
        failing={name: trouble for name, beat in beats.items() if (trouble := beat.trouble) is not None},
        paused=[service.queue for service in services if service.dispatcher.is_paused],
    )
