"""How much a worker claims, and when it looks again: decisions as values. Times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pgqueue.model.backoff import Backoff

#: How much work may lie ready, in seconds of what the slots get done, beside what they get done in two round trips:
#: when half of it is gone the next is claimed, and that is there before the rest is gone.
AHEAD = 0.02
#: At least one query a second keeps expired locks noticed within that time.
LONGEST_PAUSE = 1.0
#: Between looks that find nothing.
PAUSES = Backoff(0.005, LONGEST_PAUSE, factor=1.5)


@dataclass
class Pace:
    """One claim at a time, for the idle slots and for what they will have worked off before the next one is answered.

    What lies ready is bounded by ``most_ahead``, and is nothing for handlers that take long: other workers are there.
    """

    concurrency: int
    most_ahead: int
    rate: float = 0.0
    #: How long a claim takes, in seconds.
    trip: float = 0.0
    #: How many messages may lie ready beyond the idle slots.
    ahead: int = 0
    _finished: int = 0
    _since: float | None = None
    _pauses: Iterator[float] = field(default_factory=lambda: iter(PAUSES))

    def finished(self, count: int, now: float) -> None:
        """So many messages were worked off; the rate follows within a few hundredths of a second."""
        self._finished += count
        if self._since is None:
            self._since = now
        elapsed = now - self._since
        if elapsed >= AHEAD:
            self.rate += (self._finished / elapsed - self.rate) / 2
            self._finished, self._since = 0, now
            self._look_ahead()

    def claimed(self, seconds: float) -> None:
        """A claim has taken so long."""
        self.trip += (seconds - self.trip) / 4
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.ahead = min(int(self.rate * (AHEAD + 2 * self.trip)), self.most_ahead)

    def is_low(self, waiting: int) -> bool:
        """Whether half of what should lie ready is gone: time to claim, so that the answer is there before the rest."""
        return waiting * 2 <= self.ahead

    def appetite(self, running: int, waiting: int) -> int:
        """How many to claim now; none while half of what should lie ready still does."""
        if waiting * 2 > self.ahead + max(self.concurrency - running, 0):
            return 0
        return max(self.concurrency + self.ahead - running - waiting, 0)

    def pause(self, *, found: int, wanted: int) -> float | None:
        """How long until the next look, unless a slot falls idle before; None: at once."""
        if found:
            self._pauses = iter(PAUSES)
        return None if found and found == wanted else next(self._pauses)
