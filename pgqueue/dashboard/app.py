"""The application: its parts put together, and how errors are answered."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

import pgqueue
from pgqueue import errors
from pgqueue.dashboard import api, metrics, pages, presenting
from pgqueue.dashboard.bodies import Bodies
from pgqueue.dashboard.database import Database
from pgqueue.dashboard.figures import KeptFigures, Sampler
from pgqueue.dashboard.security import (
    ForgedRequest,
    Gate,
    Headers,
    SignInNeeded,
    TooManyWaiting,
    given_cookie,
    hosts,
    set_cookie,
)
from pgqueue.dashboard.settings import Settings

STATIC: Final = Path(__file__).parent / "static"

#: The first that fits counts; other errors of the database are ours or the server's.
STATUSES: Final[tuple[tuple[type[Exception], HTTPStatus], ...]] = (
    (errors.AccessDeniedError, HTTPStatus.FORBIDDEN),
    (errors.QueueNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.MessageNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.TopicNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.InvalidArgumentError, HTTPStatus.BAD_REQUEST),
    (errors.SchemaVersionError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.ConnectionLostError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.OperationTimeoutError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.PGQueueError, HTTPStatus.CONFLICT),
)

EXPLAINED: Final[dict[type[Exception], tuple[HTTPStatus, str]]] = {
    ForgedRequest: (HTTPStatus.FORBIDDEN, "The token of the form is missing or old: load the page again."),
    TooManyWaiting: (HTTPStatus.TOO_MANY_REQUESTS, "Too many sign-ins wait already: try again in a minute."),
    RecursionError: (HTTPStatus.UNPROCESSABLE_ENTITY, "Something in it is nested too deeply to be read."),
}


def create_app(settings: Settings) -> FastAPI:
    """Make the application. It connects, and takes samples, from its start to its end."""
    database = Database(settings.dsn, settings.schema)
    sampler = Sampler(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        database.pool.open()
        sampler.start()
        yield
        sampler.stop()
        database.pool.close()

    app = FastAPI(
        title="pgqueue dashboard",
        version=pgqueue.__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.figures = KeptFigures(database)
    app.state.gate = Gate(settings)
    app.include_router(api.router)
    app.include_router(metrics.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _answer_errors(app)
    app.add_middleware(Bodies, gate=app.state.gate, refuse=_refusal)
    _give_cookies(app)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts(settings), www_redirect=False)
    app.add_middleware(Headers)
    return app


def _give_cookies(app: FastAPI) -> None:
    @app.middleware("http")
    async def give(request: Request, answer: pages.Next) -> Response:
        """Set a cookie where there is none, so that forms can carry a token that belongs to it."""
        request.state.cookie = secrets.token_urlsafe(32)
        response = await answer(request)
        if given_cookie(request) is None and "set-cookie" not in response.headers and request.url.path[:5] != "/stat":
            set_cookie(request, response, request.state.cookie)
        return response


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(errors.PGQueueError)
    def refused(request: Request, error: errors.PGQueueError) -> Response:
        status = next(status for kind, status in STATUSES if isinstance(error, kind))
        return _refusal(request, status, _without_statement(str(error)))

    @app.exception_handler(HTTPException)
    def not_served(request: Request, error: HTTPException) -> Response:
        return _refusal(request, HTTPStatus(error.status_code), str(error.detail))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        text = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return _refusal(request, HTTPStatus.UNPROCESSABLE_ENTITY, text)

    def explained(request: Request, error: Exception) -> Response:
        return _refusal(request, *EXPLAINED[type(error)])

    for kind in EXPLAINED:
        app.add_exception_handler(kind, explained)

    @app.exception_handler(SignInNeeded)
    def nobody(request: Request, _: SignInNeeded) -> Response:
        if _is_of_api(request):
            return _refusal(request, HTTPStatus.UNAUTHORIZED, "Sign in first, and send the cookie that it gave you.")
        there = request.url.path if request.method == "GET" else "/"
        return RedirectResponse(
            "/sign-in?" + presenting.query(next=f"{there}?{request.url.query}"), HTTPStatus.SEE_OTHER
        )


def _without_statement(text: str) -> str:
    """The error of PostgreSQL, without the statement in which it found the error."""
    return text.partition("\nLINE ")[0]


def _refusal(request: Request, status: HTTPStatus, text: str) -> Response:
    if _is_of_api(request):
        return JSONResponse({"detail": text}, status)
    return pages.error(request, status, text)


def _is_of_api(request: Request) -> bool:
    return request.url.path.startswith("/api/") or request.url.path == "/metrics"
