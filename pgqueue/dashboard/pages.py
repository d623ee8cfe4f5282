"""The pages: whole without JavaScript, and kept up to date with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from fastapi.templating import Jinja2Templates
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from pgqueue.dashboard import actions, presenting, queries
from pgqueue.dashboard import figures as kept
from pgqueue.dashboard.access import Asking, Database, Figures, Order, ScheduleState, Sequence, Span, State
from pgqueue.dashboard.security import set_cookie
from pgqueue.errors import AccessDeniedError, InvalidArgumentError
from pgqueue.model.columns import TEXTS

Next = Callable[[Request], Awaitable[Response]]

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")
templates.env.globals.update(
    query=presenting.query,
    states=queries.STATES,
    schedule_states=queries.SCHEDULE_STATES,
    spans=tuple(queries.SPANS),
    actions=actions.ACTIONS,
    texts=tuple((column.name, column.name.replace("_", " ").capitalize()) for column in TEXTS),
)
for name in ("number", "rate", "duration", "moment", "cut", "details", "readable"):
    templates.env.filters[name] = getattr(presenting, name)

#: Seconds between two looks at whether the figures have changed.
TICK: Final = 2.0


def show(request: Request, template: str, status: HTTPStatus = HTTPStatus.OK, **shown: Any) -> Response:
    """A page of a template."""
    state = request.app.state
    shown |= {"token": state.gate.token(request), "settings": state.settings, "path": request.url.path}
    return templates.TemplateResponse(request, f"{template}.html", shown, status_code=status)


def error(request: Request, status: HTTPStatus, text: str) -> Response:
    """A page that explains the error."""
    return show(request, "error", status, title=status.phrase, text=text)


@router.get("/")
def queues(
    request: Request,
    asking: Asking,
    database: Database,
    figures: Figures,
    q: str = "",
    order: Order = "name",
    after: str = "",
) -> Response:
    """All queues."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
    found = figures.get()
    page = queries.page_of(found.queues, search=q, order=order, after=after)
    totals = {
        name: sum(queue[name] for queue in found.queues)
        for name in ("ready", "locked", "scheduled", "dead_letters", "expired_locks")
    }
    is_exact = all(queue["is_exact"] for queue in found.queues)
    return show(
        request,
        "queues",
        **page,
        q=q,
        order=order,
        after=after,
        totals=totals,
        is_exact=is_exact,
        figures=found,
        asking=asking,
    )


@router.get("/queue")
def queue(
    request: Request,
    asking: Asking,
    database: Database,
    figures: Figures,
    name: str,
    span: Span = "hour",
    did: str = "",
    n: int = 0,
) -> Response:
    """One queue."""
    with database.transaction(asking) as rows:
        settings = queries.settings(rows, name)
        samples = queries.samples(rows, name, span)
    counts, as_of = counts_of(asking, database, figures, name)
    return show(
        request,
        "queue",
        name=name,
        counts=counts,
        as_of=as_of,
        samples=samples,
        queue=settings,
        span=span,
        did=did,
        n=n,
        asking=asking,
    )


def counts_of(asking: Asking, database: Database, figures: Figures, name: str) -> tuple[Mapping[str, Any], Any]:
    """The counts of a queue, and when they were read: from all figures, or its own for who may see no others."""
    found = figures_for(asking, database, figures)
    if found is not None:
        for queue in found.queues:
            if queue["name"] == name:
                return queue, found.taken_at
    with database.transaction(asking) as rows:  # the role may not monitor, or the queue was created since
        return queries.counts(rows, name), rows.value("select pgqueue.clock()")


def figures_for(asking: Asking, database: Database, figures: Figures) -> kept.Figures | None:
    """The figures of all queues; None for who may not see them."""
    try:
        with database.transaction(asking) as rows:
            queries.may_monitor(rows)
    except AccessDeniedError:
        return None
    return figures.get()


@router.get("/messages")
def messages(
    request: Request,
    asking: Asking,
    database: Database,
    queue: str,
    state: State | None = None,
    after: Sequence = 0,
    message_id: str = "",
    correlation_id: str = "",
    subject: str = "",
    reason: str = "",
    did: str = "",
    n: int = 0,
) -> Response:
    """The messages of a queue, by state."""
    filters = {"message_id": message_id, "correlation_id": correlation_id, "subject": subject, "reason": reason}
    with database.transaction(asking) as rows:
        given = {name: value or None for name, value in filters.items()}
        page = queries.messages(rows, queue, after=after, state=state, **given)
    return show(request, "messages", **page, state=state, after=after, filters=filters, did=did, n=n, asking=asking)


@router.get("/message")
def message(
    request: Request,
    asking: Asking,
    database: Database,
    queue: str,
    number: Sequence,
    dead: bool = False,
    did: str = "",
    n: int = 0,
) -> Response:
    """One message whole."""
    with database.transaction(asking) as rows:
        found = queries.message(rows, queue, number, is_dead=dead)
    return show(request, "message", message=found, did=did, n=n, asking=asking)


@router.get("/topics")
def topics(request: Request, asking: Asking, database: Database, figures: Figures, after: str = "") -> Response:
    """The topics that the role may see."""
    found = figures_for(asking, database, figures)
    with database.transaction(asking) as rows:
        page = queries.topics(rows, found, after)
    return show(request, "topics", **page, after=after, figures=found, asking=asking)


