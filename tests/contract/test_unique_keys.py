"""Unique keys: one message of a queue has a key at a time; what becomes of another one is up to its sender."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue import Message
from pgqueue.errors import DuplicateMessageError, InvalidArgumentError
from tests.contract.world import SECOND, World


def test_a_second_message_with_a_key_is_ignored_while_the_first_waits(world: World) -> None:
    first = world.queue.send(Message("first", unique_key="k"))
    with world.transaction() as transaction:
        second = world.queue.send(Message("second", unique_key="k"), transaction=transaction.handle)
        transaction.commit()
    assert (second, first.is_duplicate, second.is_duplicate) == (first, False, True)
    received = world.receive()
    third = world.queue.send(Message("third", unique_key="k"))
    assert not third.is_duplicate
    received.complete()
    assert world.bodies() == ["third"]


def test_a_replacement_has_the_number_of_the_first(world: World) -> None:
    ((at,),) = world.look("select pgqueue.clock() + interval '1 minute'")
    first = world.queue.schedule(Message("first", unique_key="k"), at=at)
    with world.transaction() as transaction:
        again = world.queue.send(
            Message("second", unique_key="k", scheduled_enqueue_time=at + SECOND),
            on_conflict="replace",
            transaction=transaction.handle,
        )
        transaction.commit()
    assert (again, again.is_duplicate) == (first, False)
    (peeked,) = world.queue.peek()
    assert (peeked.body, peeked.sequence_number, peeked.scheduled_enqueue_time) == ("second", first, at + SECOND)


def test_raise_raises_in_the_transaction_and_stores_nothing(world: World) -> None:
    first = world.queue.send(Message("first", unique_key="k"))
    with pytest.raises(DuplicateMessageError, match=f"message {first} of queue .* has the unique key 'k'"):
        world.queue.send_batch([Message("new"), Message("second", unique_key="k")], on_conflict="raise")
    assert world.bodies() == ["first"]


def test_a_send_that_is_rolled_back_leaves_the_key_free(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send(Message("undone", unique_key="k"), transaction=transaction.handle)
        transaction.rollback()
    assert not caller.queue.send(Message("sent", unique_key="k")).is_duplicate
    assert caller.bodies() == ["sent"]


def test_an_unsettled_message_has_its_key_while_it_is_locked(own: World) -> None:
    own.queue.send(Message("first", unique_key="k"))
    received = own.receive()
    assert own.queue.send(Message("second", unique_key="k", unique_scope="unsettled")).is_duplicate
    received.complete()
    assert not own.queue.send(Message("third", unique_key="k", unique_scope="unsettled")).is_duplicate


def test_of_a_batch_the_first_is_stored(own: World) -> None:
    sent = own.queue.send_batch([Message(body, unique_key=body.lower()) for body in ("a", "b", "A")])
    assert [number.is_duplicate for number in sent] == [False, False, True]
    assert own.bodies() == ["a", "b"]


def test_overlapped_sends_are_each_marked(either: World) -> None:
    with either.queue.sender() as sender:
        pending = [sender.send(Message(n, unique_key=str(n % 3))) for n in range(9)]
    assert [send.result().is_duplicate for send in pending] == [False] * 3 + [True] * 6
    assert either.bodies() == [0, 1, 2]


@pytest.mark.parametrize(
    ("message", "on_conflict", "flaw"),
    [
        (Message(1, unique_key="k", unique_scope="never"), "ignore", "unique_scope must be 'waiting' or 'unsettled'"),  # type: ignore[arg-type]
        (Message(1, unique_key="k"), "merge", "on_conflict must be 'ignore', 'replace' or 'raise'"),
        (Message(1, unique_key=7), "ignore", "unique_key must be a str"),  # type: ignore[arg-type]
        (Message(1, unique_key=""), "ignore", "unique_key"),
        (Message(1, unique_key="k" * 129), "ignore", "unique_key of the message must be at most 128 characters"),
        (Message(1, unique_key="k", unique_scope="unsettled"), "replace", "a message in work is not replaced"),
    ],
)
def test_wrong_values_are_refused(either: World, message: Message, on_conflict: Any, flaw: str) -> None:
    with pytest.raises(InvalidArgumentError, match=flaw):
        either.queue.send(message, on_conflict=on_conflict)
    assert either.bodies() == []
