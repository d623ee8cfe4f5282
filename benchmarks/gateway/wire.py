"""A client of AMQP that does no more than it must, to see what the gateway itself takes."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any, Self

from pgqueue.gateway.amqp import frames, sections, types
from pgqueue.gateway.amqp.composite import Composite, performative_of
from pgqueue.gateway.amqp.frames import Frame, FrameReader
from pgqueue.gateway.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from pgqueue.gateway.amqp.types import Symbol

BATCH = 0x80013700


class WireClient:
    """A connection with one link."""

    def __init__(self, address: tuple[str, int], key: str, *, sends: bool) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader(2**20)
        self._found: deque[Frame | bytes] = deque()
        self._socket.sendall(frames.HEADERS[frames.SASL])
        self._write(SaslInit(Symbol("PLAIN"), f"\0bench\0{key}".encode()), kind=frames.SASL)
        self.expect(SaslOutcome)
        self._socket.sendall(frames.HEADERS[frames.AMQP])
        self._write(Open("bench", None, 65_536))
        self._write(Begin(None, 0, 2**20, 2**20))
        self._write(Attach("link", 0, not sends, None, None, Source("bench"), Target("bench")))
        self.expect(Attach)
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def expect(self, kind: type[Any]) -> Any:
        """The next performative of a kind."""
        while True:
            while not self._found:
                self._found.extend(self._reader.feed(self._socket.recv(2**18)))
            found = self._found.popleft()
            if isinstance(found, Frame) and found.body:
                performative = performative_of(types.decode(found.body)[0])
                if isinstance(performative, kind):
                    return performative

    def send(self, count: int, raw: bytes, in_flight: int, message_format: int = 0) -> None:
        """Send so many messages, so many of them at a time."""
        settled = 0
        for nth in range(count):
            self._write(Transfer(0, self._sent, b"%d" % nth, message_format, False, False), raw)
            self._sent += 1
            while nth + 1 - settled >= in_flight:
                settled += self._settled()
        while settled < count:
            settled += self._settled()

    def _settled(self) -> int:
        disposition = self.expect(Disposition)
        return int((disposition.last or disposition.first) - disposition.first + 1)

    def receive(self, count: int, prefetch: int) -> None:
        """Receive so many messages and complete each, with so many prefetched."""
        credit = 0
        for nth in range(count):
            if credit <= prefetch // 2:
                self._write(Flow(nth, 2**20, 0, 2**20, 0, nth, prefetch))
                credit = prefetch
            transfer = self.expect(Transfer)
            credit -= 1
            self._write(Disposition(True, transfer.delivery_id, None, True, Accepted()))

    def _write(self, performative: Composite, payload: bytes = b"", kind: int = frames.AMQP) -> None:
        self._socket.sendall(frames.frame(0, performative.encode() + payload, kind))


def message(body: bytes) -> bytes:
    return sections.mark(sections.DATA) + types.binary(body)


def batch(body: bytes, count: int) -> bytes:
    return (sections.mark(sections.DATA) + types.binary(message(body))) * count
