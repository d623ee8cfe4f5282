"""Pauses that grow: between polls that find nothing, and between tries that fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from random import SystemRandom
from typing import Generic, TypeVar

#: A time, or a number of seconds.
Duration = TypeVar("Duration", float, timedelta)

#: A number between 0 and 1. Not of the generator that the application may have seeded, nor alike after a fork.
by_chance = SystemRandom().random


@dataclass(frozen=True)
class Backoff(Generic[Duration]):
    """Pauses of ``first``, then ``factor`` times as long each, up to ``longest``.

    Each is multiplied by a number out of the range ``jitter``, which the caller's ``fraction`` picks.
    """

    first: Duration
    longest: Duration
    factor: float = 2.0
    jitter: tuple[float, float] = (1.0, 1.0)

    def pause(self, number: int, fraction: float = 0.0) -> Duration:
        """The pause with this number, from 1; ``fraction`` is between 0 and 1."""
        least, most = self.jitter
        return self._grown(number) * (least + (most - least) * fraction)

    def _grown(self, number: int) -> Duration:
        try:
            return min(self.first * self.factor ** min(max(number - 1, 0), 64), self.longest)
        except OverflowError:
            return self.longest

    def __iter__(self) -> Iterator[Duration]:
        return map(self.pause, count(1))


#: Between polls: often at first, four times a second later.
POLLS = Backoff(timedelta(milliseconds=5), timedelta(milliseconds=250))
#: In seconds, for what goes on until it is stopped: between failures in a row.
AFTER_FAILURES = Backoff(0.1, 15.0, jitter=(0.5, 1.0))


def polls_within(budget: timedelta) -> Iterator[timedelta]:
    """The pauses between polls, until the budget is spent."""
    for pause in POLLS:
        if budget <= timedelta(0):
            return
        yield min(pause, budget)
        budget -= pause
