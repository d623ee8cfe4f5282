"""The verdict on a run, computed by SQL from its tables: the expected and the actual values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgqueue.demo.plan import MAX_DELIVERY_COUNT, QUEUE, Connection
from pgqueue.demo.sender import HOPELESS

CHECKS = Path(__file__).with_suffix(".sql")

RATE = """
select count(*)::numeric / extract(epoch from max(posted_at) - (select min(sent_at) from pgqueue_demo.flight))
  from pgqueue_demo.posting
"""


@dataclass(frozen=True)
class Check:
    """One check: the expected and the actual value."""

    name: str
    expected: int
    found: int
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.found >= self.expected if self.at_least else self.found == self.expected


@dataclass(frozen=True)
class Verdict:
    """The results of the checks of a run."""

    checks: tuple[Check, ...]
    messages_per_second: float

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def judge(connection: Connection, *, flights: int, kills: int) -> Verdict:
    """Compare the expected with the actual results of a run of this many flights and kills."""
    run = {"queue": QUEUE, "flights": flights, "kills": kills}
    poison = {"hopeless": len(HOPELESS), "deliveries": MAX_DELIVERY_COUNT}
    checks = tuple(Check(*row) for row in connection.execute(CHECKS.read_bytes(), {**run, **poison}))
    (rate,) = connection.execute(RATE).fetchone() or (0,)
    return Verdict(checks, messages_per_second=float(rate or 0))
