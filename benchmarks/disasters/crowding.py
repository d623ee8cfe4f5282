"""Thousands of connections: until the server refuses more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate

MOST = 2_000
#: Threads that connect.
APPLICATIONS = 50


class Crowd(Disaster):
    """Applications open all connections that there are, but for a few that are reserved for superusers."""

    name = "connections"
    fault = f"other applications open {MOST:,} connections, as many as the server allows, and hold them"
    person = "list their owners by the doctor's query, and end them"
    found = frozenset({"connections"})

    def make(self) -> Sequence[Cluster]:
        return [Cluster(max_connections=str(MOST), superuser_reserved_connections="10")]

    def prepare(self) -> None:
        self.servers[0].execute("create role crowd login")

    def strike(self, fate: Fate) -> None:
        with crowd(self.servers[0].dsn(NAME)):
            fate.work(3)
            fate.examine()


@contextmanager
def crowd(dsn: str) -> Iterator[None]:
    """Hold as many connections as the server allows."""
    with ThreadPoolExecutor(APPLICATIONS) as applications:
        held = list(applications.map(lambda _: _connected(dsn), range(MOST)))
    try:
        yield
    finally:
        for connection in filter(None, held):
            connection.close()


def _connected(dsn: str) -> psycopg.Connection[Any] | None:
    try:
        return psycopg.connect(dsn, user="crowd", application_name="crowd")
    except psycopg.OperationalError:
        return None


DISASTERS: Sequence[type[Disaster]] = (Crowd,)
