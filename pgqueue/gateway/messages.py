"""Messages between AMQP and queues.

The fields that a message of a queue has are set, as Python and SQL know them. Everything else, such as the width of an
integer, is in the application property :data:`KEPT`, and goes out as it came in.
"""

from __future__ import annotations

import json
import logging
import struct
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pgqueue import Message, PeekedMessage
from pgqueue.gateway.amqp import sections as parts
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.sections import Sections, sections_of
from pgqueue.gateway.amqp.types import DecodeError, Encoded, Symbol, Timestamp

logger = logging.getLogger("pgqueue.gateway")

#: The application property with what queues have no field for. Clients of the gateway do not see it.
KEPT = "x-opt-amqp"

SCHEDULED, PARTITION_KEY = "x-opt-scheduled-enqueue-time", "x-opt-partition-key"
ENQUEUED, SEQUENCE_NUMBER, STATE = "x-opt-enqueued-time", "x-opt-sequence-number", "x-opt-message-state"
LOCKED_UNTIL, DEAD_LETTER_SOURCE, LOCK_TOKEN = "x-opt-locked-until", "x-opt-deadletter-source", "x-opt-lock-token"
REASON, DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"

#: States of messages; one that is active has none.
DEFERRED, WAITS_FOR_ITS_TIME = 1, 2

#: The format of a message that is a batch: each of its sections of data is a message.
BATCH = 0x80013700

JSON = "application/json"

#: Fields of AMQP and of messages that have the same meaning.
TEXTS = {
    "subject": "subject",
    "to": "to",
    "reply_to": "reply_to",
    "content_type": "content_type",
    "group_id": "session_id",
    "reply_to_group_id": "reply_to_session_id",
}
IDS = ("message_id", "correlation_id")
OTHERS = ("user_id", "content_encoding", "absolute_expiry_time", "creation_time", "group_sequence")

#: Maps of which all is kept where a key is not one of Service Bus.
MAPS = {"annotations": parts.ANNOTATIONS, "delivery-annotations": parts.DELIVERY_ANNOTATIONS}

#: The types that a value of an application property has unless another one is kept: those that come back by themselves.
NATURAL = {"null", "boolean", "double", "string", "binary", "uuid", "timestamp"}
#: Types of numbers and texts; their values are the same in JSON.
KEPT_TYPES = {"ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float", "char", "symbol"}

LARGEST_UINT = 2**32 - 1
LONGEST = timedelta(days=36_500)


def messages_of(raw: bytes, message_format: int, *, json_bodies: bool) -> list[Message]:
    """The message, or the messages of a batch, that a client has sent. Raises DecodeError."""
    if message_format != BATCH:
        return [message_of(raw, json_bodies=json_bodies)]
    return [message_of(part, json_bodies=json_bodies) for part in sections_of(raw).data()]


def message_of(raw: bytes, *, json_bodies: bool = False) -> Message:
    """The message that a client has sent. Raises DecodeError."""
    sections = sections_of(raw)
    header = sections.whole(parts.HEADER, list)
    kept: dict[str, Any] = _kept_of(*(*header, None, None)[:2])
    given = dict(zip(parts.FIELDS, sections.whole(parts.PROPERTIES, list), strict=False))
    annotations = sections.whole(parts.ANNOTATIONS, dict)
    fields: dict[str, Any] = {ours: _text(given.get(theirs), theirs) for theirs, ours in TEXTS.items()}
    fields |= {name: _identifier(name, given.get(name), kept) for name in IDS}
    if others := {name: _storable(given[name]) for name in OTHERS if given.get(name) is not None}:
        kept["properties"] = others
    for name, code in MAPS.items():
        if any(not str(key).startswith("x-opt-") for key in sections.whole(code, dict)):
            kept[name] = _ascii(sections.encoded(code))
    if footer := sections.encoded(parts.FOOTER):
        kept["footer"] = _ascii(footer)
    if (due := annotations.get(SCHEDULED)) is not None:  # it is shown when the message has become due, too
        kept["scheduled"] = due
    properties = _application_properties(sections, kept)
    body = _body(sections, kept, json_bodies=json_bodies and _is_json(fields["content_type"]))
    if kept:
        properties[KEPT] = kept
    return Message(
        body,
        application_properties=properties or None,
        partition_key=_text(annotations.get(PARTITION_KEY), PARTITION_KEY),
        time_to_live=_time_to_live(header, given),
        scheduled_enqueue_time=_moment(due),
        **fields,
    )


