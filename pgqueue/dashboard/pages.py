"""The pages: whole without JavaScript, and kept up to date with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, get_args

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from fastapi.templating import Jinja2Templates
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from pgqueue.dashboard import actions, api, presenting, queries
from pgqueue.dashboard.access import Asking, User
from pgqueue.dashboard.figures import UNASKED
from pgqueue.dashboard.queries import Span
from pgqueue.dashboard.security import set_cookie
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.columns import KEPT_TEXTS

Next = Callable[[Request], Awaitable[Response]]

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")
templates.env.globals.update(
    query=presenting.query,
    states=queries.STATES,
    schedule_states=get_args(queries.ScheduleState),
    spans=tuple(queries.SPANS),
    actions=actions.ACTIONS,
    texts=tuple((column.name, column.name.replace("_", " ").capitalize()) for column in KEPT_TEXTS),
)
for name in ("number", "rate", "duration", "moment", "cut", "details", "readable"):
    templates.env.filters[name] = getattr(presenting, name)

#: Seconds between two looks at whether the figures have changed.
TICK: Final = 2.0


def show(request: Request, template: str, shown: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A page of a template."""
    state = request.app.state
    role = getattr(request.state, "role", None)
    on_all = {"token": state.gate.token(request), "dashboard": state.settings, "path": request.url.path, "role": role}
    return templates.TemplateResponse(request, f"{template}.html", {**on_all, **shown}, status_code=status)


def error(request: Request, status: HTTPStatus, text: str) -> Response:
    """A page that explains the error."""
    return show(request, "error", {"title": status.phrase, "text": text}, status)


def _page(template: str, found: Callable[..., dict[str, Any]]) -> Callable[..., Response]:
    def answer(request: Request, found: dict[str, Any] = Depends(found)) -> Response:  # noqa: B008 - FastAPI reads it
        return show(request, template, found)

    return answer


#: The pages that show what the API has, by the same arguments.
for path, template, found in (
    ("/", "queues", api.queues),
    ("/messages", "messages", api.messages),
    ("/topics", "topics", api.topics),
    ("/schedules", "schedules", api.schedules),
    ("/audit", "audit", api.audit),
):
    router.add_api_route(path, _page(template, found))


@router.get("/queue")
def queue(request: Request, asking: Asking, name: str, span: Span = "hour") -> Response:
    """One queue."""
    samples = api.samples(asking, name, span)
    return show(request, "queue", {**api.queue(asking, name), "name": name, "samples": samples, "span": span})


@router.get("/message")
def message(request: Request, found: Annotated[dict[str, Any], Depends(api.message)]) -> Response:
    """One message whole."""
    return show(request, "message", {"message": found})


@router.get("/topic")
def topic(request: Request, asking: Asking, name: str, after: str = "") -> Response:
    """The subscriptions of a topic."""
    return show(request, "topic", api.subscriptions(asking, name, after))


@router.get("/workers")
def workers(request: Request, asking: Asking) -> Response:
    """The workers, who holds messages, and who is connected."""
    found = asking.figures()
    with asking.transaction() as rows:
        sessions = queries.sessions(rows)
    shown = {"workers": api.workers(asking), "holders": found.holders, "taken_at": found.taken_at}
    return show(request, "workers", {**shown, "sessions": sessions})


@router.get("/confirm")
def confirm(request: Request, asking: Asking) -> Response:
    """Show what an action would do, and ask."""
    wanted = _wanted(asking, request.query_params)
    if "selected" in request.query_params and not wanted.numbers:
        raise InvalidArgumentError("no message is selected: go back and select some")
    concerned = api.concerned(asking, wanted).messages
    back = request.query_params.get("back", "")
    shown = {"wanted": wanted, "concerned": concerned, "back": back, "leave": back if _is_ours(back) else "/"}
    return show(request, "confirm", {**shown, "action": actions.ACTIONS[wanted.action], "most": actions.MOST})


@router.post("/act")
async def act(request: Request, asking: Asking) -> Response:
    """Do it, and go back to where it was asked for."""
    form = await request.form()
    token, wanted = str(form.get("token", "")), _wanted(asking, form)
    done = await run_in_threadpool(api.act, request, asking, wanted, token)
    back = str(form.get("back", ""))
    there = back if _is_ours(back) else "/queue?" + presenting.query(name=wanted.queue)
    joint = "&" if "?" in there else "?"
    return RedirectResponse(there + joint + presenting.query(did=wanted.action, n=done.messages), HTTPStatus.SEE_OTHER)


def _wanted(asking: User, given: Any) -> actions.Request:
    asking.refuse_unless_writable()
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


def _is_ours(path: str) -> bool:
    """Whether a link leads to a page of ours, whatever a browser makes of it."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


@router.get("/sign-in")
def sign_in(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the link
    """The form to sign in."""
    return show(request, "sign_in", {"next": next, "is_wrong": False})


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
        return show(request, "sign_in", {"next": next, "is_wrong": True}, HTTPStatus.UNAUTHORIZED)
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
async def live(request: Request, asking: Asking) -> Response:
    """An event whenever the figures have changed: pages load again what of them shows figures."""

    async def events() -> AsyncIterator[str]:
        last = None
        while not await request.is_disconnected():
            found = await run_in_threadpool(asking.kept.get, UNASKED)
            if last is not None and found.taken_at != last:
                yield f"event: figures\ndata: {found.taken_at.isoformat()}\n\n"
            elif last is None:
                yield "retry: 5000\n\n"
            last = found.taken_at
            await asyncio.sleep(TICK)

    return StreamingResponse(events(), media_type="text/event-stream")
