"""Messages that are set aside, and received by their numbers."""

from __future__ import annotations

import pytest

from pgqueue import Message, ReceiveState
from pgqueue.errors import MessageNotFoundError
from pgqueue.model.context import Outcome
from tests.contract.world import MINUTE, SECOND, World


def deferred(world: World, body: object = "aside") -> int:
    """A message that was received and deferred in this mode's transaction."""
    received = world.locked(body)
    with world.transaction() as transaction:
        received.defer(properties={"why": "not yet"}, transaction=transaction.handle)
        transaction.commit()
    received.resolve()
    assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.DEFERRED)
    return received.sequence_number


def test_a_deferred_message_is_received_by_its_number_only_and_not_counted(world: World) -> None:
    number = deferred(world)
    assert world.queue.receive() == []
    (peeked,) = world.found()
    assert (peeked.sequence_number, peeked.is_deferred, peeked.delivery_count) == (number, True, 0)
    (received,) = world.queue.receive_deferred([number])
    assert (received.body, received.delivery_count, received.application_properties) == ("aside", 1, {"why": "not yet"})
    with world.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.commit()
    assert world.found() == []


def test_a_deferral_that_is_undone_leaves_the_message_locked_by_us(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.defer(transaction=transaction.handle)
        transaction.rollback()
    received.resolve()
    assert received.state is ReceiveState.RECEIVED
    assert caller.is_ours(received)
    received.complete()


def test_abandoned_it_is_deferred_still_and_counted(own: World) -> None:
    number = deferred(own)
    (received,) = own.queue.receive_deferred([number])
    received.abandon()
    assert own.queue.receive() == []
    (again,) = own.queue.receive_deferred([number])
    assert again.delivery_count == 2


def test_it_keeps_its_priority(own: World) -> None:
    own.queue.send(Message("urgent", priority=-7))
    received = own.receive()
    received.defer()
    (again,) = own.queue.receive_deferred([received.sequence_number])
    assert (again.priority, again.is_deferred) == (-7, True)


def test_a_locked_deferred_message_is_left_out_until_its_lock_has_expired(own: World) -> None:
    number = deferred(own)
    (received,) = own.queue.receive_deferred([number], lock_duration=MINUTE)
    assert own.queue.receive_deferred([number]) == []
    own.move_clock(MINUTE + SECOND)
    (again,) = own.queue.receive_deferred([number])
    assert again.lock_token != received.lock_token


def test_a_number_that_is_not_deferred_is_named_and_none_is_locked(own: World) -> None:
    number = deferred(own)
    (plain,) = own.send("plain")
    with pytest.raises(MessageNotFoundError, match=f"no deferred message {plain}"):
        own.queue.receive_deferred([number, plain])
    assert [each.locked_until for each in own.found()] == [None, None]
    assert own.queue.receive_deferred([]) == []


def test_many_are_deferred_in_one_round_trip(world: World) -> None:
    received = world.several_locked(3)
    with world.transaction() as transaction:
        results = world.queue.defer_batch(received, transaction=transaction.handle)
        transaction.commit()
    assert [result.is_settled for result in results] == [True] * 3
    assert [each.is_deferred for each in world.found()] == [True] * 3
    again = world.queue.receive_deferred([each.sequence_number for each in received])
    assert [each.body for each in again] == [0, 1, 2]
