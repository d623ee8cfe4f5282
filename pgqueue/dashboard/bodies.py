"""How much of a request is read: little before a sign-in."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgqueue.dashboard.security import Gate, SignInNeeded

#: The most bytes that a request has: a message of a million characters, as a form or as JSON; and a sign-in.
LARGEST, LARGEST_UNKNOWN = 8 * 1024**2, 64 * 1024

Refuse = Callable[[Request, HTTPStatus, str], Response]


class Bodies:
    """Refuses larger requests, by what they declare and by what comes, before anything else reads them."""

    def __init__(self, app: ASGIApp, gate: Gate, refuse: Refuse) -> None:
        self._app = app
        self._gate = gate
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        most = self._most(request)
        try:
            body = None if _declared(request) > most else await _read(receive, most)
        except ClientDisconnect:
            await self._refuse(request, HTTPStatus.BAD_REQUEST, "The request was broken off.")(scope, receive, send)
            return
        if body is None:
            text = f"The request is too large: at most {most:,} bytes are read."
            await self._refuse(request, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)

    def _most(self, request: Request) -> int:
        try:
            self._gate.role(request)
        except SignInNeeded:
            return LARGEST_UNKNOWN
        return LARGEST


def _declared(request: Request) -> int:
    length = request.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


async def _read(receive: Receive, most: int) -> bytes | None:
    """The body; None when it is larger. Raises ClientDisconnect: what has arrived of a form means something else."""
    body = bytearray()
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        is_more = message.get("more_body", False)
        if len(body) > most:
            return None
    return bytes(body)
