from __future__ import annotations

import json
import math
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError, PGQueueError
from pgqueue.model.encoding import JSON, TEXT_FIELDS, encode, to_json
from pgqueue.model.properties import decode_properties

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda values: st.lists(values) | st.dictionaries(text, values),
    max_leaves=20,
)

HALF_A_PAIR = "\ud800"


def with_field(field: str, value: Any) -> Message:
    fields: dict[str, Any] = {field: value}
    return Message(None, **fields)


@given(json_values)
def test_json_values_are_stored_as_they_are(body: Any) -> None:
    encoded = encode(Message(body))
    assert encoded.binary_body is None
    assert encoded.body is not None
    assert json.loads(encoded.body) == body


@given(json_values | st.dictionaries(st.none() | st.booleans() | numbers, numbers))
def test_json_is_encoded_as_the_standard_library_does(value: Any) -> None:
    assert to_json("body", value) == JSON.encode(value)


@given(st.binary())
def test_bytes_are_stored_byte_for_byte(body: bytes) -> None:
    for given_as in (body, bytearray(body), memoryview(body)):
        encoded = encode(Message(given_as))
        assert (encoded.body, encoded.binary_body) == (None, body)


@given(st.dictionaries(text, json_values))
def test_application_properties_are_json_too(properties: dict[str, Any]) -> None:
    encoded = encode(Message(None, application_properties=properties))
    assert json.loads(encoded.application_properties or "null") == properties


@given(
    st.recursive(st.just("\0"), lambda values: st.lists(values, min_size=1) | st.dictionaries(text, values, min_size=1))
)
def test_a_nul_is_found_however_deep_it_lies(body: Any) -> None:
    with pytest.raises(MessageNotSerializableError, match="has a NUL character"):
        encode(Message(body))


def test_nothing_and_emptiness_are_distinguished() -> None:
    nothing = encode(Message(None))
    assert (nothing.body, nothing.binary_body, nothing.application_properties) == ("null", None, None)
    assert (encode(Message(b"")).body, encode(Message(b"")).binary_body) == (None, b"")
    assert encode(Message("")).body == '""'
    assert encode(Message({}, application_properties={})).application_properties == "{}"
    for field in TEXT_FIELDS:
        assert getattr(encode(with_field(field, "")), field) == ""


@pytest.mark.parametrize(
    "body", [10**4000, -(2**64), 2**53 + 1, 5e-324, 1.7976931348623157e308, "\u0001\x7f\U0001f600\u2028"]
)
def test_unusual_values_are_kept(body: Any) -> None:
    assert json.loads(encode(Message(body)).body or "") == body


@pytest.mark.parametrize(
    "beside",
    [None, "[{", "]}", "\\", {}, [[{}]] * 500],
    ids=["nothing", "openers", "closers", "a backslash", "empty", "many"],
)
def test_a_body_nested_to_the_limit_is_kept(beside: Any) -> None:
    body = [beside, nested(198)]
    assert json.loads(encode(Message(body)).body or "") == body


def test_text_that_only_looks_like_an_escaped_nul_is_text() -> None:
    assert json.loads(encode(Message({"pattern": "\\u0000"})).body or "") == {"pattern": "\\u0000"}


class Colour(Enum):
    RED = 1


def holding_itself() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    for _ in range(depth):
        outer = [outer]
    return outer


FLAWED: dict[str, tuple[Any, str]] = {
    "an object": (object(), "body is object, which is not JSON"),
    "a set": ({"names": {"a"}}, "body['names'] is set, which is not JSON"),
    "an enum": ([1, Colour.RED], "body[1] is Colour, which is not JSON"),
    "bytes within": ({"a": [b"x"]}, "body['a'][0] is bytes, which is not JSON"),
    "nan": ({"a": [0.0, math.nan]}, "body['a'][1] is nan, which JSON does not have"),
    "infinity": (math.inf, "body is inf, which JSON does not have"),
    "minus infinity": ([-math.inf], "body[0] is -inf, which JSON does not have"),
    "nan as a key": ({math.nan: 1}, "body has the key nan, which JSON does not have"),
    "a NUL": ("a\0b", "body has a NUL character"),
    "a NUL within": ({"a": {"b": ["\0"]}}, "body['a']['b'][0] has a NUL character"),
    "a NUL in a key": ({"a": {"k\0": 1}}, "the key 'k\\x00' of body['a'] has a NUL character"),
    "half a pair": ([HALF_A_PAIR], "body[0] has half of a surrogate pair"),
    "half a pair in a key": ({HALF_A_PAIR: 1}, "the key '\\ud800' of body has half of a surrogate pair"),
    "a tuple as a key": ({(1, 2): 3}, "body has the key (1, 2), and JSON's keys are strings"),
    "itself": (holding_itself(), "nested too deeply, or holds itself"),
    "depth": (nested(100_000), "nested too deeply, or holds itself"),
    "an endless number": (10**5000, "body has more than 4300 digits"),
    "an endless number within": ({"a": [-(10**4300)]}, "body['a'][0] has more than 4300 digits"),
    "one level too deep": (nested(200), "nested too deeply, or holds itself: 200 levels are the most"),
    "one level too deep, beside brackets in text": (['"[', "]}", nested(199)], "nested too deeply"),
    "one level too deep, of both kinds": ({"a": [{"a": nested(197)}, *[{}] * 500]}, "nested too deeply"),
}


