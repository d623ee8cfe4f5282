"""The result of a sweep."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add


@dataclass(frozen=True)
class SweepReport:
    """The number of messages and records that a sweep tidied up, or would have in a dry run.

    ``expired``: messages whose time to live was over; they were deleted, or dead-lettered if their queue is set so.
    ``dead_lettered``: messages that had reached the maximum delivery count. ``returned``: messages whose locks had
    expired; they can be received again. ``activated``: scheduled messages that are due and can be received now, and
    messages that schedules sent (in a dry run, schedules that are due). ``forgotten``: message ids and recorded effects
    whose retention is over, entries of the audit log, workers that are gone, and messages of deleted queues.
    ``reclaimed_days``: days of history that no queue retains. ``deleted_queues``: queues that were idle for their
    ``auto_delete_on_idle``; what was in them counts as forgotten. ``forwarded``: messages that waited in a queue which
    forwards.
    """

    expired: int = 0
    dead_lettered: int = 0
    returned: int = 0
    activated: int = 0
    forgotten: int = 0
    reclaimed_days: int = 0
    deleted_queues: int = 0
    forwarded: int = 0

    def __add__(self, other: SweepReport) -> SweepReport:
        return SweepReport(*map(add, astuple(self), astuple(other)))
