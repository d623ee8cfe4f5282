"""Encoding of messages for the database; a field that cannot be stored is refused by name."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError, PGQueueError
from pgqueue.model.arguments import duration, moment, shown
from pgqueue.model.body_type import WITHHELD, BodyType
from pgqueue.model.cipher import Cipher
from pgqueue.model.columns import TEXTS
from pgqueue.model.json_text import on_any_stack
from pgqueue.model.message import Message, UniqueScope
from pgqueue.model.properties import as_json

#: Limits of what is sent, whatever the depth of the sender's stack, so that every reader can read it.
DEEPEST = 200
MOST_DIGITS = 4300

ENDLESS = 10**MOST_DIGITS

TEXT_FIELDS = tuple(column.name for column in TEXTS)

UNIQUE_SCOPES = (None, *get_args(UniqueScope))

NESTED = (dict, list, tuple)
BYTES = (bytes, bytearray, memoryview)

NO_BRACKETS = bytes({*range(256)}.difference(b"[]{}"))
NO_STRUCTURE = bytes({*range(256)}.difference(b'[]{}"\\'))

JSON = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _json_encoder() -> Callable[[Any], str]:
    """Replace ``JSON.encode``, which makes a new encoder in C for each value, by one encoder: half the time.

    It raises RecursionError for a value that contains itself.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return JSON.encode
    text = json.encoder.encode_basestring
    chunks = make(None, JSON.default, text, None, JSON.key_separator, JSON.item_separator, False, False, False)
    return lambda value: "".join(chunks(value, 0))


encode_json = _json_encoder()


class EncodedMessage(NamedTuple):
    """A message in the types of the columns; JSON is text."""

    body: str | None
    binary_body: bytes | None
    # generated lines: {from message_id: $key: $encoded = $unset}
    message_id: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    application_properties: str | None = None
    priority: int = 0
    time_to_live: timedelta | None = None
    scheduled_enqueue_time: datetime | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    partition_key: str | None = None
    unique_key: str | None = None
    unique_scope: UniqueScope | None = None
    # end

    @property
    def size(self) -> int:
        """The approximate size of the message."""
        return len(self.body or self.binary_body or "") + len(self.application_properties or "")


#: The values of messages by field; None for a field that no message sets, so that the database reads no array for it.
Columns = dict[str, list[Any] | None]

#: A message of which no field is set.
NOTHING = EncodedMessage(None, None)

_besides_body = attrgetter(*EncodedMessage._fields[2:])
_NOTHING_BESIDES = NOTHING[2:]


def scheduled(message: Message, at: object) -> Message:
    """Return the message with this scheduled time, which must be one."""
    if at is None:
        raise InvalidArgumentError("at must be a datetime with a time zone, not None")
    return replace(message, scheduled_enqueue_time=moment("at", at))


def encode(
    message: Message, trace: Mapping[str, str] | None = None, body_type: BodyType | None = None
) -> EncodedMessage:
    """Encode a message for the database.

    ``trace`` is added to its application properties, unless they already carry a trace. A body of ``body_type`` is
    written as JSON that can be made into one again.

    Raises:
        InvalidArgumentError: a field has the wrong type, or is out of its bounds.
        MessageNotSerializableError: a field is not JSON, or contains a NUL character, NaN, an infinity, or a number or
            a depth beyond what can be read again.
    """
    if not isinstance(message, Message):
        raise InvalidArgumentError(f"only a Message can be sent, not {type(message).__name__}: wrap it in one")
    if trace is None and _is_a_body_alone(message):
        return EncodedMessage(*encode_body(message.body, body_type))
    for field in TEXT_FIELDS:
        if (value := getattr(message, field)) is not None:
            _check_text(field, value)
    _check_priority(message.priority)
    if message.unique_scope not in UNIQUE_SCOPES:
        raise InvalidArgumentError(f"unique_scope must be 'waiting' or 'unsettled', not {shown(message.unique_scope)}")
    moment("scheduled_enqueue_time", message.scheduled_enqueue_time)
    time_to_live = duration("time_to_live", message.time_to_live)
    if time_to_live is not None and time_to_live <= timedelta(0):
        raise InvalidArgumentError(f"time_to_live must be positive, not {time_to_live}")
    body = encode_body(message.body, body_type)
    properties = _properties(message.application_properties, trace)
    encoded = EncodedMessage(*body, *_besides_body(message))
    return encoded if properties is None else encoded._replace(application_properties=properties)


