"""Frames, requests and documents of other clients, changed at random: each is refused, and the others are served."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgqueue import Message, QueueClient
from pgqueue.gateway import management
from pgqueue.gateway.amqp import frames, types
from pgqueue.gateway.amqp.composite import performative_of
from pgqueue.gateway.amqp.frames import Frame, FrameReader
from pgqueue.gateway.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Source,
    Target,
    Transfer,
)
from pgqueue.gateway.amqp.sections import sections_of
from pgqueue.gateway.amqp.types import DecodeError, Encoded, Symbol
from pgqueue.testing import Database
from tests.gateway.raw import RawClient, message, token
from tests.gateway.serving import Served, key_of, served
from tests.gateway.test_hostile import HOSTILE, ends
from tests.gateway.test_types import VALUES
from tests.patience import eventually

pytestmark = pytest.mark.usefixtures("unexpected")

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


def fuzzed(max_examples: int) -> settings:
    return settings(max_examples=max_examples, phases=PHASES, suppress_health_check=list(HealthCheck))


REQUEST = message(
    value={"message-count": 5, "from-sequence-number": 0},
    message_id="1",
    reply_to="reply",
    operation="com.microsoft:peek-message",
)

#: The frames of a client that sends, receives, settles, asks, and begins a transaction.
CONVERSATION: Sequence[tuple[Any, bytes]] = [
    (Open("c", max_frame_size=65_536), b""),
    (Begin(None, 0, 1000, 1000), b""),
    (Attach("in", 0, False, source=Source(), target=Target("orders")), b""),
    (Transfer(0, 0, b"0", 0, False, more=True), message(data=b"x" * 50)[:20]),
    (Transfer(0), message(data=b"x" * 50)[20:]),
    (Transfer(0, 1, b"1", 0, True), message(value={"a": [1, None]}, message_id=UUID(int=5), shop="berlin", n=1.5)),
    (Attach("out", 1, True, source=Source("orders", filter={Symbol("f"): 1}), target=Target("here")), b""),
    (Flow(0, 1000, 0, 1000, 1, 0, 5), b""),
    (Disposition(True, 0, 0, False, Modified(delivery_failed=True)), b""),
    (Disposition(True, 1, 1, True, Accepted()), b""),
    (Attach("answers", 2, True, source=Source("orders/$management"), target=Target("reply")), b""),
    (Flow(0, 1000, 0, 1000, 2, 0, 5), b""),
    (Attach("asks", 3, False, source=Source(), target=Target("orders/$management")), b""),
    (Transfer(3, 2, b"2", 0, False), REQUEST),
    (Attach("begins", 4, False, source=Source(), target=Coordinator()), b""),
    (Transfer(4, 3, b"3", 0, False), message(value=Declare())),
    (Flow(0, 1000, 0, 1000, 1, 0, 5, drain=True), b""),
    (Detach(1, True), b""),
    (End(), b""),
    (Close(), b""),
]

BODIES = [performative.encode() + payload for performative, payload in CONVERSATION]

NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1]

Edit = Callable[[bytes], bytes]


def _replaced(at: float, length: int, data: bytes) -> Edit:
    """Replace some bytes, at a place that is a share of the whole."""

    def edit(body: bytes) -> bytes:
        place = int(at * len(body))
        return body[:place] + data + body[place + length :]

    return edit


PLACES = st.floats(0, 1, exclude_max=True)
EDITS = st.one_of(
    st.builds(_replaced, PLACES, st.integers(0, 4), st.binary(max_size=4)),
    st.builds(_replaced, PLACES, st.just(1), st.integers(0, 255).map(lambda byte: bytes([byte]))),
    st.builds(_replaced, PLACES, st.just(4), st.sampled_from(NUMBERS).map(lambda number: number.to_bytes(4, "big"))),
    st.builds(_replaced, PLACES, st.just(10**6), st.just(b"")),
    st.builds(_replaced, PLACES, st.sampled_from([0, 1, 5]), st.sampled_from([types.encode(each) for each in HOSTILE])),
    st.builds(_replaced, PLACES, st.just(0), st.sampled_from(BODIES)),
)


def changed(bodies: Sequence[bytes]) -> st.SearchStrategy[list[bytes]]:
    """Some of these are changed, and perhaps one is left out, sent again, or sent at another time."""
    places = st.integers(0, len(bodies) - 1)

    def apply(edits: list[tuple[int, Edit]], gone: int | None, moved: tuple[int, int] | None) -> list[bytes]:
        found = list(bodies)
        for place, edit in edits:
            found[place] = edit(found[place])
        if moved is not None:
            found.insert(moved[1], found[moved[0]])
        if gone is not None:
            del found[gone]
        return found

    return st.builds(
        apply,
        st.lists(st.tuples(places, EDITS), min_size=1, max_size=3),
        st.none() | places,
        st.none() | st.tuples(places, places),
    )


@fuzzed(300)
@given(st.sampled_from(BODIES), st.lists(EDITS, max_size=3), st.booleans())
def test_the_codec_decodes_a_changed_frame_or_refuses_it(body: bytes, edits: list[Edit], as_stream: bool) -> None:
    for edit in edits:
        body = edit(body)
    with suppress(DecodeError):
        if as_stream:
            list(FrameReader(65_536).feed(body))
            return
        found = list(FrameReader(2**20).feed(frames.frame(0, body)))
        assert found == [Frame(frames.AMQP, 0, body)]
        value, end = types.decode(body)
        performative_of(value)
        sections = sections_of(body[end:])
        for place, _ in sections.body:
            types.decode(body[end:], place)


@pytest.fixture
def other(connect: Callable[[], RawClient]) -> Callable[[], bool]:
    """Whether another client, which was there before, is still served."""
    client = connect()
    link = client.sender("orders")

    def is_served() -> bool:
        client.send(link, message(data=b"x"))
        return bool(client.outcome() == Accepted())

    return is_served


def converse(client: RawClient, data: bytes) -> None:
    with suppress(OSError):  # the gateway may have closed it
        client.socket.sendall(data)
        client.socket.shutdown(socket.SHUT_WR)
        with suppress(DecodeError):
            ends(client)
    client.socket.close()


@fuzzed(40)
@given(bodies=changed(BODIES), is_header_sent=st.booleans())
def test_a_changed_conversation_ends_and_others_are_served(
    gateway: Served, other: Callable[[], bool], database: Database, bodies: list[bytes], is_header_sent: bool
) -> None:
    client = RawClient(gateway.address)
    client.sign_in("shop", key_of(database, "shop"))
    header = frames.HEADERS[frames.AMQP] if is_header_sent else b""
    converse(client, header + b"".join(frames.frame(0, body) for body in bodies))
    assert other()
    eventually(lambda: len(gateway.gateway.connections) == 1, "connections are left")
    assert gateway.gateway.memory.taken == 0


SASL = [b"\0SM\xc0\x1a\x02\xa3\x05PLAIN\xa0\x10\0shop\0wrong-key-xx", b"\0SA\xc0\x01\0"]


@fuzzed(20)
@given(data=changed([frames.HEADERS[frames.SASL], *(frames.frame(0, body, frames.SASL) for body in SASL)]))
def test_a_changed_sign_in_ends_and_others_are_served(
    gateway: Served, other: Callable[[], bool], data: list[bytes]
) -> None:
    converse(RawClient(gateway.address), b"".join(data))
    assert other()
    eventually(lambda: len(gateway.gateway.connections) == 1, "connections are left")


#: Properties that requests may have, and values that make sense.
ARGUMENTS: dict[str, Any] = {
    "message-count": 5, "from-sequence-number": 1, "session-id": "a", "lock-tokens": [UUID(int=1)],
    "messages": [{"message": message(data=b"x"), "message-id": "1"}], "sequence-numbers": types.array("long", [1, 2]),
    "receiver-settle-mode": 1, "disposition-status": "completed", "deadletter-reason": "r",
    "properties-to-modify": {"a": 1}, "session-state": b"x", "skip": 0, "top": 5,
    "last-updated-time": types.Timestamp(0), "enqueued-time-utc": types.Timestamp(0), "rule-name": "r",
    "rule-description": {"sql-filter": {"expression": "a = 1"}, "sql-rule-action": {"expression": "SET a = 1"}},
}  # fmt: skip
OPERATIONS = [*management.OPERATIONS, "com.microsoft:no-such-operation", ""]
DECODABLE = [value for value in HOSTILE if not isinstance(value, Encoded)]
NODES = ["orders", "steps", "events/Subscriptions/all"]


@pytest.fixture
def entities(orders: QueueClient) -> QueueClient:
    """A queue that requires sessions, and a topic with a subscription."""
    orders.create_queue("steps", requires_session=True)
    orders.queue("steps").send(Message(1, session_id="a"))
    orders.create_topic("events")
    orders.create_subscription("events", "all")
    return orders


@fuzzed(100)
@given(
    node=st.sampled_from(NODES),
    operation=st.sampled_from(OPERATIONS),
    given=st.sets(st.sampled_from(sorted(ARGUMENTS))),
    odd=st.dictionaries(st.sampled_from(sorted(ARGUMENTS)), VALUES | st.sampled_from(DECODABLE), max_size=2),
)
def test_any_request_is_answered(
    entities: QueueClient,
    connect: Callable[[], RawClient],
    node: str,
    operation: str,
    given: set[str],
    odd: dict[str, Any],
) -> None:
    body = {**{name: ARGUMENTS[name] for name in given}, **odd}
    client = connect()
    answer = client.request(f"{node}/$management", operation, body)
    client.socket.close()
    assert 200 <= answer["statusCode"] < 500 or answer["statusCode"] == 501, (operation, body, answer)


QUEUE = b"""<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription
 xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT1M</LockDuration>
 <MaxDeliveryCount>5</MaxDeliveryCount><RequiresSession>false</RequiresSession><Status>Active</Status>
 <DefaultMessageTimeToLive>P1DT1.5S</DefaultMessageTimeToLive><MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>
 <UserMetadata>{"a": 1}</UserMetadata><ForwardTo>orders</ForwardTo></QueueDescription></content></entry>"""
RULE = b"""<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><RuleDescription
 xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
 xmlns:i="http://www.w3.org/2001/XMLSchema-instance" xmlns:d="http://www.w3.org/2001/XMLSchema">
 <Filter i:type="SqlFilter"><SqlExpression>a &gt; @b</SqlExpression><Parameters><KeyValueOfstringanyType>
 <Key>@b</Key><Value i:type="d:int">1</Value></KeyValueOfstringanyType></Parameters></Filter>
 <Action i:type="SqlRuleAction"><SqlExpression>SET a = 1</SqlExpression></Action><Name>r</Name>
 </RuleDescription></content></entry>"""
NUMERALS = st.sampled_from(
    [b"-1", b"1e400", b"NaN", b"9" * 30, b"P9999999D", b"PT0S", b"", b"\xff", b"&#0;", b"x" * 300]
)
DOCUMENTS = [QUEUE, QUEUE.replace(b"QueueD", b"TopicD"), QUEUE.replace(b"QueueD", b"SubscriptionD"), RULE]
PATHS = ["orders", "new", "events", "events/Subscriptions/all", "events/Subscriptions/new"]
PATHS += ["events/Subscriptions/all/Rules/r", "$Resources/queues", "$Resources/topics", "events/Subscriptions"]


@fuzzed(60)
@given(
    method=st.sampled_from(["GET", "PUT", "DELETE", "POST"]),
    path=st.sampled_from(PATHS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    query=st.dictionaries(st.sampled_from(["api-version", "$skip", "$top", "enrich"]), st.text(max_size=5), max_size=2),
    document=st.sampled_from(DOCUMENTS),
    edits=st.lists(EDITS | st.builds(_replaced, PLACES, st.sampled_from([1, 4, 20]), NUMERALS), max_size=3),
    is_update=st.booleans(),
)
def test_any_document_is_answered(
    administered: httpx.Client,
    method: str,
    path: str,
    query: dict[str, str],
    document: bytes,
    edits: list[Edit],
    is_update: bool,
) -> None:
    for edit in edits:
        document = edit(document)
    headers = {"If-Match": "*"} if is_update else {}
    answer = administered.request(
        method,
        f"/{quote(path)}",
        params=query,
        content=document,
        headers=headers,
    )
    assert answer.status_code < 500, answer.text


@pytest.fixture
def administered(database: Database, shop: str, entities: QueueClient, free_port: int) -> Iterator[httpx.Client]:
    """A client of the administration, with the right to everything."""
    key = key_of(database, "shop")
    with served(database, administration=("127.0.0.1", free_port)):
        address = f"http://127.0.0.1:{free_port}"
        signed = token(address, "shop", key)
        with httpx.Client(base_url=address, headers={"Authorization": signed}) as client:
            yield client