def encoded(message: PeekedMessage, lock_token: UUID | None = None) -> bytes:
    """The bytes of a message for a client, which settles it by the lock token."""
    properties = dict(message.application_properties or {})
    kept = properties.pop(KEPT, None)
    if message.dead_letter_reason is not None:
        properties[REASON] = message.dead_letter_reason
    if message.dead_letter_error_description is not None:
        properties[DESCRIPTION] = message.dead_letter_error_description
    if isinstance(kept, dict):
        try:
            return _encoded(message, lock_token, properties, kept)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error):
            logger.warning("message %s of %s has no valid %s", message.sequence_number, message.queue, KEPT)
    return _encoded(message, lock_token, properties, {})


def _encoded(
    message: PeekedMessage, lock_token: UUID | None, properties: dict[str, Any], kept: dict[str, Any]
) -> bytes:
    locked = {LOCKED_UNTIL: None if lock_token is None else message.locked_until}
    found = [
        parts.mark(parts.HEADER) + _header(message, kept),
        _map("delivery-annotations", {LOCK_TOKEN: lock_token}, kept),
        _map("annotations", _annotations(message, kept) | locked, kept),
        parts.mark(parts.PROPERTIES) + _properties(message, kept),
    ]
    if properties:
        found.append(parts.mark(parts.APPLICATION_PROPERTIES) + _encoded_properties(properties, kept.get("types", {})))
    found.append(_encoded_body(message, kept))
    if "footer" in kept:
        found.append(parts.mark(parts.FOOTER) + b64decode(kept["footer"]))
    return b"".join(found)


# -- from clients ------------------------------------------------------------------------------------------------------


def _kept_of(durable: Any, priority: Any) -> dict[str, Any]:
    """The fields of a header that are kept."""
    is_valid = type(priority) is int and priority in range(256)
    return ({"durable": True} if durable is True else {}) | ({"priority": priority} if is_valid else {})


