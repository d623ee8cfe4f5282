"""The user of each request, and what pages and API read with the rights of that user."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Request

from pgqueue.dashboard import queries
from pgqueue.dashboard.database import Database, Rows
from pgqueue.dashboard.figures import Figures, KeptFigures
from pgqueue.errors import AccessDeniedError


@dataclass(frozen=True)
class User:
    """The user of a request, with the database and its figures."""

    role: str | None
    database: Database
    kept: KeptFigures
    is_writable: bool

    def transaction(self, *, writes: bool = False) -> AbstractContextManager[Rows]:
        """A transaction with the rights of the user."""
        return self.database.transaction(self.role, writes=writes)

    def figures(self) -> Figures:
        """The figures of all queues. Raises AccessDeniedError when the user may not monitor."""
        with self.transaction() as rows:
            queries.may_monitor(rows)
        return self.kept.get()

    def figures_if_allowed(self) -> Figures | None:
        """The figures of all queues; None when the user may not monitor."""
        try:
            return self.figures()
        except AccessDeniedError:
            return None

    def counts(self, queue: str) -> tuple[Mapping[str, Any], datetime]:
        """The counts of a queue, and when they were read: from all figures, or its own for who may see no others."""
        found = self.figures_if_allowed()
        if found is not None:
            for each in found.queues:
                if each["name"] == queue:
                    return each, found.taken_at
        with self.transaction() as rows:  # the role may not monitor, or the queue was created since
            return queries.counts(rows, queue), rows.value("select pgqueue.clock()")

    def refuse_unless_writable(self) -> None:
        """Raise AccessDeniedError when the dashboard was started to be looked at only."""
        if not self.is_writable:
            raise AccessDeniedError("this dashboard is read-only: start it with `pgqueue dashboard --writable`")


def _user(request: Request) -> User:
    state = request.app.state
    request.state.role = state.gate.role(request)
    return User(request.state.role, state.database, state.figures, state.settings.is_writable)


Asking = Annotated[User, Depends(_user)]
