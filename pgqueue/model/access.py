"""The rights of roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Right = Literal["SEND", "RECEIVE", "MONITOR", "ADMIN"]


@dataclass(frozen=True)
class Grant:
    """A right of a database role: SEND to a queue or RECEIVE from it, MONITOR all queues, or ADMIN everything.

    ``queue`` is None where the right is for all queues. See ``docs/security.md``.
    """

    role: str
    may: Right
    queue: str | None
