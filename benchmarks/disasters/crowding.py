"""Thousands of connections: until the server refuses more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress

import psycopg

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate

CROWD = 2_000


class Crowd(Disaster):
    """An application opens connections without end; a few are reserved for superusers."""

    name = "connections"
    fault = f"{CROWD:,} connections opened, until the server refuses more, and held"
    person = "see who has them, as the doctor's query does; end them"
    found = frozenset({"connections"})

    def make(self) -> Sequence[Cluster]:
        return [Cluster(max_connections=str(CROWD), superuser_reserved_connections="10")]

    def prepare(self) -> None:
        self.servers[0].execute("create role crowd login")

    def strike(self, fate: Fate) -> None:
        dsn = self.servers[0].dsn(NAME)
        with ExitStack() as crowd:
            with suppress(psycopg.OperationalError):
                while True:
                    crowd.enter_context(psycopg.connect(dsn, user="crowd", application_name="crowd"))
            fate.work(3)
            fate.examine()


DISASTERS: Sequence[type[Disaster]] = (Crowd,)
