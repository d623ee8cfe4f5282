"""The dependencies of every request: user, database, figures; and the arguments that pages and API share."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request

from pgqueue.dashboard import database as databases
from pgqueue.dashboard import figures as kept


def _person(request: Request) -> databases.Person:
    person: databases.Person = request.app.state.gate.person(request)
    return person


def _database(request: Request) -> databases.Database:
    database: databases.Database = request.app.state.database
    return database


def _figures(request: Request) -> kept.KeptFigures:
    figures: kept.KeptFigures = request.app.state.figures
    return figures


Asking = Annotated[databases.Person, Depends(_person)]
Database = Annotated[databases.Database, Depends(_database)]
Figures = Annotated[kept.KeptFigures, Depends(_figures)]

State = Literal["READY", "LOCKED", "SCHEDULED", "DEFERRED", "DEAD_LETTERED", "EXPIRED", "EXHAUSTED"]
Order = Literal["name", "ready", "dead_letters", "oldest_age", "expired_locks"]
Span = Literal["hour", "day", "week"]
ScheduleState = Literal["ON_TIME", "LATE", "FAILING", "PAUSED", "UNPLANNED", "ENDED"]
Sequence = Annotated[int, Query(ge=0, le=2**63 - 1)]
