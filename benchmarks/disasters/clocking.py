"""Wrong clocks, of the server and of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import psycopg

from benchmarks.chaos.plan import Plan
from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate
from pgqueue.testing.clock import install

HOUR = timedelta(hours=1)
#: The errors of the clocks of processes, in turns. Senders are behind: they compute the times of scheduled messages.
ERRORS = (timedelta(hours=5), timedelta(hours=-7), timedelta(days=400), timedelta(seconds=-3))
SENDERS_ERROR = timedelta(hours=-3)
SET_RIGHT = "select setval('pgqueue_testing.clock_shift', 0)"


class Clocks(Disaster):
    """Only the server's clock decides; clients need none."""

    name = "clocks"
    fault = "the clock of the server an hour ahead for 3 s, then set right; those of clients hours off, each otherwise"
    person = "set the clock right; locks that were taken meanwhile last an hour longer, if their holders die"
    found = frozenset({"clock"})

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    def change(self, plan: Plan) -> Plan:
        errors = [
            SENDERS_ERROR if process.role == "sender" else ERRORS[place % len(ERRORS)]
            for place, process in enumerate(plan.processes)
        ]
        return replace(
            plan,
            processes=tuple(
                replace(process, clock_error=error) for process, error in zip(plan.processes, errors, strict=True)
            ),
        )

    def prepare(self) -> None:
        make_movable(self.servers[0])

    def strike(self, fate: Fate) -> None:
        fate.move_clock(HOUR)
        fate.work(3)
        fate.examine()
        fate.move_clock(-HOUR)

    def tidy_up(self) -> None:
        """Locks that last for an hour were waited for by moving the clock."""
        set_right(self.servers[0])


def make_movable(server: Cluster) -> None:
    """Let the time pass for which messages wait, at the end of a round."""
    with psycopg.connect(server.dsn(NAME)) as connection:
        install(connection)


def set_right(server: Cluster) -> None:
    """Move the clock to the time of the machine."""
    server.execute(SET_RIGHT, database=NAME)


DISASTERS: Sequence[type[Disaster]] = (Clocks,)
