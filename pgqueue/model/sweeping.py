"""What a sweep has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SweepReport:
    """How many messages a sweep has tidied up, or would have in a dry run.

    ``dead_lettered``: they were delivered as often as their queue allows. ``returned``: their locks had expired; they
    can be received again. ``activated``: their time had come; they can be received now.
    """

    dead_lettered: int = 0
    returned: int = 0
    activated: int = 0