def _is_a_body_alone(message: Message) -> bool:
    """Whether only the body needs to be checked and encoded, the usual case."""
    return type(message.priority) is int and _besides_body(message) == _NOTHING_BESIDES


def are_bodies_alone(messages: Iterable[object]) -> bool:
    """Whether :func:`encode_bodies` encodes these messages."""
    return all(isinstance(message, Message) and _is_a_body_alone(message) for message in messages)


def encode_bodies(messages: Iterable[Message], body_type: BodyType | None = None) -> Columns:
    """Encode messages that are bodies alone. Raises what :func:`encode` raises for a body."""
    return _without_unset(EncodedMessage._fields[:2], (encode_body(message.body, body_type) for message in messages))


def columns(messages: Iterable[EncodedMessage]) -> Columns:
    """The values by field."""
    return _without_unset(EncodedMessage._fields, messages)


def _without_unset(fields: Sequence[str], messages: Iterable[Sequence[Any]]) -> Columns:
    values = zip(fields, NOTHING[: len(fields)], zip(*messages, strict=True), strict=True)
    return {field: None if given.count(unset) == len(given) else list(given) for field, unset, given in values}


def _properties(given: object, trace: Mapping[str, str] | None) -> str | None:
    if given is None:
        return to_json("application_properties", trace) if trace else None
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"application_properties must be a mapping, not {type(given).__name__}")
    properties = dict(given)
    if trace and "traceparent" not in properties:
        properties = {**trace, **properties}
    return to_json("application_properties", as_json(properties))