@router.get("/topic")
def topic(
    request: Request, asking: Asking, database: Database, figures: Figures, name: str, after: str = ""
) -> Response:
    """The subscriptions of a topic."""
    found = figures_for(asking, database, figures)
    with database.transaction(asking) as rows:
        page = queries.subscriptions(rows, name, found, after)
    return show(request, "topic", **page, after=after, figures=found, asking=asking)


@router.get("/schedules")
def schedules(
    request: Request, asking: Asking, database: Database, state: ScheduleState | None = None, after: str = ""
) -> Response:
    """The schedules that the role may see."""
    with database.transaction(asking) as rows:
        page = queries.schedules(rows, state, after)
        now = rows.value("select pgqueue.clock()")
    return show(request, "schedules", **page, state=state, after=after, now=now, asking=asking)


@router.get("/workers")
def workers(request: Request, asking: Asking, database: Database, figures: Figures) -> Response:
    """The workers, who holds messages, and who is connected."""
    with database.transaction(asking) as rows:
        queries.may_monitor(rows)
        running = queries.workers(rows)
        sessions = queries.sessions(rows)
    return show(request, "workers", workers=running, sessions=sessions, figures=figures.get(), asking=asking)


@router.get("/audit")
def audit(request: Request, asking: Asking, database: Database, before: Sequence = queries.LAST) -> Response:
    """The audit log."""
    with database.transaction(asking) as rows:
        page = queries.audit(rows, before)
    return show(request, "audit", **page, asking=asking)


@router.get("/confirm")
def confirm(request: Request, asking: Asking, database: Database) -> Response:
    """Show what an action would do, and ask."""
    wanted = _wanted(request, request.query_params)
    with database.transaction(asking) as rows:
        queries.settings(rows, wanted.queue)
        concerned = actions.concerns(rows, wanted)
    action = actions.ACTIONS[wanted.action]
    back = request.query_params.get("back", "")
    return show(
        request,
        "confirm",
        wanted=wanted,
        concerned=concerned,
        most=actions.MOST,
        action=action,
        back=back,
        asking=asking,
    )


@router.post("/act")
async def act(request: Request, asking: Asking, database: Database) -> Response:
    """Do it, and go back to where it was asked for."""
    form = await request.form()
    request.app.state.gate.check_token(request, str(form.get("token", "")))
    wanted = _wanted(request, form)
    number = await run_in_threadpool(_perform, database, asking, wanted)
    back = str(form.get("back", ""))
    there = back if _is_ours(back) else "/queue?" + presenting.query(name=wanted.queue)
    joint = "&" if "?" in there else "?"
    return RedirectResponse(there + joint + presenting.query(did=wanted.action, n=number), HTTPStatus.SEE_OTHER)


def _perform(database: Database, asking: Asking, wanted: actions.Request) -> int:
    with database.transaction(asking, writes=True) as rows:
        return actions.perform(rows, wanted)


def _wanted(request: Request, given: Any) -> actions.Request:
    refuse_unless_writable(request)
    try:
        filled = {
            name: value for name, value in given.items() if value != "" and name not in {"numbers", "token", "back"}
        }
        if "at" in filled:
            filled["at"] = f"{filled['at']}+00:00"
        return actions.Request(**filled, numbers=given.getlist("numbers"))
    except ValidationError as error:
        text = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise InvalidArgumentError(text) from None


def refuse_unless_writable(request: Request) -> None:
    """Raise AccessDeniedError when the dashboard was started to be looked at only."""
    if not request.app.state.settings.is_writable:
        raise AccessDeniedError("this dashboard is read-only: start it with `pgqueue dashboard --writable`")


def _is_ours(path: str) -> bool:
    """Whether a link leads to a page of ours, whatever a browser makes of it."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


@router.get("/sign-in")
def sign_in(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the link
    """The form to sign in."""
    return show(request, "sign_in", next=next, is_wrong=False)


@router.post("/sign-in")
async def signed_in(
    request: Request,
    role: Annotated[str, Form()],
    password: Annotated[str, Form()],
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002
) -> Response:
    """Check a password."""
    gate = request.app.state.gate
    gate.check_token(request, token)
    cookie = await gate.sign_in(request, role, password)
    if cookie is None:
        return show(request, "sign_in", HTTPStatus.UNAUTHORIZED, next=next, is_wrong=True)
    response = RedirectResponse(next if _is_ours(next) else "/", HTTPStatus.SEE_OTHER)
    set_cookie(request, response, cookie)
    return response


@router.post("/sign-out")
def sign_out(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """Forget who was signed in."""
    gate = request.app.state.gate
    gate.check_token(request, token)
    gate.sign_out(request)
    return RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)


@router.get("/live")
async def live(request: Request, _: Asking, figures: Figures) -> Response:
    """An event whenever the figures have changed: pages load again what of them shows figures."""

    async def events() -> AsyncIterator[str]:
        last = None
        while not await request.is_disconnected():
            found = await run_in_threadpool(figures.get, kept.UNASKED)
            if last is not None and found.taken_at != last:
                yield f"event: figures\ndata: {found.taken_at.isoformat()}\n\n"
            elif last is None:
                yield "retry: 5000\n\n"
            last = found.taken_at
            await asyncio.sleep(TICK)

    return StreamingResponse(events(), media_type="text/event-stream")
