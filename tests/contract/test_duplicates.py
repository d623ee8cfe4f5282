"""Sending the same message twice, and doing something outside of the database once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError
from tests.contract.world import MINUTE, SECOND, World


def detect(world: World) -> None:
    world.client.update_queue(
        world.name, requires_duplicate_detection=True, duplicate_detection_history_time_window=MINUTE
    )


def test_a_second_send_succeeds_is_dropped_and_is_marked_as_a_duplicate(world: World) -> None:
    detect(world)
    first = world.queue.send(Message("first", message_id="7"))
    with world.transaction() as transaction:
        second = world.queue.send(Message("second", message_id="7"), transaction=transaction.handle)
        transaction.commit()
    assert (second, first.is_duplicate, second.is_duplicate) == (first, False, True)
    assert world.bodies() == ["first"]


def test_it_holds_after_the_first_was_completed_until_the_window_is_over(own: World) -> None:
    detect(own)
    first = own.queue.send(Message("first", message_id="7"))
    own.receive().complete()
    assert own.queue.send(Message("second", message_id="7")).is_duplicate
    assert own.found() == []
    own.move_clock(MINUTE)
    third = own.queue.send(Message("third", message_id="7"))
    assert not third.is_duplicate
    assert third > first
    assert own.bodies() == ["third"]


def test_a_batch_is_looked_through_by_itself_too(own: World) -> None:
    detect(own)
    sent = own.queue.send_batch([Message(body, message_id=body.lower()) for body in ("a", "b", "A", "c")])
    assert [number.is_duplicate for number in sent] == [False, False, True, False]
    assert sent[2] == sent[0]
    assert own.bodies() == ["a", "b", "c"]


def test_an_aborted_send_is_forgotten(caller: World) -> None:
    detect(caller)
    with caller.transaction() as transaction:
        caller.queue.send(Message("undone", message_id="7"), transaction=transaction.handle)
        transaction.rollback()
    assert not caller.queue.send(Message("sent", message_id="7")).is_duplicate
    assert caller.bodies() == ["sent"]


def test_scheduled_ones_count_and_those_without_an_id_do_not(own: World) -> None:
    detect(own)
    ((at,),) = own.look("select pgqueue.clock() + interval '1 hour'")
    own.queue.schedule(Message("later", message_id="7"), at=at)
    assert own.queue.send(Message("now", message_id="7")).is_duplicate
    assert not any(number.is_duplicate for number in own.queue.send_batch([Message("x"), Message("x")]))


def test_overlapped_sends_are_each_marked_as_duplicate_or_not(either: World) -> None:
    detect(either)
    with either.queue.sender() as sender:
        pending = [sender.send(Message(n, message_id=str(n % 3))) for n in range(9)]
    assert [send.result().is_duplicate for send in pending] == [False] * 3 + [True] * 6
    assert either.bodies() == [0, 1, 2]


def test_a_queue_that_does_not_ask_for_it_stores_all(own: World) -> None:
    own.queue.send_batch([Message(n, message_id="7") for n in range(2)])
    assert own.bodies() == [0, 1]


def test_an_effect_is_recorded_once_with_the_transaction_that_completes(world: World) -> None:
    world.queue.send(Message("mail", message_id="order-7"))
    received = world.receive()
    assert received.recorded_effects() == []
    with world.transaction() as transaction:
        assert received.record_effect("mail", result={"sent": 1}, transaction=transaction.handle)
        assert not received.record_effect("mail", transaction=transaction.handle)
        received.complete(transaction=transaction.handle)
        transaction.commit()
    world.queue.send(Message("mail", message_id="order-7"))
    again = world.receive()
    assert [(each.effect, each.result) for each in again.recorded_effects()] == [("mail", {"sent": 1})]


def test_an_effect_whose_transaction_aborts_is_not_recorded(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.record_effect("mail", transaction=transaction.handle)
        transaction.rollback()
    assert received.recorded_effects() == []
    assert received.record_effect("mail", keep=SECOND)
    caller.move_clock(2 * SECOND)
    assert received.recorded_effects() == []


def test_an_effect_must_be_kept_for_a_while(either: World) -> None:
    with pytest.raises(InvalidArgumentError, match="keep must be positive"):
        either.locked().record_effect("mail", keep=timedelta(0))
