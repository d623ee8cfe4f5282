"""The content of the pages as JSON, for programs, described at ``/api/openapi.json``. Durations are in seconds.

A page calls the function of its path here. The API leaves out the keys that its models lack.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel

from pgqueue.dashboard import actions, queries
from pgqueue.dashboard.access import Asking
from pgqueue.dashboard.queries import Order, ScheduleState, Span, State

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
Sequence = Annotated[int, Query(ge=0, le=2**63 - 1)]


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
    token = request.app.state.gate.token(request)
    return Session(role=asking.role, is_writable=asking.is_writable, token=token)


@router.get("/queues", response_model=Queues)
def queues(
    asking: Asking,
    q: Annotated[str, Query(description="Text in the names.")] = "",
    order: Order = "name",
    after: After = "",
) -> dict[str, Any]:
    """All queues with their figures, fifty at a time; where `is_exact` is false, counts are estimates."""
    found = asking.figures()
    page = queries.page_of(found.queues, search=q, order=order, after=after)
    shown = {"q": q, "order": order, "after": after, "totals": found.totals}
    return {**page, "taken_at": found.taken_at, **shown}


@router.get("/queue")
def queue(asking: Asking, name: str) -> dict[str, Any]:
    """One queue: its counts and settings, and the last twenty batches at whose end a message is sent to it."""
    with asking.transaction() as rows:
        settings = queries.settings(rows, name)
        groups = queries.groups(rows, name) if settings["fair"] else []
        batches = queries.batches(rows, name)
    counts, taken_at = asking.counts(name)
    return {"settings": settings, "groups": groups, "batches": batches, "counts": counts, "taken_at": taken_at}


@router.get("/samples")
def samples(asking: Asking, queue: str, span: Span = "hour") -> list[dict[str, Any]]:
    """The samples of a queue, oldest first; `at` is in seconds since 1970."""
    with asking.transaction() as rows:
        return queries.samples(rows, queue, span)


@router.get("/messages", response_model=Messages)
def messages(
    asking: Asking,
    queue: str,
    state: State | None = None,
    after: Sequence = 0,
    message_id: str | None = None,
    correlation_id: str | None = None,
    subject: str | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """Messages of a queue by number, fifty at a time; with `is_cut` the search goes on after `next`."""
    filters = {"message_id": message_id, "correlation_id": correlation_id, "subject": subject, "reason": reason}
    with asking.transaction() as rows:
        given = {name: value or None for name, value in filters.items()}  # a form sends those that are empty, too
        page = queries.messages(rows, queue, after=after, state=state, **given)
    return {**page, "state": state, "after": after, "filters": filters}


@router.get("/message")
def message(asking: Asking, queue: str, number: Sequence, dead: bool = False) -> dict[str, Any]:
    """One message whole; its `body` is the text of its JSON, `binary_body` is hexadecimal."""
    with asking.transaction() as rows:
        return queries.message(rows, queue, number, is_dead=dead)


@router.get("/topics", response_model=Topics)
def topics(asking: Asking, after: After = "") -> dict[str, Any]:
    """Topics by name, fifty at a time, with sums over subscriptions; counts are null for who may not monitor."""
    found = asking.figures_if_allowed()
    with asking.transaction() as rows:
        page = queries.topics(rows, found, after)
    return {**page, "after": after, "taken_at": found and found.taken_at}


@router.get("/subscriptions", response_model=Subscriptions)
def subscriptions(asking: Asking, topic: str, after: After = "") -> dict[str, Any]:
    """Subscriptions of a topic by name, fifty at a time; without a filter every message matches."""
    found = asking.figures_if_allowed()
    with asking.transaction() as rows:
        page = queries.subscriptions(rows, topic, found, after)
    return {**page, "after": after, "taken_at": found and found.taken_at}


@router.get("/schedules", response_model=Schedules)
def schedules(asking: Asking, state: ScheduleState | None = None, after: After = "") -> dict[str, Any]:
    """Schedules by name, fifty at a time; `late_by` is how long ago a late one was due, `last_error` why one fails."""
    with asking.transaction() as rows:
        page = queries.schedules(rows, state, after)
        return {**page, "state": state, "after": after, "taken_at": rows.value("select pgqueue.clock()")}


@router.get("/workers")
def workers(asking: Asking) -> list[dict[str, Any]]:
    """The workers, at most 500, those first that need attention; `not_seen_for` is in seconds."""
    with asking.transaction() as rows:
        queries.may_monitor(rows)
        return queries.workers(rows)


@router.get("/holders")
def holders(asking: Asking) -> list[dict[str, Any]]:
    """The holders of messages by queue, and their expired locks."""
    return list(asking.figures().holders)


@router.get("/audit", response_model=Entries)
def audit(asking: Asking, before: Sequence = queries.LAST) -> dict[str, Any]:
    """The actions of users, the last first, fifty at a time."""
    with asking.transaction() as rows:
        return queries.audit(rows, before)


@router.post("/concerned")
def concerned(asking: Asking, wanted: actions.Request) -> Concerned:
    """How many messages an action would concern now. Nothing is changed."""
    asking.refuse_unless_writable()
    with asking.transaction() as rows:
        queries.settings(rows, wanted.queue)
        return Concerned(messages=actions.concerns(rows, wanted))


@router.post("/actions")
def act(
    request: Request,
    asking: Asking,
    wanted: actions.Request,
    x_csrf_token: Annotated[str, Header(description="The token of /api/session.")] = "",
) -> Concerned:
    """Do something to a queue or its messages, and record it in the audit log."""
    asking.refuse_unless_writable()
    request.app.state.gate.check_token(request, x_csrf_token)
    with asking.transaction(writes=True) as rows:
        return Concerned(messages=actions.perform(rows, wanted))
