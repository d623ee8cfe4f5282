"""Links that receive, of clients that do not keep up or lower their credit: no message is lost, and none hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pgqueue import Message, QueueClient
from pgqueue.aio import Queue
from pgqueue.gateway.amqp.performatives import Flow
from tests.gateway.raw import RawClient

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
