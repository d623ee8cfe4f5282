"""What a sweep has done."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add


@dataclass(frozen=True)
class SweepReport:
    """How many messages a sweep has tidied up, or would have in a dry run.

    ``expired``: their time to live was over; they were dropped, or dead-lettered where their queue says so.
    ``dead_lettered``: they were delivered as often as their queue allows. ``returned``: their locks had expired; they
    can be received again. ``activated``: their time had come; they can be received now. ``forgotten``: message ids and
    recorded effects that need not be remembered any more, and what was sent to a queue while it was dropped.
    ``reclaimed_days``: of history that no queue retains.
    """

    expired: int = 0
    dead_lettered: int = 0
    returned: int = 0
    activated: int = 0
    forgotten: int = 0
    reclaimed_days: int = 0

    def __add__(self, other: SweepReport) -> SweepReport:
        return SweepReport(*map(add, astuple(self), astuple(other)))
