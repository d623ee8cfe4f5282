"""A client of AMQP 1.0 that sends the frames of a test, and shows those of the gateway."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from base64 import b64encode
from collections import deque
from typing import Any, Self, TypeVar
from urllib.parse import quote

from pgqueue.gateway.amqp import frames, sections, types
from pgqueue.gateway.amqp.composite import Composite, performative_of
from pgqueue.gateway.amqp.frames import Frame, FrameReader
from pgqueue.gateway.amqp.performatives import (
    Attach,
    Begin,
    Coordinator,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from pgqueue.gateway.amqp.types import Symbol

P = TypeVar("P")

PATIENCE = 30


def token(address: str, key: str, value: str, expires: float | None = None) -> str:
    """A shared access signature."""
    resource, until = quote(address, safe=""), int(time.time() + 600 if expires is None else expires)
    signature = b64encode(hmac.digest(value.encode(), f"{resource}\n{until}".encode(), hashlib.sha256))
    return f"SharedAccessSignature sr={resource}&sig={quote(signature, safe='')}&se={until}&skn={key}"


class RawClient:
    """A connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=PATIENCE)
        self._reader = FrameReader(2**20)
        self._found: deque[Frame | bytes] = deque()
        self._handles = 0
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # -- frames --------------------------------------------------------------------------------------------------------

    def write(self, performative: Composite, payload: bytes = b"", channel: int = 0, kind: int = frames.AMQP) -> None:
        self.socket.sendall(frames.frame(channel, performative.encode() + payload, kind))

    def next(self) -> tuple[Any, bytes]:
        """The next performative, and its payload; a header is bytes, the end of the connection None."""
        while True:
            while not self._found:
                data = self.socket.recv(65_536)
                if not data:
                    return None, b""
                self._found.extend(self._reader.feed(data))
            found = self._found.popleft()
            if isinstance(found, bytes):
                return found, b""
            if found.body:
                value, end = types.decode(found.body)
                return performative_of(value), found.body[end:]

    def expect(self, kind: type[P]) -> P:
        """The next performative of a kind; others before it are passed over."""
        while True:
            found, _ = self.next()
            if isinstance(found, kind):
                return found
            assert found is not None, f"the connection ended before a {kind.__name__}"

    # -- the usual beginning -------------------------------------------------------------------------------------------

    def sign_in(self, name: str = "", password: str = "") -> int:
        """By PLAIN with a name, otherwise as nobody; returns the code of the outcome."""
        self.socket.sendall(frames.HEADERS[frames.SASL])
        self.expect(SaslMechanisms)
        response = f"\0{name}\0{password}".encode() if name else None
        self.write(SaslInit(Symbol("PLAIN" if name else "ANONYMOUS"), response), kind=frames.SASL)
        code: int = self.expect(SaslOutcome).code
        return code

    def open(self, **fields: Any) -> Open:
        """Open the connection, and begin a session."""
        self.socket.sendall(frames.HEADERS[frames.AMQP])
        self.write(Open("raw", **{"max_frame_size": 65_536, **fields}))
        opened = self.expect(Open)
        self.write(Begin(None, 0, 10_000, 10_000))
        self.expect(Begin)
        return opened

    def sender(self, address: str | None, **fields: Any) -> int:
        """Attach a link to send on; returns its handle."""
        target = Coordinator() if address is None else Target(address)
        return self._attach(role=False, source=Source(), target=target, **fields)

    def receiver(self, address: str, *, credit: int = 0, **fields: Any) -> int:
        """Attach a link to receive on; returns its handle."""
        handle = self._attach(
            role=True, source=fields.pop("source", Source(address)), target=Target(f"reply {self._handles}"), **fields
        )
        if credit:
            self.write(Flow(0, 10_000, 0, 10_000, handle, 0, credit))
        return handle

    def _attach(self, *, role: bool, **fields: Any) -> int:
        handle, self._handles = self._handles, self._handles + 1
        self.write(Attach(f"link {handle}", handle, role, **fields))
        attached = self.expect(Attach)
        assert attached.handle == handle
        return handle

    def send(self, handle: int, raw: bytes, *, state: Any = None, message_format: int = 0) -> int:
        """Send a message; returns the id of its delivery."""
        delivery_id, self._sent = self._sent, self._sent + 1
        self.write(Transfer(handle, delivery_id, b"%d" % delivery_id, message_format, False, False, state=state), raw)
        return delivery_id

    def outcome(self) -> Any:
        """The outcome of a delivery."""
        disposition = self.expect(Disposition)
        return performative_of(disposition.state)

    def receive(self) -> tuple[Transfer, bytes]:
        """A message, put together again."""
        first, payload = None, b""
        while True:
            found, part = self.next()
            assert found is not None, "the connection ended"
            if isinstance(found, Transfer):
                first, payload = first or found, payload + part
                if not found.more:
                    return first, payload

    def request(self, node: str, operation: str, body: Any, **properties: Any) -> dict[str, Any]:
        """Send a request, and return the properties of its answer, with its body."""
        reply = self.receiver(node, credit=1)
        handle = self.sender(node)
        self.send(
            handle, message(value=body, message_id="1", reply_to=f"reply {reply}", operation=operation, **properties)
        )
        _, raw = self.receive()
        found = sections.sections_of(raw)
        return {**found.values(sections.APPLICATION_PROPERTIES), "body": types.decode(raw, found.body[0][0])[0]}

    def put_token(self, address: str, key: str, value: str, expires: float | None = None) -> int:
        """Put a token; returns the code of the answer."""
        signed = token(address, key, value, expires)
        answer = self.request("$cbs", "put-token", signed, type="servicebus.windows.net:sastoken", name=address)
        return int(answer["status-code"])


def message(
    *,
    data: bytes | None = None,
    value: Any = ...,
    message_id: Any = None,
    reply_to: str | None = None,
    **properties: Any,
) -> bytes:
    """The bytes of a message."""
    parts = [sections.mark(sections.PROPERTIES) + types.encode([message_id, None, None, None, reply_to])]
    if properties:
        parts.append(sections.mark(sections.APPLICATION_PROPERTIES) + types.encode(properties))
    if data is not None:
        parts.append(sections.mark(sections.DATA) + types.binary(data))
    if value is not ...:
        parts.append(sections.mark(sections.VALUE) + types.encode(value))
    return b"".join(parts)
