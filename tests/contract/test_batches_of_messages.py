"""Batches: when the last member is settled, another message is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from pgqueue import Batch, BatchCounts, Message
from pgqueue.errors import (
    BatchClosedError,
    BatchNotFoundError,
    InvalidArgumentError,
    MessageNotFoundError,
    MessageSizeExceededError,
    OperationTimeoutError,
    QueueNotFoundError,
)
from tests.contract.world import MINUTE, World

SOON = timedelta(milliseconds=50)


def created(world: World, **options: Any) -> Batch:
    """A batch whose end sends a message to a queue of its own."""
    world.client.create_queue(f"{world.name}-end", exist_ok=True)
    return world.client.create_batch(then=Message("then"), to=f"{world.name}-end", **options)


def sent(world: World) -> list[Any]:
    return [message.body for message in world.client.queue(f"{world.name}-end").receive(max_messages=9)]


def test_a_batch_in_one_transaction(world: World) -> None:
    with world.transaction() as transaction:
        batch = created(world, transaction=transaction.handle)
        world.queue.send(Message(1), batch=batch, transaction=transaction.handle)
        numbers = world.queue.send_batch([Message(2), Message(3)], batch=batch, transaction=transaction.handle)
        batch.close(transaction=transaction.handle)
        transaction.commit()
    assert len(numbers) == 2
    assert batch.counts() == BatchCounts(3, 3, 0, 0, 0)
    first, second, third = world.queue.receive(max_messages=3)
    with world.transaction() as transaction:
        first.complete(transaction=transaction.handle)
        transaction.commit()
    second.dead_letter("Bad")
    assert (sent(world), batch.counts()) == ([], BatchCounts(3, 1, 1, 1, 0))
    world.queue.cancel(third.sequence_number)
    assert sent(world) == ["then"]
    assert batch.wait() == BatchCounts(3, 0, 1, 1, 1, is_finished=True)


def test_a_rollback_of_the_last_settlement(caller: World) -> None:
    batch = created(caller)
    caller.queue.send(Message(1), batch=batch)
    batch.close()
    received = caller.receive()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.rollback()
    assert (sent(caller), batch.counts().pending) == ([], 1)


def test_a_rollback_leaves_no_batch(caller: World) -> None:
    with caller.transaction() as transaction:
        batch = created(caller, transaction=transaction.handle)
        transaction.rollback()
    with pytest.raises(BatchNotFoundError):
        batch.counts()


@pytest.mark.parametrize("fails", [False, True])
def test_a_message_for_a_failure(either: World, fails: bool) -> None:
    batch = created(either, on_failure=Message("failed"))
    either.queue.send(Message(1), batch=batch)
    batch.close()
    received = either.receive()
    if fails:
        received.dead_letter("Bad")
    else:
        received.complete()
    assert sent(either) == (["failed"] if fails else ["then"])


def test_a_batch_is_found_by_its_id(either: World) -> None:
    batch = created(either, on_failure="continue")
    same = either.client.batch(str(batch.id))
    assert same.id == batch.id
    either.queue.schedule(Message(1), at=_tomorrow(either), batch=same)
    assert batch.counts() == BatchCounts(1, 1, 0, 0, 0)


def _tomorrow(world: World) -> Any:
    ((tomorrow,),) = world.look("select pgqueue.clock() + interval '1 day'")
    return tomorrow


def test_a_duplicate_is_no_member(either: World) -> None:
    either.client.update_queue(either.name, requires_duplicate_detection=True)
    batch = created(either)
    either.queue.send(Message(1, message_id="x"))
    assert either.queue.send(Message(1, message_id="x"), batch=batch).is_duplicate
    assert [
        number.is_duplicate
        for number in either.queue.send_batch([Message(1, message_id="y"), Message(1, message_id="y")], batch=batch)
    ] == [False, True]
    assert batch.counts().total == 1


def test_a_batch_that_is_not_finished_in_time(own: World) -> None:
    batch = created(own)
    with pytest.raises(OperationTimeoutError, match=f"batch {batch.id} is not finished yet"):
        batch.wait(SOON)


def test_a_batch_that_is_finished_is_not_waited_for(own: World) -> None:
    batch = created(own)
    batch.close()
    batch.close()
    assert batch.wait(MINUTE) == BatchCounts(0, 0, 0, 0, 0, is_finished=True)


def test_a_closed_batch_takes_no_member(either: World) -> None:
    batch = created(either)
    batch.close()
    with pytest.raises(BatchClosedError, match=r"was closed .* client\.create_batch"):
        either.queue.send(Message(1), batch=batch)
    assert either.found() == []


def test_an_unknown_batch(either: World) -> None:
    batch = either.client.batch(uuid4())
    with pytest.raises(BatchNotFoundError):
        batch.counts()
    with pytest.raises(BatchNotFoundError):
        batch.close()
    with pytest.raises(BatchNotFoundError):
        batch.wait(MINUTE)
    with pytest.raises(BatchNotFoundError):
        either.queue.send(Message(1), batch=batch)
    assert either.found() == []


@pytest.mark.parametrize("wrong", ["7", 7, None])
def test_only_a_batch_takes_members(either: World, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a UUID, not"):
        either.client.batch(wrong)
    if wrong is not None:
        with pytest.raises(InvalidArgumentError, match="batch must be one of"):
            either.queue.send(Message(1), batch=wrong)


def test_a_message_that_cannot_be_sent_is_refused_at_the_beginning(either: World) -> None:
    client, queue = either.client, either.name
    client.update_queue(queue, max_message_size=100)
    client.create_topic(f"{queue}-topic")
    with pytest.raises(QueueNotFoundError, match="It is a topic"):
        client.create_batch(then=Message(1), to=f"{queue}-topic")
    with pytest.raises(MessageSizeExceededError):
        client.create_batch(then=Message(1), to=queue, on_failure=Message("x" * 200))
    with pytest.raises(InvalidArgumentError, match="must have no scheduled_enqueue_time"):
        client.create_batch(then=Message(1, scheduled_enqueue_time=_tomorrow(either)), to=queue)
    with pytest.raises(InvalidArgumentError, match="only a Message can be sent, not str"):
        client.create_batch(then=Message(1), to=queue, on_failure="stop")  # type: ignore[arg-type]
    client.update_queue(queue, requires_duplicate_detection=True)
    either.queue.send(Message(1, message_id="x"))
    with pytest.raises(MessageNotFoundError, match="waits for the end of a batch"):
        client.create_batch(then=Message(1, message_id="x"), to=queue)
    assert len(either.found()) == 1


def test_a_message_that_was_sent_before_waits_for_no_other_batch(either: World) -> None:
    client, queue = either.client, either.name
    client.update_queue(queue, requires_duplicate_detection=True)
    batch = client.create_batch(then=Message(1, message_id="x"), to=queue)
    with pytest.raises(MessageNotFoundError, match="not created yet"):
        client.create_batch(then=Message(2, message_id="x"), to=queue)
    with pytest.raises(MessageNotFoundError, match="not created yet"):
        client.create_batch(then=Message(3, message_id="y"), to=queue, on_failure=Message(4, message_id="y"))
    assert either.bodies() == [1]
    batch.close()
    assert [message.body for message in either.queue.receive(max_messages=5)] == [1]


def test_the_message_for_the_end_can_be_cancelled(either: World) -> None:
    batch = created(either)
    (then,) = either.client.queue(f"{either.name}-end").peek()
    either.client.queue(f"{either.name}-end").cancel_scheduled([then.sequence_number])
    batch.close()
    assert (sent(either), batch.wait(MINUTE).is_finished) == ([], True)
