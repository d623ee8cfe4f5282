"""Queues that are paused, or limit how many messages they hand out, through every source."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from tests.contract.world import World

LONG = timedelta(seconds=60)


def test_a_paused_queue_is_like_an_empty_one(either: World) -> None:
    either.send("a")
    held = either.receive()
    paused = either.client.pause_queue(either.name)
    assert paused.paused_at is not None
    either.send("b")
    assert either.queue.receive(wait=timedelta(milliseconds=50)) == []
    assert either.queue.receive_and_delete() == []
    held.complete()
    assert either.client.resume_queue(either.name).paused_at is None
    assert [message.body for message in either.queue.receive(wait=LONG)] == ["b"]


def test_a_waiting_receive_gets_a_message_when_the_queue_is_resumed(either: World) -> None:
    either.client.pause_queue(either.name)
    either.send("a")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(either.queue.receive, wait=LONG)
        assert either.queue.receive(wait=timedelta(milliseconds=50)) == []
        assert not waiting.done()
        either.client.resume_queue(either.name)
        assert [message.body for message in waiting.result()] == ["a"]


def test_an_unknown_queue_cannot_be_paused(own: World) -> None:
    for verb in (own.client.pause_queue, own.client.resume_queue):
        with pytest.raises(QueueNotFoundError):
            verb("none")


def test_a_queue_hands_out_so_many_messages_at_a_time(world: World) -> None:
    world.client.update_queue(world.name, max_concurrent=2)
    world.send("a", "b", "c")
    first, second = world.queue.receive(max_messages=9)
    assert world.queue.receive(max_messages=9) == []
    first.complete()
    assert [message.body for message in world.queue.receive(max_messages=9)] == ["c"]
    world.client.update_queue(world.name, max_concurrent=None)
    second.abandon()
    assert [message.body for message in world.queue.receive(max_messages=9)] == ["b"]


def test_a_completion_in_the_callers_transaction_frees_its_slot_when_that_commits(caller: World) -> None:
    caller.client.update_queue(caller.name, max_concurrent=1)
    caller.send("a", "b")
    (held,) = caller.queue.receive(max_messages=9)
    with caller.transaction() as transaction:
        held.complete(transaction=transaction.handle)
        assert caller.queue.receive() == []
        transaction.commit()
    assert [message.body for message in caller.queue.receive()] == ["b"]


def test_a_waiting_receive_gets_a_message_when_there_is_a_token_or_a_slot(either: World) -> None:
    either.client.update_queue(either.name, max_receive_rate=2.5, max_concurrent=3)
    properties = either.client.get_queue(either.name)
    assert (properties.max_receive_rate, properties.max_concurrent) == (2.5, 3)
    either.queue.send_batch([Message(n) for n in range(4)])
    held = [either.queue.receive(wait=LONG)[0] for _ in range(3)]
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(either.queue.receive, wait=LONG)
        assert either.queue.receive() == []
        held[0].complete()
        assert [message.body for message in waiting.result()] == [3]


@pytest.mark.parametrize("rate", ["fast", float("nan"), True, 0, -1])
def test_a_rate_is_a_positive_number(own: World, rate: object) -> None:
    with pytest.raises(InvalidArgumentError, match="max_receive_rate"):
        own.client.update_queue(own.name, max_receive_rate=rate)  # type: ignore[arg-type]  # the mistake
