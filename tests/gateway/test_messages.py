"""Messages of clients: what they send comes back byte for byte, and Python reads it as what it is."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue import Message, QueueClient
from pgqueue.gateway.amqp import sections as parts
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.sections import Sections, sections_of
from pgqueue.gateway.amqp.types import DecodeError, Described, Encoded, Symbol, Timestamp
from pgqueue.gateway.messages import BATCH, KEPT, encoded, message_of, messages_of

NOW = datetime(2026, 5, 6, 7, 8, 9, 123000, UTC)

#: A property of each type that AMQP has, encoded.
PROPERTIES = {
    "null": types.encode(None),
    "true": types.encode(value=True),
    "ubyte": types.ubyte(200),
    "ushort": types.ushort(60_000),
    "uint": types.uint(4_000_000_000),
    "ulong": types.ulong(2**64 - 1),
    "byte": b"\x51\xfb",
    "short": b"\x61\xff\x00",
    "int": types.int_(-5),
    "int large": types.int_(2**31 - 1),
    "long": types.long(5),
    "long large": types.long(2**62),
    "float": b"\x72" + struct.pack(">f", 1.5),
    "double": b"\x82" + struct.pack(">d", 0.1),
    "nan": b"\x82" + struct.pack(">d", float("nan")),
    "char": b"\x73\x00\x00\x00\xfc",
    "timestamp": types.timestamp(NOW),
    "timestamp beyond": b"\x83" + struct.pack(">q", -(2**62)),
    "uuid": b"\x98" + bytes(range(16)),
    "binary": types.binary(b"\x00\xff"),
    "string": types.string("ü"),
    "with nul": types.string("a\0b"),
    "symbol": types.symbol("red"),
    "decimal128": b"\x94" + bytes(16),
    "timespan": types.encode(Described(Symbol("com.microsoft:timespan"), Encoded(types.long(36_000_000_000)))),
}
BODIES = {
    "text as data": parts.mark(parts.DATA) + types.binary(b'{"order": 1}'),
    "bytes": parts.mark(parts.DATA) + types.binary(b"\x00\xff" * 200),
    "empty": parts.mark(parts.DATA) + types.binary(b""),
    "three data": b"".join(parts.mark(parts.DATA) + types.binary(part) for part in (b"a", b"", b"bc")),
    "a text": parts.mark(parts.VALUE) + types.encode("hello"),
    "nothing": parts.mark(parts.VALUE) + types.encode(None),
    "a number": parts.mark(parts.VALUE) + types.ushort(7),
    "a map": parts.mark(parts.VALUE) + types.encode({"a": [1, b"x"], Symbol("s"): Timestamp(5)}),
    "a text with nul": parts.mark(parts.VALUE) + types.encode("a\0"),
    "two lists": b"".join(parts.mark(parts.SEQUENCE) + types.encode(part) for part in ([1, "x"], [])),
}
IDS = {
    "text": types.string("m-1"),
    "uuid": b"\x98" + bytes(16),
    "ulong": types.ulong(7),
    "binary": types.binary(b"\x01"),
}


def of_parts(
    body: bytes, *, properties: bytes = b"", fields: bytes = b"", annotations: bytes = b"", footer: bytes = b""
) -> bytes:
    given = {parts.ANNOTATIONS: annotations, parts.PROPERTIES: fields, parts.APPLICATION_PROPERTIES: properties}
    before = b"".join(parts.mark(code) + section for code, section in given.items() if section)
    return before + body + (parts.mark(parts.FOOTER) + footer if footer else b"")


def through_the_queue(client: QueueClient, raw: bytes) -> Sections:
    """The sections that a client gets for a message of another one."""
    queue = client.queue("orders")
    queue.send(message_of(raw))
    (received,) = queue.receive()
    received.complete()
    return sections_of(encoded(received))


def body_of(found: Sections) -> bytes:
    mark = parts.mark(found.kind)
    return b"".join(mark + found.raw[begin:end] for begin, end in found.body)


@pytest.fixture
def orders(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    return client


@pytest.mark.parametrize("body", BODIES.values(), ids=[*BODIES])
def test_a_body_comes_back_byte_for_byte(orders: QueueClient, body: bytes) -> None:
    assert body_of(through_the_queue(orders, of_parts(body))) == body


def test_a_property_of_every_type_comes_back_byte_for_byte(orders: QueueClient) -> None:
    sent = types.map_({key: Encoded(value) for key, value in PROPERTIES.items()})
    found = through_the_queue(orders, of_parts(BODIES["bytes"], properties=sent))
    place = found.places[parts.APPLICATION_PROPERTIES]
    back = {key: found.raw[begin:end] for key, begin, end in types.entries_of(found.raw, place[0])}
    assert back == PROPERTIES


def test_python_reads_properties_as_what_they_are(orders: QueueClient) -> None:
    raw = of_parts(BODIES["a text"], properties=types.map_({key: Encoded(value) for key, value in PROPERTIES.items()}))
    queue = orders.queue("orders")
    queue.send(message_of(raw))
    (received,) = queue.receive()
    assert received.body == "hello"
    found = dict(received.application_properties or {})
    assert found.pop(KEPT)["body"] == "value"
    names = ("null", "true", "ulong", "float", "char", "string", "symbol", "binary", "uuid")
    assert {name: found[name] for name in names} == {
        "null": None, "true": True, "ulong": 2**64 - 1, "float": 1.5, "char": "ü", "string": "ü", "symbol": "red",
        "binary": b"\x00\xff", "uuid": UUID(bytes=bytes(range(16))),
    }  # fmt: skip
    assert found["timestamp"] == NOW


@pytest.mark.parametrize("kind", IDS)
def test_ids_come_back_as_they_were(orders: QueueClient, kind: str) -> None:
    fields = types.encode([Encoded(IDS[kind]), None, None, None, None, Encoded(IDS[kind])])
    found = through_the_queue(orders, of_parts(BODIES["bytes"], fields=fields))
    (begin, _), position = found.places[parts.PROPERTIES], 0
    position = begin + 3
    assert found.raw[position : position + len(IDS[kind])] == IDS[kind]
    values = found.values(parts.PROPERTIES)
    assert values[0] == values[5] == types.decode_whole(IDS[kind])


def test_fields_that_queues_do_not_have_come_back(orders: QueueClient) -> None:
    fields: list[Any] = [
        "m", b"user\xff", "to", "subject", "reply", "c", Symbol("text/plain"), Symbol("gzip"), Timestamp(9_000),
        Timestamp(8_000), None, 7, "session to reply to",
    ]  # fmt: skip
    fields[11] = Encoded(types.uint(7))
    raw = of_parts(
        BODIES["bytes"],
        fields=types.encode(fields),
        annotations=types.map_({Symbol("mine"): Encoded(types.ubyte(1))}),
        footer=types.map_({Symbol("f"): 2}),
    )
    found = through_the_queue(orders, raw)
    expected: list[Any] = [*fields]
    expected[11] = 7
    assert found.values(parts.PROPERTIES) == expected
    shown = {
        key: found.raw[begin:end] for key, begin, end in types.entries_of(found.raw, found.places[parts.ANNOTATIONS][0])
    }
    assert shown["mine"] == types.ubyte(1)
    assert found.values(parts.FOOTER) == {"f": 2}


def test_times_and_the_session_become_those_of_the_message() -> None:
    header = parts.mark(parts.HEADER) + types.encode([True, None, Encoded(types.uint(60_000))])
    annotations = types.map_({Symbol("x-opt-scheduled-enqueue-time"): NOW, Symbol("x-opt-partition-key"): "p"})
    fields = types.encode([None] * 10 + ["s"])
    sent = message_of(header + of_parts(BODIES["bytes"], fields=fields, annotations=annotations))
    assert (sent.time_to_live, sent.scheduled_enqueue_time, sent.partition_key, sent.session_id) == (
        timedelta(minutes=1), NOW, "p", "s",
    )  # fmt: skip
    scheduled = types.Timestamp(NOW.timestamp() * 1000)
    assert sent.application_properties == {KEPT: {"scheduled": scheduled, "durable": True}}


def test_the_priority_and_the_annotations_of_a_delivery_come_back_beside_the_lock_token(orders: QueueClient) -> None:
    header = parts.mark(parts.HEADER) + types.encode([True, Encoded(types.ubyte(7))])
    given = types.map_({Symbol("mine"): 1, Symbol("x-opt-lock-token"): UUID(int=4)})
    delivery = parts.mark(parts.DELIVERY_ANNOTATIONS) + given
    orders.queue("orders").send(message_of(header + delivery + of_parts(BODIES["bytes"])))
    (received,) = orders.queue("orders").receive()
    found = sections_of(encoded(received, UUID(int=5)))
    assert found.values(parts.HEADER)[:2] == [True, 7]
    assert found.values(parts.DELIVERY_ANNOTATIONS) == {"mine": 1, "x-opt-lock-token": UUID(int=5)}
    assert sections_of(encoded(received)).values(parts.DELIVERY_ANNOTATIONS) == {"mine": 1}


def test_a_message_that_is_sent_again_has_no_state_of_before(orders: QueueClient) -> None:
    annotations = types.map_({Symbol("mine"): 1, Symbol("x-opt-message-state"): 1, Symbol("x-opt-locked-until"): NOW})
    shown = through_the_queue(orders, of_parts(BODIES["bytes"], annotations=annotations)).values(parts.ANNOTATIONS)
    assert shown.keys() == {"mine", "x-opt-sequence-number", "x-opt-enqueued-time"}


def test_a_message_that_was_scheduled_shows_its_time_when_it_is_due(orders: QueueClient) -> None:
    annotations = types.map_({Symbol("x-opt-scheduled-enqueue-time"): NOW})
    found = through_the_queue(orders, of_parts(BODIES["bytes"], annotations=annotations))
    shown = found.values(parts.ANNOTATIONS)
    assert Timestamp(shown["x-opt-scheduled-enqueue-time"]).as_datetime() == NOW
    assert "x-opt-message-state" not in shown


def test_a_text_may_be_sent_as_bytes() -> None:
    annotations = types.map_({Symbol("x-opt-partition-key"): "ü".encode()})
    assert message_of(of_parts(BODIES["bytes"], annotations=annotations)).partition_key == "ü"
    with pytest.raises(DecodeError):
        message_of(of_parts(BODIES["bytes"], annotations=types.map_({Symbol("x-opt-partition-key"): b"\xff"})))


def test_json_becomes_json_only_where_it_is_asked_for() -> None:
    fields = types.encode([None] * 6 + [Symbol("application/json; charset=utf-8")])
    raw = of_parts(BODIES["text as data"], fields=fields)
    assert message_of(raw).body == b'{"order": 1}'
    assert message_of(raw, json_bodies=True).body == {"order": 1}
    assert message_of(of_parts(BODIES["bytes"], fields=fields), json_bodies=True).body == b"\x00\xff" * 200
    assert message_of(of_parts(BODIES["text as data"]), json_bodies=True).body == b'{"order": 1}'


def test_a_message_of_python_is_json_with_its_type(orders: QueueClient) -> None:
    properties = {"price": Decimal("1.5"), "nested": {"a": [1]}, "when": NOW, "many": 2**70}
    orders.queue("orders").send(Message({"ü": 1}, subject="s", application_properties=properties))
    (received,) = orders.queue("orders").receive()
    found = sections_of(encoded(received))
    assert found.data() == ['{"ü": 1}'.encode()]
    values = found.values(parts.PROPERTIES)
    assert values[0] == str(received.sequence_number)
    assert (values[3], values[6]) == ("s", "application/json")
    assert found.values(parts.APPLICATION_PROPERTIES) == {
        "price": "1.5", "nested": '{"a": [1]}', "when": (NOW - types.EPOCH) // types.MILLISECOND, "many": str(2**70),
    }  # fmt: skip


@pytest.mark.parametrize(
    "kept",
    [
        1,
        {"body": "value", "data": 3},
        {"types": {"a": "char"}},
        {"properties": {"user_id": 5}},
        {"annotations": "!"},
        {"data": ["x"]},
    ],
)
def test_a_property_that_an_application_has_made_up_does_no_harm(orders: QueueClient, kept: Any) -> None:
    orders.queue("orders").send(Message({"x": 1}, application_properties={KEPT: kept, "a": "long"}, content_type="ü"))
    (received,) = orders.queue("orders").receive()
    assert sections_of(encoded(received)).values(parts.APPLICATION_PROPERTIES) == {"a": "long"}


def test_a_batch_becomes_several_messages() -> None:
    one, two = (of_parts(parts.mark(parts.DATA) + types.binary(text)) for text in (b"1", b"2"))
    raw = b"".join(parts.mark(parts.DATA) + types.binary(part) for part in (one, two))
    assert [sent.body for sent in messages_of(raw, BATCH, json_bodies=False)] == [b"1", b"2"]


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    for prefix in (
        b"",
        parts.mark(parts.PROPERTIES),
        parts.mark(parts.APPLICATION_PROPERTIES),
        parts.mark(parts.HEADER),
    ):
        try:
            message_of(prefix + raw)
        except DecodeError:
            continue


@pytest.mark.parametrize(
    "raw",
    [
        BODIES["bytes"] + BODIES["a text"],
        BODIES["a text"] * 2,
        parts.mark(parts.HEADER) + types.encode(1) + BODIES["bytes"],
        parts.mark(parts.PROPERTIES) + types.encode([1.5]) + BODIES["bytes"],
        parts.mark(parts.PROPERTIES) + types.encode([None, None, 5]) + BODIES["bytes"],
        parts.mark(parts.APPLICATION_PROPERTIES) + types.encode({1: 1}) + BODIES["bytes"],
        parts.mark(parts.ANNOTATIONS) + types.encode({Symbol("x-opt-scheduled-enqueue-time"): "x"}) + BODIES["bytes"],
        parts.mark(parts.ANNOTATIONS)
        + types.encode({Symbol("x-opt-scheduled-enqueue-time"): Timestamp(2**60)})
        + BODIES["bytes"],
        b"\x00\x53\x79\x40",
    ],
)
def test_invalid_messages_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        message_of(raw)
