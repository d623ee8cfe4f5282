"""The designs that are compared: a folder of SQL each, in a database of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.engine.pgbench import Pgbench, Run
from pgqueue import schema

BODY = json.dumps({"id": 12345, "kind": "order.created", "customer": "c-98765", "note": "x" * 120, "at": "2013-01-01"})
FILL_AT_ONCE = 10_000


@dataclass(frozen=True)
class Design:
    """One way to keep a queue in PostgreSQL."""

    name: str
    label: str
    dsn: str
    pgbench: Pgbench
    folder: str
    migrate: Callable[[str], object] = schema.migrate
    installed: Path | None = None

    def set_up(self) -> None:
        """pgqueue's schema is in every database: the floor copies the shape of its table."""
        self.migrate(self.dsn)
        if self.installed is not None:
            with self.connect() as connection:
                connection.execute(self.installed.read_bytes())
        self._execute("setup")

    def empty(self) -> None:
        self._execute("empty")

    def fill(self, messages: int) -> None:
        for portion in range(0, messages, FILL_AT_ONCE):
            self._execute("fill", messages=min(FILL_AT_ONCE, messages - portion))
        self.vacuum()

    def schedule(self, messages: int) -> None:
        self._execute("schedule", messages=messages)
        self.vacuum()

    def cycle(self, *, clients: int, seconds: int) -> Run:
        """send, receive and complete of ten messages, each a transaction, as fast as so many clients can."""
        return self.pgbench.run(self.dsn, self._script("cycle"), clients=clients, seconds=seconds)

    def claims(self, transactions: int) -> Run:
        """Receives of ten messages by one client, none of them completed."""
        return self.pgbench.run(self.dsn, self._script("claim"), clients=1, transactions=transactions)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn)

    def _script(self, name: str) -> Path:
        return Path(__file__).parent / "designs" / self.folder / f"{name}.sql"

    def _execute(self, name: str, **parameters: int) -> None:
        text = self._script(name).read_text()
        with psycopg.connect(self.dsn) as connection:
            connection.execute(text.encode(), {"body": BODY, **parameters} if parameters else None)

    def vacuum(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")