@pytest.mark.parametrize(("body", "flaw"), FLAWED.values(), ids=FLAWED)
def test_a_value_that_is_not_json_is_refused_with_the_path_to_it(body: Any, flaw: str) -> None:
    with pytest.raises(MessageNotSerializableError) as refusal:
        encode(Message(body))
    told = str(refusal.value)
    assert flaw in told
    assert told.isprintable(), "an error can be logged and shown as it is"
    assert len(told) < 300


TYPED = st.one_of(
    st.datetimes(timezones=st.none() | st.timezones()).map(lambda moment: moment.replace(fold=0)),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.binary(),
)


@given(st.dictionaries(text, json_values | TYPED))
def test_application_properties_come_back_in_their_types(properties: dict[str, Any]) -> None:
    written = encode(Message(None, application_properties=properties)).application_properties
    assert decode_properties(written) == properties
    for name, value in (decode_properties(written) or {}).items():
        assert type(value) is type(properties[name])


@pytest.mark.parametrize(
    "written",
    [
        {"$uuid": "no uuid"},
        {"$datetime": "yesterday"},
        {"$decimal": "many"},
        {"$decimal": "sNaN"},
        {"$decimal": "Infinity"},
        {"$bytes": "*"},
        {"$uuid": 7},
        {"$other": "x"},
        {"$decimal": "1", "and": "more"},
    ],
)
def test_an_object_that_stands_for_no_value_stays_an_object(written: dict[str, Any]) -> None:
    assert decode_properties(json.dumps({"a": written})) == {"a": written}


def test_any_view_of_bytes_is_a_property() -> None:
    written = encode(Message(None, application_properties={"a": memoryview(b"abcd")[::2]})).application_properties
    assert decode_properties(written) == {"a": b"ac"}


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_decimal_that_is_no_number_is_refused(number: str) -> None:
    with pytest.raises(MessageNotSerializableError, match=r"application_properties\['a'\] is"):
        encode(Message(None, application_properties={"a": Decimal(number)}))


def test_a_flaw_in_the_application_properties_is_found_there() -> None:
    with pytest.raises(MessageNotSerializableError, match=r"application_properties\['a'\] is set"):
        encode(Message(None, application_properties={"a": {1}}))


@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize(
    ("value", "flaw", "error"),
    [
        (7, "must be a str, not int", InvalidArgumentError),
        (b"id", "must be a str, not bytes", InvalidArgumentError),
        ("a\0", "has a NUL character", MessageNotSerializableError),
        (HALF_A_PAIR, "has half of a surrogate pair", MessageNotSerializableError),
    ],
    ids=["a number", "bytes", "a NUL", "half a pair"],
)
def test_a_text_field_that_cannot_be_stored_is_named(field: str, value: Any, flaw: str, error: type[Exception]) -> None:
    with pytest.raises(error) as refusal:
        encode(with_field(field, value))
    assert f"{field} {flaw}" in str(refusal.value)


@pytest.mark.parametrize("priority", [True, 1.0, "1", None, 101, -101, 2**40])
def test_a_priority_is_a_whole_number_from_minus_100_to_100(priority: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="priority must be a whole number from -100 to 100"):
        encode(Message(None, priority=priority))


@pytest.mark.parametrize("properties", [[("a", 1)], "a", 7])
def test_application_properties_are_a_mapping(properties: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="application_properties must be a mapping"):
        encode(Message(None, application_properties=properties))


@pytest.mark.parametrize("message", [{"id": 7}, "text", None])
def test_only_a_message_can_be_sent(message: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="only a Message can be sent"):
        encode(message)


def test_other_json_is_refused_under_its_own_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"user_metadata\['since'\] is set"):
        to_json("user_metadata", {"since": {1}}, InvalidArgumentError)


def test_a_refusal_is_a_value_error_that_will_not_pass() -> None:
    with pytest.raises(ValueError, match="NUL") as refusal:
        encode(Message("\0"))
    assert isinstance(refusal.value, PGQueueError)
    assert refusal.value.is_transient is False
