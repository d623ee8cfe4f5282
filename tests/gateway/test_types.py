"""The type system of AMQP: what is encoded is decoded as it was, and other bytes are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import performative_of
from pgqueue.gateway.amqp.frames import AMQP, Frame, FrameReader, frame
from pgqueue.gateway.amqp.performatives import Attach, Disposition, Rejected, Source
from pgqueue.gateway.amqp.sections import sections_of
from pgqueue.gateway.amqp.types import DecodeError, Described, Symbol, Timestamp

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.uuids()
    | st.integers(-(2**63), 2**63 - 1).map(Timestamp)
    | st.text(st.characters(max_codepoint=127)).map(Symbol)
)
KEYS = st.text() | st.integers(0, 2**32)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.builds(Described, st.integers(0, 99), inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_decoded_as_it_was_encoded(value: Any) -> None:
    encoded = types.encode(value)
    found = types.decode_whole(encoded)
    assert found == value
    assert type(found) is type(value)
    assert types.end_of(encoded, 0) == len(encoded)
    assert types.end_of(b"\x40" + encoded + b"\x40", 1) == len(encoded) + 1


@given(VALUES, st.data())
def test_a_value_that_is_cut_off_is_refused(value: Any, data: st.DataObject) -> None:
    encoded = types.encode(value)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(DecodeError):
        types.decode_whole(cut)
    with pytest.raises(DecodeError):
        types.end_of(cut, 0)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for read in (types.decode, types.end_of, types.entries_of, sections_at):
        try:
            read(data, 0)
        except DecodeError:
            continue


def sections_at(data: bytes, _: int) -> Any:
    return sections_of(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 5000,  # descriptors of descriptors
        b"\xc0\x04\x02" * 2000,  # lists in lists
        b"\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x40",  # four thousand million nothings
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xe0\x02\xff\x41",
        b"\xd1\x00\x00\x00\x05\x00\x00\x00\x01\x40",  # a key without a value
        b"\xc1\x04\x02\x45\x45\x40",  # a list as a key
        b"\x00\x45\x40",  # a list as a descriptor
        b"\x73\xff\xff\xff\xff",  # no character
        b"\xa1\x01\xff",  # no UTF-8
        b"\xa3\x02\xc3\xbc",  # no ASCII
        b"\x57",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        types.decode_whole(data)


@pytest.mark.parametrize(
    ("name", "value", "size"),
    [
        ("ubyte", 7, 2), ("ushort", 7, 3), ("uint", 7, 2), ("uint", 2**31, 5), ("ulong", 2**63, 9), ("byte", -7, 2),
        ("short", -7, 3), ("int", -7, 2), ("int", 1000, 5), ("long", -(2**62), 9), ("float", 1.5, 5),
        ("double", 1.5, 9), ("char", "ü", 5), ("boolean", True, 1), ("null", None, 1), ("uuid", UUID(int=5), 17),
        ("symbol", Symbol("a"), 3),
    ],
)  # fmt: skip
def test_each_type_keeps_its_name(name: str, value: Any, size: int) -> None:
    encoded = types.ENCODERS[name](value)
    assert types.decode_whole(encoded) == value
    assert types.type_at(encoded, 0) == name
    assert len(encoded) == size


def test_arrays_and_times_are_decoded() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)
    assert types.decode_whole(types.array("long", [1, -2])) == [1, -2]
    assert types.decode_whole(types.array("string", ["a", "ü"])) == ["a", "ü"]
    (found,) = types.decode_whole(types.array("timestamp", [now]))
    assert found.as_datetime() == now
    assert types.decode_whole(types.encode(now)).as_datetime() == now


def test_a_performative_is_read_by_its_code_and_by_its_symbol() -> None:
    attach = Attach("link", 3, True, source=Source("orders", filter={Symbol("f"): 1}))
    value = types.decode_whole(attach.encode())
    assert performative_of(value).name == "link"
    assert performative_of(Described(Symbol("amqp:attach:list"), value.value)) == performative_of(value)


@pytest.mark.parametrize(
    "value",
    [
        1,
        Described(0x12, {}),
        Described(0x99, []),
        Described(0x12, ["name"]),  # no handle
        Described(0x12, ["name", "3", True]),  # a handle that is a text
        Described(0x12, ["name", True, True]),  # or a truth
        Described(0x15, [True, 1, None, None, None, None, None]),  # a field too many
    ],
)
def test_invalid_performatives_are_refused(value: Any) -> None:
    with pytest.raises(DecodeError):
        performative_of(value)


def test_states_are_encoded_in_performatives() -> None:
    found = performative_of(types.decode_whole(Disposition(True, 1, state=Rejected()).encode()))
    assert performative_of(found.state) == Rejected()


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 40))
def test_frames_are_found_however_they_arrive(bodies: list[bytes], chunk: int) -> None:
    data = b"".join(frame(nth, body) for nth, body in enumerate(bodies))
    reader = FrameReader(512)
    found = [one for begin in range(0, len(data), chunk) for one in reader.feed(data[begin : begin + chunk])]
    assert found == [Frame(AMQP, nth, body) for nth, body in enumerate(bodies)]


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\0\0\0\x07\x02\0\0\0", b"\0\0\x02\x01\x02\0\0\0", b"\0\0\0\x10\x09\0\0\0"]
)
def test_invalid_frames_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        list(FrameReader(512).feed(data))
