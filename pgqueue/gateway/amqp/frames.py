"""Frames: what travels on a connection. See section 2.3 of the specification."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pgqueue.gateway.amqp.types import DecodeError

AMQP, SASL = 0, 1

#: The headers with which a connection, and the SASL part of it, begin.
HEADERS = {AMQP: b"AMQP\x00\x01\x00\x00", SASL: b"AMQP\x03\x01\x00\x00"}

EMPTY = b"\0\0\0\x08\x02\0\0\0"

#: The least that a peer must be able to receive.
SMALLEST = 512

_HEADER = struct.Struct(">IBBH")


class Frame(NamedTuple):
    """A frame: whether of AMQP or of SASL, its channel, and its body, which is empty to keep a connection alive."""

    kind: int
    channel: int
    body: bytes


def frame(channel: int, body: bytes, kind: int = AMQP) -> bytes:
    """The bytes of a frame."""
    return _HEADER.pack(len(body) + 8, 2, kind, channel) + body


class FrameReader:
    """Cuts what arrives into protocol headers and frames. A frame larger than ``max_frame_size`` is refused."""

    def __init__(self, max_frame_size: int) -> None:
        self._max = max_frame_size
        self._ahead = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame | bytes]:
        """The frames that are whole now; bytes are a header. Raises DecodeError."""
        ahead = self._ahead
        ahead += data
        position = 0
        while len(ahead) - position >= 8:
            if ahead[position : position + 4] == b"AMQP":
                end, found = position + 8, bytes(ahead[position : position + 8])
                position = end
                yield found
                continue
            size, offset, kind, channel = _HEADER.unpack_from(ahead, position)
            if size > self._max or offset < 2 or offset * 4 > size or kind not in HEADERS:
                raise DecodeError("the frame is invalid, or too large")
            if len(ahead) - position < size:
                break
            body = bytes(ahead[position + offset * 4 : position + size])
            position += size
            yield Frame(kind, channel, body)
        del ahead[:position]
