"""Connections: signing in, sessions, and keeping alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pgqueue.aio import Session as AcceptedSession
from pgqueue.errors import PGQueueError
from pgqueue.gateway import conditions
from pgqueue.gateway.amqp import frames, types
from pgqueue.gateway.amqp.composite import SENDER, Composite, part_of, performative_of
from pgqueue.gateway.amqp.frames import Frame, FrameReader
from pgqueue.gateway.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Coordinator,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
)
from pgqueue.gateway.amqp.types import DecodeError, Symbol
from pgqueue.gateway.conditions import Refusal, error_of, log
from pgqueue.gateway.entities import CBS, MANAGEMENT, entity_of
from pgqueue.gateway.keys import Grant, granted
from pgqueue.gateway.links import Link, ReplyLink
from pgqueue.gateway.receiving import ReceivingLink
from pgqueue.gateway.requests import RequestLink
from pgqueue.gateway.sending import SendingLink
from pgqueue.gateway.session import Session
from pgqueue.gateway.transactions import CoordinatorLink, Transaction

if TYPE_CHECKING:
    from pgqueue.gateway.gateway import Gateway

#: After so many seconds without a frame a connection is closed; clients get half of it as the limit.
SILENCE = 120.0

#: A client that has not signed in after so many seconds is sent away; until then it may have few links.
PATIENCE = 30.0
LINKS_OF_STRANGERS = 4

#: How many requests of a connection are answered at a time.
REQUESTS = 20

#: The ways to sign in: those of Service Bus. All but PLAIN leave it to tokens.
MECHANISMS = ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")

MAX_SESSIONS = 256


class Wire(Protocol):
    """The bytes of a connection, whatever carries them."""

    def write(self, data: bytes) -> None: ...
    def buffered(self) -> int: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class Connection:
    """A connection of a client. ``peer`` names it in log lines."""

    def __init__(self, gateway: Gateway, wire: Wire, peer: str) -> None:
        self.gateway = gateway
        self.peer = peer
        self.sessions: dict[int, Session] = {}
        self.grants: dict[str, Grant] = {}
        self.transactions: dict[bytes, Transaction] = {}
        self.accepted: dict[tuple[str, str], AcceptedSession] = {}
        self.requests = asyncio.Semaphore(REQUESTS)
        self.max_frame_size = frames.SMALLEST
        #: The bytes of messages that have arrived in part.
        self.unfinished = 0
        self.is_open = False
        self.is_closed = False
        self._wire = wire
        self._reader = FrameReader(gateway.settings.max_frame_size)
        self._is_signed_in = self._waits_for_reader = self._waits_for_room = False
        self._heard = self._began = time.monotonic()
        self._silence = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    # -- from the client -----------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until the gateway has room for what has arrived."""
        self._waits_for_room = True
        try:
            await self.gateway.memory.room()
        finally:
            self._waits_for_room = False

    async def feed(self, data: bytes) -> None:
        """Handle bytes from the client."""
        self._heard = time.monotonic()
        try:
            for found in self._reader.feed(data):
                if not self.is_closed:
                    await self._found(found)
        except DecodeError as error:
            self.fail(Refusal(conditions.DECODING, str(error)))
        except PGQueueError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - the connection ends, and the gateway goes on
            self.log(error, "connection")
            self.fail(error)

    async def _found(self, found: Frame | bytes) -> None:
        if isinstance(found, bytes):
            self._greet(found)
        elif found.kind == frames.SASL:
            await self._sign_in(found)
        elif found.body:
            self._handle(found)

    def _greet(self, header: bytes) -> None:
        if header == frames.HEADERS[frames.SASL] and not self._is_signed_in:
            self._wire.write(header)
            self._sasl(SaslMechanisms([Symbol(name) for name in MECHANISMS]))
        elif header == frames.HEADERS[frames.AMQP]:
            self._wire.write(header)
        else:
            self._wire.write(frames.HEADERS[frames.SASL])
            raise Refusal(conditions.FRAMING, "this is AMQP 1.0, with or without SASL")

    async def _sign_in(self, frame: Frame) -> None:
        init = performative_of(types.decode(frame.body)[0])
        if not isinstance(init, SaslInit):
            raise DecodeError("a client signs in with sasl-init")
        try:
            if init.mechanism == "PLAIN":
                _, name, password = ((init.initial_response or b"") + b"\0\0").decode(errors="replace").split("\0")[:3]
                self.grants[""] = await self.gateway.keys.check_password(name, password)
            elif init.mechanism not in MECHANISMS:
                raise Refusal(conditions.UNAUTHORIZED, f"there is no mechanism {init.mechanism!r}")
        except Refusal as refusal:
            self.log(refusal, "signing in")
            self._sasl(SaslOutcome(1))
            self.close()
        else:
            self._is_signed_in = True
            self._sasl(SaslOutcome(0))

    def _sasl(self, performative: Composite) -> None:
        self._wire.write(frames.frame(0, performative.encode(), frames.SASL))

    def _handle(self, frame: Frame) -> None:
        value, end = types.decode(frame.body)
        performative = performative_of(value)
        if not self.is_open and not isinstance(performative, Open):
            raise Refusal("amqp:illegal-state", "a connection begins with open")
        match performative:
            case Open():
                self._open(performative)
            case Begin():
                self._begin(frame.channel, performative)
            case Close():
                self._end()
                self.write(0, Close())
                self.close()
            case _ if frame.channel in self.sessions:
                try:
                    self.sessions[frame.channel].handle(performative, frame.body[end:])
                except Refusal as refusal:
                    self.fail(refusal)
            case _:
                raise Refusal("amqp:illegal-state", f"no session was begun on channel {frame.channel}")

    def _open(self, opened: Open) -> None:
        if self.is_open:
            raise Refusal("amqp:illegal-state", "the connection is open already")
        self.max_frame_size = max(min(opened.max_frame_size or 2**32 - 1, self.gateway.settings.max_frame_size), 512)
        self._silence = (opened.idle_time_out or 0) / 1000
        self.is_open = True
        product = {Symbol("product"): "pgqueue", Symbol("version"): self.gateway.version}
        size, channels = self.gateway.settings.max_frame_size, MAX_SESSIONS - 1
        self.write(0, Open("pgqueue", None, size, channels, int(SILENCE * 500), properties=product))
        self.spawn(self._keep_alive())

    def _begin(self, channel: int, begin: Begin) -> None:
        if channel in self.sessions or len(self.sessions) >= MAX_SESSIONS:
            raise Refusal(conditions.NOT_ALLOWED, f"channel {channel} is in use, or there are {MAX_SESSIONS} sessions")
        self.sessions[channel] = Session(self, channel, begin)

    # -- links ---------------------------------------------------------------------------------------------------------

    def link_for(self, session: Session, attach: Attach) -> Link:
        """The link that a client attaches. Raises Refusal and DecodeError."""
        links = sum(len(one.links) for one in self.sessions.values())
        if not self.grants and links >= LINKS_OF_STRANGERS:
            raise Refusal(conditions.UNAUTHORIZED, "the client has not signed in: put a token to $cbs")
        source, target = part_of(attach.source), part_of(attach.target)
        if isinstance(target, Coordinator):
            return CoordinatorLink(session, attach, "")
        if not isinstance(source, Source | None) or not isinstance(target, Target | None):
            raise DecodeError("a link has a source and a target")
        near, far = (target, source) if attach.role is SENDER else (source, target)
        address = entity_of(str(getattr(near, "address", None) or ""))
        is_for_requests = address == CBS or address.endswith(MANAGEMENT)
        if attach.role is SENDER:
            return (RequestLink if is_for_requests else SendingLink)(session, attach, address)
        if is_for_requests:
            return ReplyLink(session, attach, address, str(getattr(far, "address", None) or ""))
        return ReceivingLink(session, attach, address, source)

    def reply_link(self, node: str, name: str | None) -> ReplyLink | None:
        """Where the answer to a request goes: to the link that it names, or to that of the node."""
        links = [link for session in self.sessions.values() for link in session.links.values()]
        found = [link for link in links if isinstance(link, ReplyLink) and link.address == node]
        return next((link for link in found if link.name == name), found[-1] if found else None)

    def grant_for(self, entity: str) -> Grant:
        """The grant that lets the client use an entity. Raises Refusal."""
        return granted(self.grants.values(), entity, self.gateway.keys)

    def check_grants(self) -> None:
        """Detach the links whose tokens have expired, or whose keys were deleted."""
        for session in list(self.sessions.values()):
            for link in list(session.links.values()):
                if link.is_attached and link.entity:
                    try:
                        grant = self.grant_for(link.entity)
                        if link.role_name not in (None, grant.key.role):
                            raise Refusal(conditions.UNAUTHORIZED, "the token was replaced by one of another role")
                    except Refusal as refusal:
                        link.detach(error_of(refusal))

    # -- to the client -------------------------------------------------------------------------------------------------

    def write(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        """Send a performative."""
        self._write(frames.frame(channel, performative.encode() + payload))

    def _write(self, data: bytes) -> None:
        if self.is_closed:
            return
        self._wire.write(data)
        if self.is_congested and not self._waits_for_reader:
            self._waits_for_reader = True
            self.spawn(self._when_read())

    async def _when_read(self) -> None:
        """Go on with all links when the client has read: each may have waited, whichever has sent too much."""
        await self.drain()
        self._waits_for_reader = False
        for session in list(self.sessions.values()):
            session.credited()

    @property
    def is_congested(self) -> bool:
        """Whether the client does not keep up with what is sent."""
        return self._wire.buffered() > self.gateway.settings.max_message_size

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent."""
        await self._wire.drain()

    async def _keep_alive(self) -> None:
        every = min(self._silence / 2 or SILENCE, SILENCE) / 2
        while True:
            await asyncio.sleep(max(every, 0.1))
            if self._waits_for_room and not self.unfinished:  # not for what it has sent in part, which takes room
                self._heard = time.monotonic()
            if time.monotonic() - self._heard > SILENCE:
                self.fail(Refusal(conditions.LIMIT, f"nothing was heard for {SILENCE:.0f} s"))
            if self._silence:
                self._write(frames.EMPTY)

    # -- the end -------------------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for as long as the connection lives."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log(error, "connection")
            self.fail(error)

    def log(self, error: BaseException, what: str) -> None:
        """Log what was refused, or has failed."""
        log(error, f"{self.peer}: {what}")

    def fail(self, error: BaseException) -> None:
        """Close the connection because of an error."""
        if not self.is_closed:
            self._end()
            if self.is_open:
                self.write(0, Close(error_of(error if isinstance(error, Exception) else Exception(str(error)))))
            self.close()

    def _end(self) -> None:
        for session in list(self.sessions.values()):
            session.close()
        self.sessions.clear()
        self.transactions.clear()

    def close(self) -> None:
        """Close it at once."""
        if self.is_closed:
            return
        self._end()
        self.is_closed = True
        for task in list(self._tasks):
            task.cancel()
        with suppress(OSError, RuntimeError):
            self._wire.close()

    def is_late(self) -> bool:
        """Whether the client has taken too long to open the connection and to sign in."""
        return not self.grants and time.monotonic() - self._began > PATIENCE
