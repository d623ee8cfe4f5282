"""Clients that send anything: each gets a condition of AMQP or loses its connection, and the others are served."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue import Message, QueueClient
from pgqueue.gateway.amqp import frames, types
from pgqueue.gateway.amqp.composite import part_of
from pgqueue.gateway.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Rejected,
    Source,
    Target,
    Transfer,
)
from pgqueue.gateway.amqp.types import Described, Encoded, Symbol
from pgqueue.testing import Database
from tests.gateway.raw import RawClient, message
from tests.gateway.serving import Served, key_of, served
from tests.patience import eventually

pytestmark = pytest.mark.usefixtures("unexpected")


def is_served(connect: Callable[[], RawClient]) -> bool:
    """Whether a client with good manners can send."""
    client = connect()
    client.send(client.sender("orders"), message(data=b"x"))
    served = bool(client.outcome() == Accepted())
    client.socket.close()
    return served


def ends(client: RawClient) -> str | None:
    """How a link or the connection ends: its condition, or None if it just ends."""
    client.socket.settimeout(30)
    try:
        while True:
            found, _ = client.next()
            if found is None:
                return None
            if isinstance(found, Detach | Close) and found.error is not None:
                return str(part_of(found.error).condition)
    except ConnectionError:
        return None


HOSTILE: list[Any] = [
    None, True, -1, 2**32 - 1, 2**63, 1.5, "x" * 300, b"\xff", [], [None] * 50, {}, {Symbol("x"): {}},
    Described(0x28, []), Described(0x99, 1), Described(0x28, ["orders"] + [True] * 10), Described(0x24, [1]),
    Encoded(b"\x73\x00\x11\x00\x00"),
]  # fmt: skip

WRITTEN = [
    Open("c"),
    Begin(None, 0, 100, 100),
    Attach("l", 0, False, source=Source(), target=Target("orders")),
    Attach("r", 1, True, source=Source("orders"), target=Target()),
    Flow(0, 100, 0, 100, 1, 0, 5),
    Transfer(0, 0, b"t", 0, False, False),
    Disposition(True, 0, 2**32 - 1, False, Accepted()),
    Detach(0, True),
]


def spoilt(performative: Any, nth: int, value: Any) -> bytes:
    """A performative with another value in a field, whatever its type."""
    names = [field.name for field in fields(performative)]
    values = [getattr(performative, name) for name in names]
    values[nth % len(values)] = value
    prefix: bytes = performative.prefix
    return prefix + types.encode([Encoded(types.encode(one)) for one in values])


@pytest.mark.parametrize("written", WRITTEN, ids=[type(one).__name__ for one in WRITTEN])
def test_wrong_types_in_any_field(gateway: Served, connect: Callable[[], RawClient], written: Any) -> None:
    for nth in range(len(fields(written))):
        for value in HOSTILE:
            client = connect()
            for before in WRITTEN[1 : WRITTEN.index(written)]:
                client.write(before, message(data=b"x") if isinstance(before, Transfer) else b"", channel=7)
            client.socket.sendall(frames.frame(7, spoilt(written, nth, value) + message(data=b"x")))
            client.socket.close()
    assert is_served(connect)
    eventually(lambda: len(gateway.gateway.connections) <= 1, "connections are left")


@given(st.binary(max_size=100), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(connect: Callable[[], RawClient], gateway: Served, data: bytes, is_frame: bool) -> None:
    client = connect()
    with suppress(OSError):  # the gateway may have closed it
        client.socket.sendall(frames.frame(0, data) if is_frame else data)
        client.socket.shutdown(socket.SHUT_WR)
        ends(client)
    client.socket.close()


def test_the_gateway_is_there_after_all_of_it(connect: Callable[[], RawClient], gateway: Served) -> None:
    for greeting in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x09\x01\x00\x00",
        b"\x16\x03\x01\x02\x00",
    ):
        with socket.create_connection(gateway.address, 30) as one:
            one.sendall(greeting)
            one.shutdown(socket.SHUT_WR)
            while one.recv(100):
                pass
    assert is_served(connect)


def test_a_frame_larger_than_agreed_closes_the_connection(connect: Callable[[], RawClient]) -> None:
    client = connect()
    client.socket.sendall(b"\x7f\xff\xff\xff\x02\x00\x00\x00")
    assert ends(client) == "amqp:decode-error"


def test_a_message_larger_than_allowed_is_rejected_and_the_link_stays(
    connect: Callable[[], RawClient], gateway: Served, orders: QueueClient
) -> None:
    client = connect()
    link = client.sender("orders")
    for nth in range(20):
        client.write(Transfer(link, 0 if nth == 0 else None, b"t", 0, False, more=nth < 19), b"x" * 60_000)
    outcome = client.outcome()
    assert isinstance(outcome, Rejected)
    assert part_of(outcome.error).condition == "amqp:link:message-size-exceeded"
    assert gateway.gateway.memory.taken == 0
    client.write(Transfer(link, 1, b"u", 0, False), message(data=b"small"))
    assert client.outcome() == Accepted()
    assert [sent.body for sent in orders.queue("orders").peek()] == [b"small"]


def test_a_larger_one_whose_answer_is_not_expected_detaches_the_link(connect: Callable[[], RawClient]) -> None:
    client = connect()
    link = client.sender("orders")
    for nth in range(20):
        client.write(Transfer(link, 0 if nth == 0 else None, b"t", 0, True, more=nth < 19), b"x" * 60_000)
    assert ends(client) == "amqp:link:message-size-exceeded"


def test_more_messages_than_the_credit_allows_detach_the_link(
    database: Database, connect: Callable[[], RawClient]
) -> None:
    client = connect()
    link = client.sender("orders")
    with psycopg.connect(database.dsn) as holder:  # nothing can be stored, so no credit comes back
        holder.execute("lock table pgqueue.message in access exclusive mode")
        for nth in range(300):
            client.send(link, message(data=b"%d" % nth))
        assert ends(client) == "amqp:link:transfer-limit-exceeded"


def signed_in(gateway: Served, **fields: Any) -> RawClient:
    """A client that has opened a connection."""
    client = RawClient(gateway.address)
    assert client.sign_in("shop", key_of(gateway.database, "shop")) == 0
    client.open(**fields)
    return client


def test_messages_that_arrive_in_part_do_not_keep_others_waiting(
    database: Database, shop: str, orders: QueueClient
) -> None:
    part = b"x" * 60_000
    with (
        served(database, max_message_size=64_000, memory=600_000) as gateway,
        signed_in(gateway) as client,
        signed_in(gateway) as other,
    ):
        for nth in range(9):
            client.write(Transfer(client.sender("orders"), nth, b"%d" % nth, 0, False, more=True), part)
        assert ends(client) == "amqp:resource-limit-exceeded"
        eventually(lambda: gateway.gateway.memory.taken == 8 * len(part), "the part still takes room")
        client.write(Transfer(0, more=False), message(data=b"rest")[-1:])  # the other links go on
        client.outcome()
        other.send(other.sender("orders"), message(data=b"x"))
        assert other.outcome() == Accepted()


@pytest.mark.parametrize("in_part", [False, True], ids=["whole", "in part"])
def test_a_client_that_waits_for_room_has_been_heard_unless_it_takes_room(
    database: Database, shop: str, orders: QueueClient, in_part: bool
) -> None:
    with (
        served(database, memory=50_000) as gateway,
        signed_in(gateway) as client,
        signed_in(gateway, idle_time_out=400) as waiting,
    ):
        full, link = client.sender("orders"), waiting.sender("orders")
        (connection,) = [one for one in gateway.gateway.connections if one._silence]
        with psycopg.connect(database.dsn) as holder:  # nothing can be stored
            holder.execute("lock table pgqueue.message in access exclusive mode")
            if in_part:
                waiting.write(Transfer(link, 0, b"0", 0, False, more=True), b"x")
                eventually(lambda: connection.unfinished, "the part has not arrived")
            client.send(full, message(data=b"x" * 60_000))
            eventually(lambda: gateway.gateway.memory.taken > 60_000, "the message has not arrived")
            waiting.write(Transfer(link, 0, b"0", 0, False), message(data=b"x"))
            eventually(lambda: connection._waits_for_room, "there is room")
            connection._heard = long_ago = connection._heard - 1000
            eventually(lambda: connection.is_closed or connection._heard > long_ago, "nothing is listened for")
            assert connection.is_closed is in_part
        if not in_part:
            assert waiting.outcome() == Accepted()


def test_requests_that_are_not_answered_yet_use_credit_and_memory(
    gateway: Served, database: Database, connect: Callable[[], RawClient]
) -> None:
    client = connect()
    client.receiver("orders/$management", credit=300)
    link = client.sender("orders/$management")
    peek = {"from-sequence-number": types.long(1), "message-count": types.int_(1), "more": "x" * 1000}
    raw = message(value=peek, message_id="1", operation="com.microsoft:peek-message")
    with psycopg.connect(database.dsn) as holder:  # nothing can be answered
        holder.execute("lock table pgqueue.message in access exclusive mode")
        for _ in range(201):
            client.send(link, raw)
        assert ends(client) == "amqp:link:transfer-limit-exceeded"
        assert gateway.gateway.memory.taken == 200 * len(raw)
        client.socket.close()
        eventually(lambda: gateway.gateway.memory.taken == 0, "memory is taken by requests of a client that has gone")
    assert connect().request("orders/$management", "com.microsoft:peek-message", peek)["statusCode"] == 204
    assert gateway.gateway.memory.taken == 0


PEEK = message(
    value={"from-sequence-number": types.long(1), "message-count": types.int_(20)},
    message_id="1",
    operation="com.microsoft:peek-message",
)


@pytest.mark.parametrize(("size", "requests"), [(1, 200), (50_000, 30)], ids=["many answers", "large answers"])
def test_answers_to_a_client_without_a_window_are_bounded(
    connect: Callable[[], RawClient], orders: QueueClient, size: int, requests: int
) -> None:
    orders.queue("orders").send_batch([Message(b"x" * size) for _ in range(20)])
    client = connect()
    answers, link = client.receiver("orders/$management"), client.sender("orders/$management")
    client.write(Flow(0, 0, 0, 10_000, answers, 0, 1000))
    for _ in range(requests):
        client.send(link, PEEK)
    assert ends(client) == "amqp:resource-limit-exceeded"


def test_answers_that_have_waited_for_the_window_are_sent_when_it_opens(
    gateway: Served, connect: Callable[[], RawClient]
) -> None:
    client = connect()
    answers, link = client.receiver("orders/$management"), client.sender("orders/$management")
    client.write(Flow(0, 0, 0, 10_000, answers, 0, 1000))
    for _ in range(90):
        client.send(link, PEEK)
    for _ in range(90):
        assert client.outcome() == Accepted()
    (session,) = next(iter(gateway.gateway.connections)).sessions.values()
    assert len(session._waiting) == 65
    for nth in range(90):
        client.write(Flow(nth, 1, 0, 10_000))
        client.receive()


def test_a_message_that_is_none_is_rejected_and_the_link_stays(connect: Callable[[], RawClient]) -> None:
    client = connect()
    link = client.sender("orders")
    client.send(link, b"\x00\x53\x99\x40")
    outcome = client.outcome()
    assert isinstance(outcome, Rejected)
    assert part_of(outcome.error).condition == "amqp:decode-error"
    client.send(link, message(data=b"x"))
    assert client.outcome() == Accepted()


@pytest.mark.parametrize("after", [-(2**63), 2**63 - 1])
def test_sessions_are_listed_since_any_time(connect: Callable[[], RawClient], client: QueueClient, after: int) -> None:
    client.create_queue("steps", requires_session=True)
    client.queue("steps").send(Message(1, session_id="a"))
    with client.queue("steps").accept_session("a") as session:
        session.set_state(1)
    asked = {"last-updated-time": types.Timestamp(after), "skip": 0, "top": 5}
    answer = connect().request("steps/$management", "com.microsoft:get-message-sessions", asked)
    assert answer["body"]["sessions-ids"] == ["a"]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("com.microsoft:peek-message", {}),
        ("com.microsoft:peek-message", {"message-count": "x", "from-sequence-number": 1}),
        ("com.microsoft:peek-message", "nothing"),
        ("com.microsoft:renew-lock", {"lock-tokens": [1, "x"]}),
        ("com.microsoft:renew-lock", {"lock-tokens": 5}),
        ("com.microsoft:schedule-message", {"messages": [{"message": 1}]}),
        ("com.microsoft:schedule-message", {"messages": [{"message": b"\xff"}]}),
        ("com.microsoft:schedule-message", {"messages": [{"message": message(data=b"not scheduled")}]}),
        ("com.microsoft:cancel-scheduled-message", {"sequence-numbers": [2**62]}),
        ("com.microsoft:receive-by-sequence-number", {"sequence-numbers": [1], "session-id": 5}),
        ("com.microsoft:update-disposition", {"disposition-status": "burnt", "lock-tokens": []}),
        ("com.microsoft:set-session-state", {"session-id": "a", "session-state": b"x"}),
        ("com.microsoft:get-message-sessions", {"skip": "x", "top": 5}),
        ("com.microsoft:get-message-sessions", {"last-updated-time": "x", "skip": 0, "top": 5}),
        ("com.microsoft:add-rule", {"rule-name": "r", "rule-description": {}}),
        ("com.microsoft:add-rule", {"rule-name": 1, "rule-description": {"sql-filter": 1}}),
        ("com.microsoft:enumerate-rules", {}),
        ("com.microsoft:batch-delete-messages", {"message-count": True}),
        ("com.microsoft:no-such-operation", {}),
        ("", None),
    ],
)
def test_a_bad_request_is_answered(connect: Callable[[], RawClient], operation: str, body: Any) -> None:
    answer = connect().request("orders/$management", operation, body)
    assert 400 <= answer["statusCode"] < 600
    assert answer["errorCondition"]
    assert "tracking id" in answer["statusDescription"] or answer["errorCondition"] == "amqp:decode-error"


def test_more_links_than_there_may_be_are_refused(database: Database, shop: str, client: QueueClient) -> None:
    client.create_queue("orders")
    with served(database, max_links=50) as gateway, RawClient(gateway.address) as raw:
        raw.sign_in("shop", key_of(database, "shop"))
        raw.open()
        for nth in range(10_000):
            raw.write(Attach(f"{nth}", nth, True, source=Source("orders"), target=Target()))
            if nth >= 50:
                assert ends(raw) == "amqp:resource-limit-exceeded"
        assert gateway.gateway.links <= 50


def test_messages_stay_ready_for_a_client_that_grants_no_credit(
    connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    client = connect()
    client.receiver("orders")
    orders.queue("orders").send(Message("x"))
    assert is_served(connect)
    assert orders.get_queue_runtime_properties("orders").locked == 0


def test_a_client_that_does_not_read_gets_no_more(
    gateway: Served, connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    orders.queue("orders").send_batch([Message(b"x" * 50_000) for _ in range(400)])
    slow = connect()
    slow.receiver("orders", credit=100_000)
    eventually(lambda: orders.get_queue_runtime_properties("orders").locked > 0, "nothing was sent")
    (connection,) = gateway.gateway.connections
    eventually(lambda: connection.is_congested, "the client reads")
    quick = connect()
    quick.receiver("orders", credit=1)
    first, _ = quick.receive()
    assert first.delivery_id == 0


def test_a_drained_link_gives_up_its_credit(connect: Callable[[], RawClient], orders: QueueClient) -> None:
    orders.queue("orders").send(Message("x"))
    client = connect()
    link = client.receiver("orders")
    client.write(Flow(0, 1000, 0, 1000, link, 0, 5, drain=True))
    client.receive()
    flow = client.expect(Flow)
    while flow.handle != link or not flow.drain:
        flow = client.expect(Flow)
    assert (flow.delivery_count, flow.link_credit) == (5, 0)
    orders.queue("orders").send(Message("y"))
    assert is_served(connect)
    assert orders.get_queue_runtime_properties("orders").locked == 1


def test_a_lost_connection_keeps_its_locks_and_counts(connect: Callable[[], RawClient], orders: QueueClient) -> None:
    orders.queue("orders").send(Message("x"))
    client = connect()
    client.receiver("orders", credit=1)
    client.receive()
    client.socket.close()
    assert is_served(connect)
    assert orders.get_queue_runtime_properties("orders").locked == 1


def test_a_message_that_is_cut_off_by_the_end_takes_no_memory(
    gateway: Served, connect: Callable[[], RawClient]
) -> None:
    for _ in range(5):
        client = RawClient(gateway.address)
        client.sign_in()
        client.open()
        link = client.sender("$cbs")
        whole = Transfer(link, 0, b"t", 0, False, False)
        client.socket.sendall(frames.frame(0, whole.encode() + message(value="x" * 50_000)) + frames.frame(0, b"\xff"))
        client.socket.close()
        client = connect()
        part = Transfer(client.sender("orders"), 0, b"t", 0, False, more=True)
        client.write(part, b"x" * 50_000)
        client.socket.close()
    assert is_served(connect)
    eventually(lambda: len(gateway.gateway.connections) == 0, "connections are left")
    assert gateway.gateway.memory.taken == 0


def test_a_bad_state_of_one_client_settles_the_messages_of_the_others(
    connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    orders.queue("orders").send_batch([Message("1"), Message("2")])
    bad, good = connect(), connect()
    for client in (bad, good):
        client.receiver("orders", credit=1)
    first, second = bad.receive()[0], good.receive()[0]
    bad.write(Disposition(True, first.delivery_id or 0, settled=False, state=Rejected(Described(999, []))))
    good.write(Disposition(True, second.delivery_id or 0, settled=False, state=Accepted()))
    assert good.outcome() == Accepted()
    assert ends(bad) == "amqp:decode-error"


def test_a_map_with_keys_whose_hashes_collide_is_refused(connect: Callable[[], RawClient]) -> None:
    client = connect()
    keys = {UUID(int=nth * (2**61 - 1)): None for nth in range(1, 100)}
    client.socket.sendall(
        frames.frame(0, b"\0\x53\x10" + types.encode(["c", None, None, None, None, None, None, None, None, keys]))
    )
    assert ends(client) == "amqp:decode-error"


def test_a_stranger_has_few_links(gateway: Served) -> None:
    with RawClient(gateway.address) as stranger:
        stranger.sign_in()
        stranger.open()
        for _ in range(4):
            stranger.sender("$cbs")
        stranger.write(Attach("fifth", 99, False, source=Source(), target=Target("$cbs")))
        assert ends(stranger) == "amqp:unauthorized-access"


def test_a_stranger_takes_little_memory(gateway: Served) -> None:
    with RawClient(gateway.address) as stranger:
        stranger.sign_in()
        stranger.open()
        link = stranger.sender("$cbs")
        for nth in range(2):
            stranger.write(Transfer(link, 0 if nth == 0 else None, b"t", 0, False, more=True), b"x" * 60_000)
        stranger.write(Attach("second", 1, False, source=Source(), target=Target("$cbs")))
        assert stranger.expect(Attach).max_message_size == 65_536
        assert gateway.gateway.memory.taken == 0


def test_a_receiver_that_has_gone_loses_no_message_that_is_deleted_at_once(
    connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    client = connect()
    client.receiver("orders", credit=5, snd_settle_mode=1)
    assert is_served(connect)
    assert client.receive()[0].settled
    client.socket.close()
    assert is_served(connect)
    orders.queue("orders").send(Message("late"))
    again = connect()
    again.receiver("orders", credit=5, snd_settle_mode=1)
    found = [again.receive()[1], again.receive()[1]]
    assert len(found) == 2


def test_a_state_that_settles_nothing_leaves_the_message_locked(
    connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    orders.queue("orders").send(Message("1"))
    client = connect()
    client.receiver("orders", credit=1)
    first, _ = client.receive()
    client.write(
        Disposition(True, first.delivery_id or 0, settled=False, state=Encoded(b"\0\x53\x23\xc0\x03\x02\x43\x44"))
    )
    client.write(Disposition(True, first.delivery_id or 0, settled=False, state=Accepted()))
    assert client.outcome() == Accepted()
