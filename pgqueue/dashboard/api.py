"""The same as JSON, for programs; described by OpenAPI at ``/api/openapi.json``. Durations are in seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel

from pgqueue.dashboard import actions, pages, queries
from pgqueue.dashboard.access import Asking, Database, Figures, Order, ScheduleState, Sequence, Span, State

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    for status, meaning in {
        400: "An argument is invalid.",
        401: "The request is not signed in.",
        403: "The database role may not, the dashboard is read-only, or the token is missing.",
        404: "There is no such queue, topic or message.",
        409: "The database refused it now.",
        413: "The request is too large.",
        422: "An argument is of the wrong type.",
        503: "The database does not answer.",
    }.items()
}

router = APIRouter(prefix="/api", responses=REFUSALS)

After = Annotated[str, Query(description="The `next` of the page before.")]


class Refusal(BaseModel):
    """Why something was not done."""

    detail: str


class Session(BaseModel):
    """Who asks."""

    role: str | None
    is_writable: bool
    token: str


class Queues(BaseModel):
    """A page of queues."""

    queues: list[dict[str, Any]]
    found: int
    next: str | None
    taken_at: datetime


class Messages(BaseModel):
    """A page of messages."""

    queue: str
    messages: list[dict[str, Any]]
    next: int | None
    is_cut: bool


class Topics(BaseModel):
    """A page of topics."""

    topics: list[dict[str, Any]]
    next: str | None


class Subscriptions(BaseModel):
    """A page of the subscriptions of a topic."""

    topic: str
    subscriptions: list[dict[str, Any]]
    next: str | None


class Schedules(BaseModel):
    """A page of schedules."""

    schedules: list[dict[str, Any]]
    next: str | None


class Concerned(BaseModel):
    """How many messages an action concerns, or concerned."""

    messages: int


class Entries(BaseModel):
    """A page of the audit log."""

    entries: list[dict[str, Any]]
    next: int | None


@router.get("/session", responses={401: {"model": Refusal}})
def session(request: Request, asking: Asking) -> Session:
    """The user, and the token that actions have to carry in the header X-CSRF-Token, with the cookie of this answer."""
    state = request.app.state
    return Session(role=asking.role, is_writable=state.settings.is_writable, token=state.gate.token(request))


@router.get("/queues")
def queues(
    asking: Asking,
    database: Database,
    figures: Figures,
    q: Annotated[str, Query(description="Text in the names.")] = "",
    order: Order = "name",
    after: After = "",
) -> Queues:
    """All queues with their figures, fifty at a time; where `is_exact` is false, counts are estimates."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
    found = figures.get()
    page = queries.page_of(found.queues, search=q, order=order, after=after)
    return Queues(**page, taken_at=found.taken_at)


@router.get("/queue")
def queue(asking: Asking, database: Database, figures: Figures, name: str) -> dict[str, Any]:
    """One queue: its counts and settings."""
    with database.transaction(asking) as rows:
        settings = queries.settings(rows, name)
    counts, as_of = pages.counts_of(asking, database, figures, name)
    return {"settings": settings, "counts": counts, "taken_at": as_of}


@router.get("/samples")
def samples(asking: Asking, database: Database, queue: str, span: Span = "hour") -> list[dict[str, Any]]:
    """The samples of a queue, oldest first; `at` is in seconds since 1970."""
    with database.transaction(asking) as rows:
        return queries.samples(rows, queue, span)


@router.get("/messages")
def messages(
    asking: Asking,
    database: Database,
    queue: str,
    state: State | None = None,
    after: Sequence = 0,
    message_id: str | None = None,
    correlation_id: str | None = None,
    subject: str | None = None,
    reason: str | None = None,
) -> Messages:
    """Messages of a queue by number, fifty at a time; with `is_cut` the search goes on after `next`."""
    filters = {"message_id": message_id, "correlation_id": correlation_id, "subject": subject, "reason": reason}
    with database.transaction(asking) as rows:
        return Messages(**queries.messages(rows, queue, after=after, state=state, **filters))


@router.get("/message")
def message(asking: Asking, database: Database, queue: str, number: Sequence, dead: bool = False) -> dict[str, Any]:
    """One message whole; its `body` is the text of its JSON, `binary_body` is hexadecimal."""
    with database.transaction(asking) as rows:
        return queries.message(rows, queue, number, is_dead=dead)


@router.get("/topics")
def topics(asking: Asking, database: Database, figures: Figures, after: After = "") -> Topics:
    """Topics by name, fifty at a time, with sums over subscriptions; counts are null for who may not monitor."""
    found = pages.figures_for(asking, database, figures)
    with database.transaction(asking) as rows:
        return Topics(**queries.topics(rows, found, after))


@router.get("/subscriptions")
def subscriptions(asking: Asking, database: Database, figures: Figures, topic: str, after: After = "") -> Subscriptions:
    """Subscriptions of a topic by name, fifty at a time; without a filter every message matches."""
    found = pages.figures_for(asking, database, figures)
    with database.transaction(asking) as rows:
        return Subscriptions(**queries.subscriptions(rows, topic, found, after))


@router.get("/schedules")
def schedules(asking: Asking, database: Database, state: ScheduleState | None = None, after: After = "") -> Schedules:
    """Schedules by name, fifty at a time; `late_by` is how long ago a late one was due, `last_error` why one fails."""
    with database.transaction(asking) as rows:
        return Schedules(**queries.schedules(rows, state, after))


@router.get("/workers")
def workers(asking: Asking, database: Database) -> list[dict[str, Any]]:
    """The workers, at most 500, those first that need attention; `not_seen_for` is in seconds."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
        return queries.workers(rows)


@router.get("/holders")
def holders(asking: Asking, database: Database, figures: Figures) -> list[dict[str, Any]]:
    """The holders of messages by queue, and their expired locks."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
    return list(figures.get().holders)


@router.get("/audit")
def audit(asking: Asking, database: Database, before: Sequence = queries.LAST) -> Entries:
    """The actions of users, the last first, fifty at a time."""
    with database.transaction(asking) as rows:
        return Entries(**queries.audit(rows, before))


@router.post("/concerned")
def concerned(request: Request, asking: Asking, database: Database, wanted: actions.Request) -> Concerned:
    """How many messages an action would concern now. Nothing is changed."""
    pages.refuse_unless_writable(request)
    with database.transaction(asking) as rows:
        queries.settings(rows, wanted.queue)
        return Concerned(messages=actions.concerns(rows, wanted))


@router.post("/actions")
def act(
    request: Request,
    asking: Asking,
    database: Database,
    wanted: actions.Request,
    x_csrf_token: Annotated[str, Header(description="The token of /api/session.")] = "",
) -> Concerned:
    """Do something to a queue or its messages, and record it in the audit log."""
    pages.refuse_unless_writable(request)
    request.app.state.gate.check_token(request, x_csrf_token)
    with database.transaction(asking, writes=True) as rows:
        return Concerned(messages=actions.perform(rows, wanted))
