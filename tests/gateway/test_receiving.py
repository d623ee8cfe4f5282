"""Links that receive, of clients that do not keep up or lower their credit: no message is lost, and none hangs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pgqueue import Message, QueueClient
from pgqueue.aio import Queue, ReceivedMessage, Session
from pgqueue.errors import AccessDeniedError, ConnectionLostError
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import part_of
from pgqueue.gateway.amqp.performatives import Accepted, Attach, Detach, Disposition, Flow, Source, Target
from pgqueue.gateway.amqp.types import Symbol
from tests.gateway.raw import RawClient, message
from tests.gateway.serving import Served
from tests.patience import eventually

pytestmark = pytest.mark.usefixtures("unexpected")

DELETES = 1


def narrow(client: RawClient, link: int, *, seen: int, window: int, received: int = 0, credit: int) -> None:
    """Let the gateway send only so many frames, on a link with so much credit."""
    client.write(Flow(seen, window, 0, 10_000, link, received, credit))


def drained(client: RawClient, link: int) -> tuple[int, Flow]:
    """How many frames come until a link is drained, and the last flow."""
    frames = 0
    while True:
        found, _ = client.next()
        assert found is not None, "the connection ended"
        if isinstance(found, Flow):
            if found.handle == link and found.drain:
                return frames, found
        else:
            frames += 1


def test_deleted_messages_reach_a_client_whose_window_is_narrow(
    connect: Callable[[], RawClient], orders: QueueClient
) -> None:
    orders.queue("orders").send_batch([Message(n) for n in range(150)])
    client = connect()
    link = client.receiver("orders", snd_settle_mode=DELETES)
    narrow(client, link, seen=0, window=10, credit=150)
    for nth in range(150):
        if nth % 10 == 0 and nth:
            narrow(client, link, seen=nth, window=10, received=nth, credit=150 - nth)
        client.receive()
    counts = orders.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked) == (0, 0)


def test_a_drain_takes_no_room_of_messages_that_are_being_deleted(
    connect: Callable[[], RawClient], orders: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete_batch = Queue.complete_batch

    async def slowly(queue: Queue, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(0.5)
        return await complete_batch(queue, *args, **more)

    monkeypatch.setattr(Queue, "complete_batch", slowly)
    orders.queue("orders").send_batch([Message(n) for n in range(10)])
    client = connect()
    link = client.receiver("orders", snd_settle_mode=DELETES, credit=5)
    client.write(Flow(0, 10_000, 0, 10_000, link, 0, 5, drain=True))
    frames, flow = drained(client, link)
    assert (frames, flow.delivery_count) == (5, 5)
    counts = orders.get_queue_runtime_properties("orders")
    assert counts.ready + counts.locked == 5


def is_over(gateway: Served, role: str, queue: str) -> Callable[[], bool]:
    """Whether the feed of a queue has ended, because no link wants a message."""
    feed = gateway.call(gateway.gateway.client_of(role)).feed(queue, deletes=False)
    return lambda: feed._task is not None and feed._task.done()


@pytest.fixture
def letters(orders: QueueClient) -> QueueClient:
    orders.create_queue("letters")
    orders.create_queue("steps", requires_session=True)
    return orders


def test_a_receiver_goes_on_after_another_link_has_congested_the_connection(
    gateway: Served, connect: Callable[[], RawClient], letters: QueueClient, shop: str
) -> None:
    letters.queue("orders").send_batch([Message(b"x" * 50_000) for _ in range(400)])
    client = connect()
    (connection,) = gateway.gateway.connections
    few = client.receiver("letters", credit=10)
    many = client.receiver("orders", credit=400)
    eventually(lambda: connection.is_congested, "the client reads")
    letters.queue("letters").send(Message(b"letter"))
    eventually(is_over(gateway, shop, "letters"), "the message was not released")
    assert Counter(client.receive()[0].handle for _ in range(401)) == {many: 400, few: 1}


def test_a_receiver_goes_on_after_answers_have_congested_the_connection(
    gateway: Served, connect: Callable[[], RawClient], letters: QueueClient, shop: str
) -> None:
    letters.queue("orders").send_batch([Message(b"x" * 50_000) for _ in range(20)])
    client = connect()
    (connection,) = gateway.gateway.connections
    few = client.receiver("letters", credit=10)
    answers, requests = client.receiver("orders/$management", credit=30), client.sender("orders/$management")
    peek = message(
        value={"from-sequence-number": types.long(1), "message-count": types.int_(20)},
        message_id="1",
        reply_to=f"reply {answers}",
        operation="com.microsoft:peek-message",
    )
    for _ in range(30):
        client.send(requests, peek)
    eventually(lambda: connection.is_congested, "the client reads")
    letters.queue("letters").send(Message(b"letter"))
    eventually(is_over(gateway, shop, "letters"), "the message was not released")
    assert Counter(client.receive()[0].handle for _ in range(31)) == {answers: 30, few: 1}


def test_a_receiver_of_a_session_goes_on_after_another_link_has_congested_the_connection(
    gateway: Served, connect: Callable[[], RawClient], letters: QueueClient
) -> None:
    letters.queue("orders").send_batch([Message(b"x" * 50_000) for _ in range(400)])
    letters.queue("steps").send(Message(1, session_id="a"))
    client = connect()
    (connection,) = gateway.gateway.connections
    source = Source("steps", filter={Symbol("com.microsoft:session-filter"): "a"})
    few = client.receiver("steps", credit=10, source=source)
    assert client.receive()[0].handle == few
    many = client.receiver("orders", credit=400)
    eventually(lambda: connection.is_congested, "the client reads")
    time.sleep(2)  # it looks for messages of the session once a second
    letters.queue("steps").send(Message(2, session_id="a"))
    assert Counter(client.receive()[0].handle for _ in range(401)) == {many: 400, few: 1}


def test_a_receiver_goes_on_after_the_link_that_congested_its_session_was_detached(
    gateway: Served, connect: Callable[[], RawClient], letters: QueueClient, shop: str
) -> None:
    letters.queue("orders").send_batch([Message(n) for n in range(150)])
    client = connect()
    few, many = client.receiver("letters", credit=10), client.receiver("orders")
    narrow(client, many, seen=0, window=10, credit=150)
    for _ in range(10):
        assert client.receive()[0].handle == many
    (session,) = next(iter(gateway.gateway.connections)).sessions.values()
    eventually(lambda: session.is_congested, "the window has room")
    letters.queue("letters").send(Message(b"letter"))
    eventually(is_over(gateway, shop, "letters"), "the message was not released")
    client.write(Detach(many, closed=True))
    client.write(Flow(10, 1000, 0, 10_000))
    assert client.receive()[0].handle == few


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, *, times: int, deletes: bool = False) -> None:
    """Let deletions fail so many times; they may have been made nevertheless."""
    complete_batch, left = Queue.complete_batch, [error] * times

    async def fails(queue: Queue, received: list[ReceivedMessage], **more: Any) -> Any:
        if not left or not received:
            return await complete_batch(queue, received, **more)
        if deletes:
            await complete_batch(queue, received, **more)
            for message in received:
                message.context.retract()
        raise left.pop()

    monkeypatch.setattr(Queue, "complete_batch", fails)


@pytest.mark.parametrize("deletes", [False, True], ids=["refused", "interrupted"])
@pytest.mark.parametrize("session_id", [None, "a"], ids=["queue", "session"])
def test_a_deletion_that_fails_is_made_again(
    connect: Callable[[], RawClient],
    letters: QueueClient,
    monkeypatch: pytest.MonkeyPatch,
    session_id: str | None,
    deletes: bool,
) -> None:
    queue = "steps" if session_id else "letters"
    letters.queue(queue).send_batch([Message(n, session_id=session_id) for n in range(3)])
    failing(monkeypatch, ConnectionLostError("cut"), times=2, deletes=deletes)
    filters = {Symbol("com.microsoft:session-filter"): session_id} if session_id else None
    client = connect()
    client.receiver(queue, credit=3, snd_settle_mode=DELETES, source=Source(queue, filter=filters))
    for _ in range(3):
        assert client.receive()[0].settled
    counts = letters.get_queue_runtime_properties(queue)
    assert counts.ready + counts.locked == 0


def test_a_deletion_that_is_refused_detaches_the_link(
    connect: Callable[[], RawClient], letters: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.queue("letters").send(Message(1))
    failing(monkeypatch, AccessDeniedError("no"), times=10)
    client = connect()
    client.receiver("letters", credit=3, snd_settle_mode=DELETES)
    assert part_of(client.expect(Detach).error).condition == "amqp:unauthorized-access"


def test_a_session_is_given_back_after_what_its_client_has_settled(
    gateway: Served, connect: Callable[[], RawClient], letters: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete_batch, release = Queue.complete_batch, Session.release
    may_settle, order = asyncio.Event(), []

    async def slowly(queue: Queue, *args: Any, **more: Any) -> Any:
        await may_settle.wait()
        results = await complete_batch(queue, *args, **more)
        order.append("settled")
        return results

    async def noted(session: Session, **more: Any) -> None:
        order.append("released")
        await release(session, **more)

    monkeypatch.setattr(Queue, "complete_batch", slowly)
    monkeypatch.setattr(Session, "release", noted)
    letters.queue("steps").send(Message(1, session_id="a"))
    client = connect()
    source = Source("steps", filter={Symbol("com.microsoft:session-filter"): "a"})
    link = client.receiver("steps", credit=1, source=source)
    first, _ = client.receive()
    client.write(Disposition(True, first.delivery_id or 0, settled=True, state=Accepted()))
    client.write(Detach(link, closed=True))
    client.expect(Detach)
    client.sender("letters")  # the gateway has gone on since
    gateway.loop.call_soon_threadsafe(may_settle.set)
    eventually(lambda: len(order) == 2, "the session is not given back")
    assert order == ["settled", "released"]
    eventually(lambda: not letters.queue("steps").list_sessions(), "the message is there still")


@pytest.mark.parametrize("limit", [2**32 - 1, 2**64 - 1], ids=["49 days", "no year"])
def test_a_wait_for_the_next_session_ends_with_its_link(
    connect: Callable[[], RawClient], letters: QueueClient, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    accept_session = Queue.accept_session
    waits: list[timedelta] = []
    waiting: list[Queue] = []

    async def noted(queue: Queue, session_id: Any = None, *, wait: timedelta | None = None) -> Any:
        waits.append(wait or timedelta(0))
        waiting.append(queue)
        try:
            return await accept_session(queue, session_id, wait=wait)
        finally:
            waiting.pop()

    monkeypatch.setattr(Queue, "accept_session", noted)
    client = connect()
    client.write(
        Attach(
            "next", 9, True, source=Source("steps", filter={Symbol("com.microsoft:session-filter"): None}),
            target=Target(), properties={Symbol("com.microsoft:timeout"): limit},
        )
    )  # fmt: skip
    eventually(lambda: len(waits) > 3, "no session is waited for")
    assert max(waits) <= timedelta(seconds=1)
    client.write(Detach(9, closed=True))
    client.expect(Detach)
    eventually(lambda: not waiting, "a session is waited for")
    since = len(waits)
    client.receiver("letters")
    assert len(waits) <= since + 1
