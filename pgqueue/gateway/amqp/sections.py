"""The sections of a message. See section 3.2 of the specification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.types import DecodeError

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)

SYMBOLS = {
    f"amqp:{name}": code
    for code, name in enumerate(
        (
            "header:list", "delivery-annotations:map", "message-annotations:map", "properties:list",
            "application-properties:map", "data:binary", "amqp-sequence:list", "amqp-value:*", "footer:map",
        ),
        HEADER,
    )
}  # fmt: skip

#: The fields of the section of properties, with the types that are no strings.
FIELDS = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip
FIELD_TYPES = {
    "user_id": "binary", "content_type": "symbol", "content_encoding": "symbol", "absolute_expiry_time": "timestamp",
    "creation_time": "timestamp", "group_sequence": "uint",
}  # fmt: skip

BODIES = {DATA, SEQUENCE, VALUE}


def mark(code: int) -> bytes:
    """The bytes with which a section begins."""
    return bytes((0, 0x53, code))


@dataclass
class Sections:
    """Where the sections of a message are in its bytes. The body is one value, or several of data or of sequences."""

    raw: bytes
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    kind: int = DATA
    body: list[tuple[int, int]] = field(default_factory=list)

    def values(self, code: int) -> Any:
        """The value of a section; None if there is none."""
        place = self.places.get(code)
        return None if place is None else types.decode(self.raw, place[0])[0]

    def whole(self, code: int, kind: type) -> Any:
        """The list or map of a section; an empty one if there is none. Raises DecodeError."""
        values = self.values(code)
        if values is not None and not isinstance(values, kind):
            raise DecodeError(f"section {code:#x} of the message is not a {kind.__name__}")
        return kind() if values is None else values

    def data(self) -> list[bytes]:
        """The bytes of each section of data."""
        found = [types.decode(self.raw, begin)[0] for begin, _ in self.body]
        if not all(isinstance(part, bytes) for part in found):
            raise DecodeError("a section of data is not binary")
        return found

    def encoded(self, code: int) -> bytes | None:
        """A section as it came, without its descriptor; None if there is none."""
        place = self.places.get(code)
        return None if place is None else self.raw[place[0] : place[1]]


def sections_of(raw: bytes) -> Sections:
    """Find the sections of a message. Raises DecodeError."""
    found, position = Sections(raw), 0
    while position < len(raw):
        if raw[position] != types.DESCRIBED:
            raise DecodeError(f"no section begins at byte {position} of the message")
        descriptor, begin = types.decode(raw, position + 1)
        code = SYMBOLS.get(descriptor, -1) if isinstance(descriptor, str) else descriptor
        if type(code) is not int:
            raise DecodeError("the descriptor of a section is neither a number nor a symbol")
        position = types.end_of(raw, begin)
        if code in BODIES:
            if found.body and (code != found.kind or code == VALUE):
                raise DecodeError("a message has bodies of several kinds")
            found.kind = code
            found.body.append((begin, position))
        elif HEADER <= code <= FOOTER and code not in found.places:
            found.places[code] = begin, position
        else:
            raise DecodeError(f"a message has no section {descriptor!r}, or has it once")
    return found