def _text(value: Any, name: str) -> str | None:
    """A text. An SDK that sends a message again that it has received sends the bytes of texts."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    if value is not None and not isinstance(value, str):
        raise DecodeError(f"{name} is {type(value).__name__}, and not a text")
    return None if value is None else str(value)


def _identifier(name: str, value: Any, kept: dict[str, Any]) -> str | None:
    """An id as text; AMQP has ids of four types."""
    match value:
        case None | str():
            return _text(value, name)
        case UUID():
            kept[name] = "uuid"
            return str(value)
        case bytes():
            kept[name] = "binary"
            return _ascii(value)
        case int() if type(value) is int and value >= 0:
            kept[name] = "ulong"
            return str(value)
    raise DecodeError(f"{name} is {type(value).__name__}, and no id")


def _storable(value: Any) -> Any:
    return _ascii(value) if isinstance(value, bytes) else value


def _ascii(data: bytes | None) -> str:
    return b64encode(data or b"").decode()


def _is_json(content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == JSON or kind.endswith("+json")


def _time_to_live(header: list[Any], given: dict[str, Any]) -> timedelta | None:
    milliseconds = header[2] if len(header) > 2 else None
    if type(milliseconds) is not int:
        return None
    created, expires = given.get("creation_time"), given.get("absolute_expiry_time")
    if isinstance(created, int) and isinstance(expires, int) and expires - created > milliseconds:
        milliseconds = expires - created  # the header holds 49 days at the most
    return timedelta(milliseconds=min(max(milliseconds, 1), LONGEST // types.MILLISECOND))


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, int):
        raise DecodeError(f"{SCHEDULED} is {type(value).__name__}, and no timestamp")
    try:
        return Timestamp(value).as_datetime()
    except OverflowError:
        raise DecodeError(f"{SCHEDULED} is in a year beyond 9999") from None


def _application_properties(sections: Sections, kept: dict[str, Any]) -> dict[str, Any]:
    place = sections.places.get(parts.APPLICATION_PROPERTIES)
    if place is None:
        return {}
    raw, properties, kinds = sections.raw, {}, {}
    for key, begin, end in types.entries_of(raw, place[0]):
        if not isinstance(key, str):
            raise DecodeError(f"an application property is named by {type(key).__name__}, and not by a text")
        kind = types.type_at(raw, begin)
        value, kind = _property(types.decode(raw, begin)[0], kind)
        if kind == "encoded":
            value = raw[begin:end]
        if kind not in NATURAL and kind != _natural(value):
            kinds[str(key)] = kind
        properties[str(key)] = value
    properties.pop(KEPT, None)
    if kinds:
        kept["types"] = kinds
    return properties


def _property(value: Any, kind: str) -> tuple[Any, str]:
    """A value as queues keep it, and the type to keep beside it."""
    if kind == "timestamp":
        try:
            return value.as_datetime(), kind
        except OverflowError:
            return value, "encoded"
    if not _is_stored(value):
        return value, "encoded"
    if kind in KEPT_TYPES:
        return (str(value) if isinstance(value, Symbol) else value), kind
    return value, kind if kind in NATURAL else "encoded"


def _is_stored(value: Any) -> bool:
    """Whether JSON has the value: PostgreSQL's text has no NUL, and its numbers are finite."""
    if isinstance(value, str):
        return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, float) or value - value == 0


def _natural(value: Any) -> str:
    """The type of an integer that comes from a queue."""
    if type(value) is int:
        return "int" if -types.LARGEST_INT - 1 <= value <= types.LARGEST_INT else "long"
    return ""


def _body(sections: Sections, kept: dict[str, Any], *, json_bodies: bool) -> Any:
    if sections.kind == parts.DATA:
        pieces = sections.data()
        if len(pieces) != 1:
            kept["data"] = [len(piece) for piece in pieces]
        body = b"".join(pieces)
        return _decoded_json(body) if json_bodies and len(pieces) == 1 else body
    if sections.kind == parts.VALUE:
        kept["body"] = "value"
        ((begin, end),) = sections.body
        value, _ = types.decode(sections.raw, begin)
        if value is None or (type(value) in (bool, str) and _is_stored(value)):
            return value
        return sections.raw[begin:end]
    kept["body"] = "sequence"
    kept["data"] = [end - begin for begin, end in sections.body]
    return b"".join(sections.raw[begin:end] for begin, end in sections.body)


def _decoded_json(body: bytes) -> Any:
    """The JSON, if queues can hold it, else the bytes."""
    try:
        value = json.loads(body)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return body
    return body if b"\\u0000" in body or b"\\ud" in body.lower() else value


# -- to clients --------------------------------------------------------------------------------------------------------


def _header(message: PeekedMessage, kept: dict[str, Any]) -> bytes:
    values = [b"\x40", b"\x40", b"\x40", b"\x40", types.uint(max(message.delivery_count - 1, 0))]
    if kept.get("durable"):
        values[0] = b"\x41"
    if "priority" in kept:
        values[1] = types.ubyte(kept["priority"])
    if message.expires_at is not None:
        left = (message.expires_at - message.enqueued_time) // types.MILLISECOND
        values[2] = types.uint(min(max(left, 0), LARGEST_UINT))
    return types.assembled_list(values)