def to_json(field: str, value: Any, refusal: type[PGQueueError] = MessageNotSerializableError) -> str:
    """Encode as JSON text that PostgreSQL's jsonb accepts as it is, and that every receiver can read."""
    try:
        text = on_any_stack(encode_json, value)
        encoded = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        flaw = next(_flaws(field, value), None)
        raise refusal(flaw or f"{field} is not JSON: {error}") from None
    if _may_be_flawed(text, encoded, value) and (flaw := next(_flaws(field, value), None)):
        raise refusal(flaw)
    return text


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether lists and dictionaries are nested more deeply than this. Not recursive, so any stack will do."""
    inside = [value]
    for _ in range(levels):
        inside = [each for outer in inside for each in _values(outer) if isinstance(each, NESTED)]
        if not inside:
            return False
    return True


def _values(outer: Any) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer if isinstance(outer, NESTED) else ()


def _may_be_flawed(text: str, encoded: bytes, value: Any) -> bool:
    """A quick check: False means that the value has no flaw except those that the encoder refuses."""
    if "\\u0000" in text:
        return True
    if len(text) <= 2 * DEEPEST:
        return False
    if len(text) > MOST_DIGITS and not 0 < sys.get_int_max_str_digits() <= MOST_DIGITS:
        return True
    return not _is_shallow(encoded) and is_nested_deeper(value, DEEPEST)


def _is_shallow(encoded: bytes) -> bool:
    """Whether the brackets of a text prove that it is not nested too deeply; brackets in strings may hide that."""
    if len(encoded.translate(None, NO_BRACKETS)) <= 2 * DEEPEST:
        return True
    nest = encoded.translate(None, NO_STRUCTURE).replace(b'""', b"")
    for _ in range(DEEPEST // 2):  # each pass removes one or two levels
        outer = nest.replace(b"[]", b"").replace(b"{}", b"")
        if outer == nest:
            break
        nest = outer
    return not nest


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{field} must be a str, not {type(value).__name__}")
    for flaw in _text_flaws(field, value):
        raise MessageNotSerializableError(flaw)


def _check_priority(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -100 <= value <= 100:
        raise InvalidArgumentError(f"priority must be a whole number from -100 to 100, not {shown(value)}")


#: Passed instead of a body: the message keeps its body. (None is a body: JSON's null.)
UNCHANGED: Any = object()


def encode_body(
    body: Any, body_type: BodyType | None = None, *, field: str = "body"
) -> tuple[str | None, bytes | None]:
    """Encode a body as JSON text or as bytes; the other is None. An encrypted body is bytes."""
    if body_type is not None:
        if body_type.cipher is not None:
            return None, _encrypt(field, body, body_type, body_type.cipher)
        return _encode_typed(field, body, body_type), None
    if isinstance(body, BYTES):
        return None, bytes(body)
    return to_json(field, body), None


def _encrypt(field: str, body: Any, body_type: BodyType, cipher: Cipher) -> bytes:
    try:
        if body_type.kind is not None:
            return cipher.encrypt(_encode_typed(field, body, body_type))
        return cipher.encrypt(bytes(body) if isinstance(body, BYTES) else to_json(field, body))
    except MessageNotSerializableError:
        refusal = MessageNotSerializableError(f"{field} cannot be stored as JSON of its type{WITHHELD}")
    raise refusal


def _encode_typed(field: str, body: Any, body_type: BodyType) -> str:
    try:
        text = to_json(field, body_type.write(body))
        body_type.make(text)
    except MessageNotSerializableError:
        raise
    except (ValueError, RecursionError) as error:
        raise MessageNotSerializableError(f"{field} is not a {body_type.name}: {error}") from error
    return text


def _text_flaws(path: str, text: str) -> Iterator[str]:
    if "\0" in text:
        yield f"{path} has a NUL character, which PostgreSQL cannot store in text: send bytes instead"
    if any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{path} has half of a surrogate pair, which is no text: send bytes instead"


def _flaws(path: str, value: Any) -> Iterator[str]:
    """Find by path what in a value is not JSON; called only after something was found wrong."""
    ahead = [(path, value, 0)]
    while ahead:
        path, value, depth = ahead.pop()
        match value:
            case None | bool():
                continue
            case str():
                yield from _text_flaws(path, value)
            case int() | float():
                yield from _number_flaws(path, value)
            case list() | tuple() | dict() if depth >= DEEPEST:
                yield f"{path[:80]}… is nested too deeply, or holds itself: {DEEPEST} levels are the most"
            case dict():
                yield from _key_flaws(path, value)
                ahead += [(f"{path}[{shown(key)}]", value[key], depth + 1) for key in reversed(value)]
            case list() | tuple():
                ahead += [(f"{path}[{place}]", value[place], depth + 1) for place in reversed(range(len(value)))]
            case _:
                yield f"{path} is {type(value).__name__}, which is not JSON: convert it, or send bytes"


def _number_flaws(path: str, number: float) -> Iterator[str]:
    if isinstance(number, int):
        if abs(number) >= ENDLESS:
            yield f"{path} has more than {MOST_DIGITS} digits, which Python does not read: send a string"
    elif not math.isfinite(number):
        yield f"{path} is {number}, which JSON does not have: send null or a string"


def _key_flaws(path: str, mapping: Mapping[Any, Any]) -> Iterator[str]:
    for key in mapping:
        if isinstance(key, str):
            yield from _text_flaws(f"the key {shown(key)} of {path}", key)
        elif isinstance(key, float) and not math.isfinite(key):
            yield f"{path} has the key {key}, which JSON does not have"
        elif not isinstance(key, int | float | None):
            yield f"{path} has the key {shown(key)}, and JSON's keys are strings"
