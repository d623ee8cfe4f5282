"""The systems that take part, their settings, and what each needs to be installed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class Home(Enum):
    """The interpreter of an adapter."""

    OURS = "the environment of this project"
    VENV = "the environment of peers, .bench/"
    NODE = "Node from a wheel in .bench/, packages in a cache outside of the repository"


@dataclass(frozen=True)
class System:
    name: str
    title: str
    adapter: str
    home: Home = Home.OURS
    settings: dict[str, Any] = field(default_factory=dict)
    #: Names in requirements.txt, or in node-requirements.txt.
    needs: tuple[str, ...] = ()
    needs_python: tuple[int, int] = (3, 11)
    #: Takes part in these only; None: in all.
    only: frozenset[str] | None = None
    needs_pgmq: bool = False
    #: Where the library is that it runs with, if not here.
    library: Path | None = None

    def takes_part(self, workload: str) -> bool:
        return self.only is None or workload in self.only


ASYNCPG = ("asyncpg", "psycopg", "uvloop")
DRAINS = frozenset({"W3", "W5"})
INSERTS = frozenset({"W5", "W5-far"})

RAW = System("raw", "raw psycopg", "with_psycopg", only=frozenset({"W1", "W2", "W3", "W4", "W5", "W3-far", "W5-far"}))
PGQUEUE = System("pgqueue", "pgqueue, Worker", "with_pgqueue")
TOGETHER = System(
    "pgqueue-50",
    "pgqueue, Worker, transaction_batch=50",
    "with_pgqueue",
    settings={"transaction_batch": 50},
    only=INSERTS,
)
TASKS = System(
    "pgqueue-aio",
    "pgqueue, aio.Worker",
    "with_pgqueue",
    settings={"way": "aio"},
    only=frozenset({"W3", "W4", "W5"}),
)
LOOP = System(
    "pgqueue-loop", "pgqueue, receive and complete by hand", "with_pgqueue", settings={"way": "loop"}, only=DRAINS
)
SQL = System(
    "pgqueue-sql", "pgqueue's SQL by psycopg alone", "with_pgqueue", settings={"way": "sql"}, only=frozenset({"W3"})
)
GRAPHILE = System(
    "graphile-worker", "graphile-worker", "with_graphile_worker", Home.NODE, needs=("graphile-worker", "pg")
)

BEFORE = System("pgqueue-before", "pgqueue, Worker, before", "with_pgqueue")

SYSTEMS = [
    RAW,
    PGQUEUE,
    BEFORE,
    TOGETHER,
    TASKS,
    LOOP,
    SQL,
    System("pgmq", "PGMQ", "with_pgmq", needs_pgmq=True),
    GRAPHILE,
    System("pg-boss", "pg-boss", "with_pg_boss", Home.NODE, needs=("pg-boss", "pg")),
    System("pgqueuer", "PgQueuer", "with_pgqueuer", Home.VENV, needs=(*ASYNCPG, "pgqueuer")),
    System("procrastinate", "Procrastinate", "with_procrastinate", Home.VENV, needs=("psycopg", "procrastinate")),
    System("awa", "Awa", "with_awa", Home.VENV, needs=(*ASYNCPG, "awa-pg")),
    System("oban", "Oban", "with_oban", Home.VENV, needs=("psycopg", "uvloop", "oban", "orjson"), needs_python=(3, 12)),
]
BY_NAME = {system.name: system for system in SYSTEMS}


def titles(names: Iterable[str]) -> dict[str, str]:
    return {name: BY_NAME[name].title for name in names}