def _annotations(message: PeekedMessage, kept: dict[str, Any]) -> dict[str, Any]:
    due = message.scheduled_enqueue_time
    return {
        SEQUENCE_NUMBER: types.long(message.sequence_number),
        ENQUEUED: message.enqueued_time,
        STATE: DEFERRED if message.is_deferred else WAITS_FOR_ITS_TIME if due is not None else None,
        SCHEDULED: Timestamp(kept["scheduled"]) if due is None and "scheduled" in kept else due,
        PARTITION_KEY: message.partition_key,
        DEAD_LETTER_SOURCE: message.dead_letter_source,
    }


def _map(name: str, values: dict[str, Any], kept: dict[str, Any]) -> bytes:
    """A section with the values that there are, and others that the sender has given."""
    given = b64decode(kept[name]) if name in kept else types.map_({})
    others = {key: Encoded(given[begin:end]) for key, begin, end in types.entries_of(given, 0) if key not in values}
    return parts.mark(MAPS[name]) + types.map_(
        others | {Symbol(key): value for key, value in values.items() if value is not None}
    )


def _properties(message: PeekedMessage, kept: dict[str, Any]) -> bytes:
    values: dict[str, Any] = {theirs: getattr(message, ours) for theirs, ours in TEXTS.items()}
    if values["content_type"] is None and isinstance(message.raw_body, str) and "body" not in kept:
        values["content_type"] = JSON
    for name in IDS:
        values[name] = _encoded_identifier(getattr(message, name), kept.get(name))
    if values["message_id"] is None:  # some SDKs need one
        values["message_id"] = str(message.sequence_number)
    for name, value in kept.get("properties", {}).items():
        values[name] = b64decode(value) if name == "user_id" else value
    encoded_fields = [
        b"\x40" if (value := values.get(name)) is None
        else value if isinstance(value, Encoded)
        else types.ENCODERS[parts.FIELD_TYPES.get(name, "string")](value)
        for name in parts.FIELDS
    ]  # fmt: skip
    while encoded_fields and encoded_fields[-1] == b"\x40":
        encoded_fields.pop()
    return types.assembled_list(encoded_fields)


def _encoded_identifier(text: str | None, kind: str | None) -> Encoded | None:
    if text is None:
        return None
    made: dict[str | None, Any] = {"uuid": UUID, "ulong": int, "binary": b64decode}
    return Encoded(types.ENCODERS[kind or "string"](made.get(kind, str)(text)))


def _encoded_properties(properties: dict[str, Any], kinds: dict[str, str]) -> bytes:
    return types.map_({key: _encoded_property(value, kinds.get(key)) for key, value in properties.items()})


def _encoded_property(value: Any, kind: str | None) -> Encoded:
    if kind == "encoded":
        return Encoded(value)
    if kind in KEPT_TYPES:
        return Encoded(types.ENCODERS[kind](value))
    try:
        return Encoded(types.encode(value)) if not isinstance(value, dict | list) else types.string(json.dumps(value))
    except TypeError:  # a decimal, or a number beyond those of AMQP
        return types.string(str(value))


def _encoded_body(message: PeekedMessage, kept: dict[str, Any]) -> bytes:
    raw = message.raw_body
    if kept.get("body") == "value":
        return parts.mark(parts.VALUE) + (raw if isinstance(raw, bytes) else types.encode(message.body))
    data = raw if isinstance(raw, bytes) else raw.encode()
    lengths = kept.get("data")
    pieces = [data] if lengths is None or sum(lengths) != len(data) else list(_cut(data, lengths))
    if kept.get("body") == "sequence":
        return b"".join(parts.mark(parts.SEQUENCE) + piece for piece in pieces)
    return b"".join(parts.mark(parts.DATA) + types.binary(piece) for piece in pieces)


def _cut(data: bytes, lengths: list[int]) -> Any:
    for length in lengths:
        yield data[:length]
        data = data[length:]


def ticks(moment: datetime) -> int:
    """Hundreds of nanoseconds since the year 1, as .NET counts."""
    return (moment - datetime(1, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 10
