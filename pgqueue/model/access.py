"""Who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Right = Literal["SEND", "RECEIVE", "MONITOR", "ADMIN"]


@dataclass(frozen=True)
class Grant:
    """What a database role may do: SEND to a queue or RECEIVE from it, MONITOR all queues, or ADMIN everything.

    ``queue`` is None where the right is for all queues. See ``docs/security.md``.
    """

    role: str
    may: Right
    queue: str | None
