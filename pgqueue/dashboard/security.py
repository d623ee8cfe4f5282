"""Who may look and who may act: sign-in, tokens against forged requests, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgqueue.dashboard.database import Person
from pgqueue.dashboard.settings import LOOPBACK, Settings

COOKIE: Final = "pgqueue_dashboard"
#: Seconds that a sign-in lasts.
SIGNED_IN: Final = 12 * 3600
#: Failed sign-ins that are allowed in a minute: of one address, and of all.
FAILURES_EACH, FAILURES_ALL = 5, 50

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SignInNeeded(Exception):
    """Nobody is signed in."""


class Forged(Exception):
    """The request does not carry the token of the page that it says it comes from."""


class TooManyFailures(Exception):
    """Wrong passwords came too often."""


@dataclass
class Throttle:
    """Failed sign-ins of the last minute."""

    _failures: deque[tuple[float, str]] = field(default_factory=deque)

    def check(self, address: str) -> None:
        """Raise TooManyFailures when there were too many of them."""
        minute_ago = time.monotonic() - 60
        while self._failures and self._failures[0][0] < minute_ago:
            self._failures.popleft()
        ours = sum(failed == address for _, failed in self._failures)
        if ours >= FAILURES_EACH or len(self._failures) >= FAILURES_ALL:
            raise TooManyFailures

    def record(self, address: str) -> None:
        """Record a failure."""
        self._failures.append((time.monotonic(), address))


class Gate:
    """Tells who asks: by what signed in, by the header of a proxy, or, where neither is asked for, anybody."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = secrets.token_bytes(32)
        self._signed_in: dict[str, tuple[str, float]] = {}
        self._throttle = Throttle()
        self._hasher = PasswordHasher()
        self._unknown = self._hasher.hash(secrets.token_hex())
        self._one_at_a_time = threading.Lock()

    def person(self, request: Request) -> Person:
        """Who asks. Raises SignInNeeded when that is nobody."""
        header = self._settings.proxy_header
        if header is not None and _address(request) in self._settings.trusted_proxies and header in request.headers:
            return Person(request.headers[header])
        if self._settings.is_open:
            return Person()
        role, until = self._signed_in.get(_digest(request.cookies.get(COOKIE, "")), ("", 0.0))
        if until < time.monotonic():
            raise SignInNeeded
        return Person(role)

    def sign_in(self, request: Request, role: str, password: str) -> str | None:
        """Check a password; return the value of the cookie, or None when role or password are wrong.

        One password is checked at a time: it takes memory and time, on purpose. An unknown role takes as long.
        """
        address = _address(request)
        with self._one_at_a_time:
            self._throttle.check(address)
            try:
                self._hasher.verify(self._settings.accounts.get(role, self._unknown), password)
            except (Argon2Error, InvalidHashError):
                self._throttle.record(address)
                return None
        now = time.monotonic()
        self._signed_in = {token: known for token, known in self._signed_in.items() if known[1] > now}
        token = secrets.token_urlsafe(32)
        self._signed_in[_digest(token)] = role, now + SIGNED_IN
        return token

    def sign_out(self, request: Request) -> None:
        """Forget who is signed in with the cookie of a request."""
        self._signed_in.pop(_digest(request.cookies.get(COOKIE, "")), None)

    def token(self, request: Request) -> str:
        """What a form has to carry to prove that it comes from a page of ours."""
        cookie = request.cookies.get(COOKIE) or request.state.cookie
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def check_token(self, request: Request, given: str) -> None:
        """Raise Forged unless the token is that of the request's cookie."""
        if COOKIE not in request.cookies or not hmac.compare_digest(self.token(request).encode(), given.encode()):
            raise Forged


def hash_password(password: str) -> str:
    """The argon2 hash of a password, for the file of accounts."""
    return PasswordHasher().hash(password)


def set_cookie(request: Request, response: Response, value: str) -> None:
    """Set the cookie, for this site and not for scripts; over HTTPS only, when the request came so."""
    is_secure = "https" in {request.url.scheme, request.headers.get("X-Forwarded-Proto")}
    response.set_cookie(COOKIE, value, httponly=True, samesite="lax", secure=is_secure)


class Headers:
    """Adds what protects our pages in a browser to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                is_static = scope["path"].startswith("/static/") and message["status"] == 200
                headers["Cache-Control"] = "max-age=3600" if is_static else "no-store"
            await send(message)

        await self._app(scope, receive, with_headers)


def hosts(settings: Settings) -> list[str]:
    """The names under which an open dashboard answers: a page elsewhere must not reach it under a name of its own."""
    return [*LOOPBACK, "[::1]"] if settings.is_open else ["*"]


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
