"""Large batches, which go to the server in parts: they are stored whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import nan
from typing import Any

import pytest

import pgqueue.aio
from pgqueue import Message
from pgqueue.errors import ConnectionLostError, MessageNotSerializableError, MessageSizeExceededError, QueueFullError
from pgqueue.flows.traced import PART
from pgqueue.model.encoding import encode_bodies
from pgqueue.testing import Database
from tests.contract.world import World
from tests.patience import eventually

MANY = 2 * PART + 50
#: In so many turns of a loop a batch is sent; if not, the rest of the turns is as good as these.
TURNS = 40

BETWEEN = "pgqueue.flows.traced.encode_bodies"


def messages(count: int = MANY) -> list[Message]:
    return [Message(number) for number in range(count)]


@pytest.fixture
def between_parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something done before the last part is made."""

    def plan(act: Callable[[], object]) -> None:
        def encode(part: Any, *options: Any) -> Any:
            if part[-1].body == MANY - 1:
                act()
            return encode_bodies(part, *options)

        monkeypatch.setattr(BETWEEN, encode)

    return plan


def test_a_large_batch_comes_out_in_order(world: World) -> None:
    numbers = world.queue.send_batch(messages())
    assert numbers == sorted({*numbers})
    received = world.queue.receive(max_messages=MANY)
    assert [message.sequence_number for message in received] == numbers
    assert [message.body for message in received] == [*range(MANY)]


def test_json_and_bytes_come_out_as_they_went_in(own: World) -> None:
    bodies = [b"\x00" if number % 3 else {"number": number} for number in range(MANY)]
    own.queue.send_batch([Message(body) for body in bodies])
    assert [message.body for message in own.queue.peek(max_messages=MANY)] == bodies


def test_a_part_is_stored_while_the_next_is_made(
    either: World, between_parts: Callable[[Callable[[], object]], None]
) -> None:
    def stored() -> bool:
        return either.look("select last_value >= %s + %s from pgqueue.sequence_number", first, PART) == [(True,)]

    first = either.queue.send(Message("before"))
    between_parts(lambda: eventually(stored))
    either.queue.send_batch(messages())


@pytest.mark.parametrize("body", [nan, "\ud800"])
def test_of_a_batch_with_a_flaw_in_its_last_part_nothing_is_stored(own: World, body: Any) -> None:
    with pytest.raises(MessageNotSerializableError):
        own.queue.send_batch([*messages(), Message(body)])
    assert own.bodies() == []
    own.queue.send_batch(messages())


def test_of_a_batch_that_is_refused_in_its_last_part_nothing_is_stored(own: World) -> None:
    own.client.update_queue(own.name, max_message_size=100)
    with pytest.raises(MessageSizeExceededError):
        own.queue.send_batch([*messages(), Message("x" * 101)])
    assert own.bodies() == []
    own.client.update_queue(own.name, max_message_size=None, max_queue_length=MANY - 1)
    with pytest.raises(QueueFullError):
        own.queue.send_batch(messages())
    assert own.bodies() == []
    own.queue.send_batch(messages(MANY - 1))


def test_of_a_batch_whose_connection_is_lost_between_parts_nothing_is_stored(
    either: World, between_parts: Callable[[Callable[[], object]], None]
) -> None:
    ours = "from pg_stat_activity where datname = current_database() and application_name = 'pgqueue'"

    def lose_connection() -> None:
        either.look(f"select pg_terminate_backend(pid, 5000) {ours}")

    between_parts(lose_connection)
    with pytest.raises(ConnectionLostError):
        either.queue.send_batch(messages())
    assert either.bodies() == []


def test_results_are_read_while_parts_are_sent(either: World) -> None:
    """There are more of them than fit into the buffers between client and server."""
    assert len({*either.queue.send_batch(Message(None) for _ in range(30_000))}) == 30_000


async def test_a_batch_that_is_cancelled_is_stored_whole_or_not_at_all(database: Database) -> None:
    outcomes = set()
    async with pgqueue.aio.QueueClient(database.dsn) as client:
        await client.create_queue("q")
        queue = client.queue("q")
        for turn in range(TURNS):
            sending = asyncio.ensure_future(queue.send_batch(messages()))
            for _ in range(turn):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
            stored = await client.purge_queue("q")
            assert stored in ({0, MANY} if sending.cancelled() else {MANY})
            outcomes.add(sending.cancelled())
    assert True in outcomes
