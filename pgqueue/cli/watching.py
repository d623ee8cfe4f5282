"""Rates and trends of ``pgqueue stats --watch``, from its last samples of the queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pgqueue.model.settings import QueueRuntimeProperties

#: The time over which rates are taken: the server counts what a session does only every second.
WINDOW = timedelta(seconds=5)

#: How many of the last looks a trend shows, and its heights from none to the most.
LENGTH = 12
HEIGHTS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Look:
    """The queues at one time, and how many messages have ever come into any of them, and gone."""

    at: datetime
    queues: Sequence[QueueRuntimeProperties]
    came: int
    went: int


@dataclass(frozen=True)
class Trend:
    """How the messages ready in a queue have changed: by how many a second, and as a line of bars."""

    change: int
    line: str


class Looks:
    """The last looks, the newest at the end."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def add(self, look: Look) -> None:
        self._looks.append(look)
        while len(self._looks) > LENGTH and look.at - self._looks[1].at >= WINDOW:
            self._looks.popleft()

    @property
    def newest(self) -> Look:
        return self._looks[-1]

    def rates(self) -> tuple[float, float]:
        """The messages that came into the queues, and those that left them, a second."""
        newest, before, seconds = self._span()
        return (newest.came - before.came) / seconds, (newest.went - before.went) / seconds

    def trends(self) -> dict[str, Trend]:
        """The trend of each queue, by name."""
        newest, before, seconds = self._span()
        earlier = {queue.name: queue.ready for queue in before.queues}
        lines: dict[str, list[int]] = {queue.name: [] for queue in newest.queues}
        for look in list(self._looks)[-LENGTH:]:
            for queue in look.queues:
                if queue.name in lines:
                    lines[queue.name].append(queue.ready)
        return {
            queue.name: Trend(round((queue.ready - earlier.get(queue.name, 0)) / seconds), sparkline(lines[queue.name]))
            for queue in newest.queues
        }

    def _span(self) -> tuple[Look, Look, float]:
        """The newest look, the one with which it is compared, and the seconds between them."""
        newest = self.newest
        before = next(look for look in self._looks if newest.at - look.at <= WINDOW)
        return newest, before, (newest.at - before.at).total_seconds() or 1.0


def sparkline(numbers: Sequence[int]) -> str:
    """Numbers as bars beside each other, the highest for the most; any number but 0 has a bar.

    >>> sparkline([0, 1, 50, 100])
    ' ▁▄█'
    """
    most = max(numbers, default=0) or 1
    highest = len(HEIGHTS) - 1
    return "".join(HEIGHTS[-(-number * highest // most)] for number in numbers)
