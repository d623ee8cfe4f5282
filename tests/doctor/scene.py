"""A database in which something is made to go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgqueue import QueueClient
from pgqueue.doctor import Examination, Finding, examine, thresholds
from pgqueue.testing import Database

MINUTE = timedelta(minutes=1)


@dataclass
class Scene:
    """A database of the test's own, with the queue ``orders``; what is opened here is closed at the end."""

    database: Database
    thresholds: pytest.MonkeyPatch
    open: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.client = self.open.enter_context(QueueClient(self.database.dsn))
        self.client.create_queue("orders")
        self.orders = self.client.queue("orders")

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.database.connect(autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def session(self, **options: Any) -> psycopg.Connection[Any]:
        """A session that begins a transaction with its first statement, and is closed at the end."""
        session = self.database.connect(**options)
        self.open.callback(session.close)
        return session

    def allow(self, **changed: Any) -> None:
        """Change thresholds, where the usual ones would take days or gigabytes to reach."""
        for name, value in changed.items():
            self.thresholds.setattr(thresholds, name, value)

    def passes(self, time: timedelta) -> None:
        """Move the clock of the queues."""
        self.database.move_clock(time)


def found(examination: Examination) -> Iterator[tuple[str, Finding]]:
    """Each finding, with the name of its check."""
    for result in examination.results:
        for finding in result.findings:
            yield result.check, finding


def findings_of(database: Database, check: str, **options: Any) -> list[Finding]:
    """The findings of one check."""
    return [finding for name, finding in found(examine(database.direct, **options)) if name == check]
