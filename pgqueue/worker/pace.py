"""How many messages a worker claims, and when it polls again: decisions as values. Times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pgqueue.model.backoff import Backoff

#: How much work is claimed ahead: what the slots do in this many seconds and in four round trips. When half of it is
#: used up, more is claimed, so that it arrives before the rest is used up.
AHEAD = 0.02
#: At least one query a second keeps expired locks noticed within that time.
LONGEST_PAUSE = 1.0
#: In seconds: between polls that find nothing.
PAUSES = Backoff(0.005, LONGEST_PAUSE, factor=1.5)


@dataclass
class Pace:
    """The size and time of claims, one at a time: for the idle slots, and for what they finish before the next claim.

    At most ``most_ahead`` messages are claimed ahead, and none for slow handlers: other workers may be idle.
    """

    concurrency: int
    most_ahead: int
    rate: float = 0.0
    #: How long a claim takes, in seconds.
    trip: float = 0.0
    #: How many messages may be claimed ahead, beyond the idle slots.
    ahead: int = 0
    _finished: int = 0
    _since: float | None = None
    _pauses: Iterator[float] = field(default_factory=lambda: iter(PAUSES))

    def finished(self, count: int, now: float) -> None:
        """Note that ``count`` messages were finished; the rate adapts within a few hundredths of a second."""
        self._finished += count
        if self._since is None:
            self._since = now
        elapsed = now - self._since
        if elapsed >= AHEAD:
            self.rate += (self._finished / elapsed - self.rate) / 2
            self._finished, self._since = 0, now
            self._look_ahead()

    def claimed(self, seconds: float) -> None:
        """Note how long a claim took."""
        self.trip += (seconds - self.trip) / 4
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.ahead = min(int(self.rate * (AHEAD + 4 * self.trip)), self.most_ahead)

    def is_low(self, waiting: int) -> bool:
        """Whether half of the messages claimed ahead are used up, so that it is time to claim more."""
        return waiting * 2 <= self.ahead

    def demand(self, running: int, waiting: int) -> int:
        """How many messages to claim now; none while more than half of those claimed ahead are left.

        A claim brings half of them, so that the next one is under way while handlers work on these.
        """
        idle = max(self.concurrency - running, 0)
        most = self.ahead + idle
        return 0 if waiting * 2 > most else min(max(idle - waiting, most // 2, 1), most - waiting)

    def pause(self, *, found: int, wanted: int) -> float | None:
        """The seconds until the next poll, unless a slot becomes idle before; None for at once."""
        if found:
            self._pauses = iter(PAUSES)
        return None if found and found == wanted else next(self._pauses)
