"""Authentication and authorization: sign-in, tokens against forged requests, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgqueue.dashboard.settings import LOOPBACK, Settings

COOKIE: Final = "pgqueue_dashboard"
#: Seconds that a sign-in lasts.
SIGNED_IN: Final = 12 * 3600
#: Failed sign-ins in a minute, from an address or to an account, after which each further one has to pause.
FREE_FAILURES: Final = 5
#: Seconds that a sign-in pauses at most.
LONGEST_PAUSE: Final = 8.0
#: Sign-ins from one address that wait at the same time; the others are refused.
LONGEST_LINE: Final = 10

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SignInNeeded(Exception):
    """The request is not signed in."""


class ForgedRequest(Exception):
    """The request does not carry the token of the page that it claims to come from."""


class TooManyWaiting(Exception):
    """Too many sign-ins from one address wait already."""


@dataclass
class Throttle:
    """Failed sign-ins of the last minute, by address and by account."""

    _failures: deque[tuple[float, str, str]] = field(default_factory=deque)

    def pause(self, address: str, role: str) -> float:
        """Return how many seconds a sign-in has to pause: the more failures before, the longer."""
        minute_ago = time.monotonic() - 60
        while self._failures and self._failures[0][0] < minute_ago:
            self._failures.popleft()
        from_here = sum(failed == address for _, failed, _ in self._failures)
        to_account = sum(failed == role for _, _, failed in self._failures)
        excess = max(from_here, to_account) - FREE_FAILURES
        return 0.0 if excess < 0 else min(2.0 ** min(excess, 10), LONGEST_PAUSE)

    def record(self, address: str, role: str) -> None:
        """Record a failure."""
        self._failures.append((time.monotonic(), address, role))


@dataclass
class Lines:
    """The sign-ins that wait, one line for each address: no address waits for those of others."""

    _lines: dict[str, tuple[asyncio.Lock, list[None]]] = field(default_factory=dict)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for those before from the same address. Raises TooManyWaiting when there are ten of them."""
        lock, waiting = self._lines.setdefault(address, (asyncio.Lock(), []))
        if len(waiting) > LONGEST_LINE:
            raise TooManyWaiting
        waiting.append(None)
        try:
            async with lock:
                yield
        finally:
            waiting.pop()
            if not waiting:
                del self._lines[address]


class Gate:
    """Identifies the user: by sign-in, by the header of a proxy, or, where neither is required, anyone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = secrets.token_bytes(32)
        self._signed_in: dict[str, tuple[str, float]] = {}
        self._throttle = Throttle()
        self._lines = Lines()
        self._one_at_a_time = asyncio.Lock()
        self._hasher = PasswordHasher()
        self._unknown = self._hasher.hash(secrets.token_hex())
        #: How a sign-in pauses.
        self.sleep = asyncio.sleep

    def role(self, request: Request) -> str | None:
        """The user's database role; None where no sign-in is needed. Raises SignInNeeded when one is."""
        header = self._settings.proxy_header
        if header is not None and _address(request) in self._settings.trusted_proxies and header in request.headers:
            return request.headers[header]
        if self._settings.is_open:
            return None
        role, until = self._signed_in.get(_digest(given_cookie(request) or ""), ("", 0.0))
        if until < time.monotonic():
            raise SignInNeeded
        return role

    async def sign_in(self, request: Request, role: str, password: str) -> str | None:
        """Check a password; return the value of the cookie, or None when role or password are wrong.

        One password is checked at a time: it takes memory and time, on purpose. An unknown role takes as long. After
        wrong passwords a sign-in pauses, but no user is locked out by those of others.
        """
        address = self.client(request)
        async with self._lines.turn(address):
            await self.sleep(self._throttle.pause(address, role))
            async with self._one_at_a_time:
                is_right = await run_in_threadpool(self._is_right, role, password)
            if not is_right:
                self._throttle.record(address, role)
                return None
        now = time.monotonic()
        self._signed_in = {token: known for token, known in self._signed_in.items() if known[1] > now}
        token = secrets.token_urlsafe(32)
        self._signed_in[_digest(token)] = role, now + SIGNED_IN
        return token

    def _is_right(self, role: str, password: str) -> bool:
        try:
            return self._hasher.verify(self._settings.accounts.get(role, self._unknown), password)
        except (Argon2Error, InvalidHashError):
            return False

    def client(self, request: Request) -> str:
        """The address of a client, behind trusted proxies too; of IPv6 the network, which has one owner."""
        passed = ",".join(request.headers.getlist("X-Forwarded-For")).split(",")
        address = _address(request)
        while address in self._settings.trusted_proxies and passed and passed[-1].strip():
            address = passed.pop().strip()
        try:
            return str(ipaddress.ip_network(f"{address}/64", strict=False)) if ":" in address else address
        except ValueError:
            return address

    def sign_out(self, request: Request) -> None:
        """Forget who is signed in with the cookie of a request."""
        self._signed_in.pop(_digest(given_cookie(request) or ""), None)

    def token(self, request: Request) -> str:
        """The token of a form that proves that it comes from a page of ours."""
        cookie = given_cookie(request) or request.state.cookie
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def check_token(self, request: Request, given: str) -> None:
        """Raise ForgedRequest unless the token is that of the request's cookie."""
        if given_cookie(request) is None or not hmac.compare_digest(self.token(request).encode(), given.encode()):
            raise ForgedRequest


def hash_password(password: str) -> str:
    """The argon2 hash of a password, for the file of accounts."""
    return PasswordHasher().hash(password)


def given_cookie(request: Request) -> str | None:
    """The value of our cookie. Over HTTPS only one that this host has set there counts."""
    return request.cookies.get(_cookie(request))


def set_cookie(request: Request, response: Response, value: str) -> None:
    """Set the cookie, for this site and not for scripts; over HTTPS only, when the request came so."""
    response.set_cookie(_cookie(request), value, httponly=True, samesite="lax", secure=_is_secure(request))


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


def _is_secure(request: Request) -> bool:
    return "https" in {request.url.scheme, request.headers.get("X-Forwarded-Proto")}


def _cookie(request: Request) -> str:
    return f"__Host-{COOKIE}" if _is_secure(request) else COOKIE  # a browser refuses the prefix without Secure


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
