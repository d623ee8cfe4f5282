"""Locks run out by the database's clock, which these tests move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue import ReceivedMessage, ReceiveState
from pgqueue.errors import LockLostError
from tests.contract.world import MINUTE, SECOND, World

VERBS: dict[str, Callable[[ReceivedMessage], object]] = {
    "complete": lambda received: received.complete(),
    "abandon": lambda received: received.abandon(),
    "abandon with delay": lambda received: received.abandon(delay=MINUTE),
    "dead_letter": lambda received: received.dead_letter("Bad"),
    "renew_lock": lambda received: received.renew_lock(),
}


def test_a_message_whose_lock_ran_out_is_received_again_and_counted(own: World) -> None:
    first = own.locked()
    own.move_clock(MINUTE - 10 * SECOND)
    assert own.queue.receive() == []
    own.move_clock(11 * SECOND)
    second = own.receive()
    assert second.sequence_number == first.sequence_number
    assert second.delivery_count == 2
    assert second.lock_token != first.lock_token
    assert second.enqueued_time == first.enqueued_time


def test_messages_with_an_expired_lock_come_before_those_never_delivered(own: World) -> None:
    own.send("a", "b", "c")
    own.queue.receive(max_messages=2)
    own.move_clock(2 * MINUTE)
    received = own.queue.receive(max_messages=3)
    assert [(message.body, message.delivery_count) for message in received] == [("a", 2), ("b", 2), ("c", 1)]


def test_a_late_worker_cannot_settle_a_message_that_was_delivered_again(own: World) -> None:
    for verb in VERBS.values():
        late = own.locked()
        own.move_clock(2 * MINUTE)
        current = own.receive()
        with pytest.raises(LockLostError) as refusal:
            verb(late)
        assert late.context.state is ReceiveState.FAULTED
        assert str(late.sequence_number) in str(refusal.value)
        assert own.name in str(refusal.value)
        assert refusal.value.sqlstate == "PQ001"
        assert refusal.value.is_transient is False
        assert own.is_ours(current)
        current.complete()
    assert own.found() == []


@pytest.mark.parametrize("verb", VERBS)
def test_an_expired_lock_is_valid_until_the_message_is_received_again(own: World, verb: str) -> None:
    received = own.locked()
    own.move_clock(timedelta(hours=1))
    VERBS[verb](received)
    assert received.context.state is not ReceiveState.FAULTED
    left = own.queue.receive()
    assert len(left) == (verb == "abandon")


def test_a_renewed_lock_lasts_from_now(own: World) -> None:
    received = own.locked()
    own.move_clock(50 * SECOND)
    now = own.database.clock.now()
    until = received.renew_lock()
    assert until == received.locked_until
    assert now + MINUTE <= until <= now + MINUTE + 5 * SECOND
    own.move_clock(50 * SECOND)
    assert own.queue.receive() == []
    received.complete()


def test_a_lock_is_renewed_for_the_given_duration(own: World) -> None:
    received = own.locked()
    now = own.database.clock.now()
    assert received.renew_lock(lock_duration=timedelta(hours=1)) >= now + timedelta(hours=1)
    own.move_clock(timedelta(minutes=59))
    assert own.queue.receive() == []
    own.move_clock(2 * MINUTE)
    assert own.receive().delivery_count == 2


def test_a_lock_that_was_shortened_runs_out_sooner(own: World) -> None:
    received = own.locked()
    received.renew_lock(lock_duration=SECOND)
    own.move_clock(2 * SECOND)
    assert own.receive().delivery_count == 2


def test_after_its_last_delivery_a_message_is_dead_lettered_not_delivered(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=3)
    (number,) = own.send("poison")
    for count in (1, 2, 3):
        assert own.receive().delivery_count == count
        own.move_clock(2 * MINUTE)
    before = own.database.clock.now()
    assert own.queue.receive() == []
    assert own.found() == []
    (dead,) = own.dead()
    assert (dead.sequence_number, dead.body, dead.delivery_count) == (number, "poison", 3)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description is not None
    assert dead.dead_letter_error_description.startswith(
        "the queue allows 3 deliveries; the lock of delivery 3, held by"
    )
    assert dead.dead_lettered_at is not None
    assert before <= dead.dead_lettered_at <= own.database.clock.now()
    assert dead.locked_until is None


def test_abandoning_counts_as_much_as_running_out(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=2)
    own.locked("poison").abandon()
    own.receive().abandon()
    assert own.queue.receive() == []
    assert [message.dead_letter_reason for message in own.dead()] == ["MaxDeliveryCountExceeded"]


def test_the_last_delivery_can_still_be_completed(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    received = own.locked()
    own.move_clock(2 * MINUTE)
    received.complete()
    assert own.queue.receive() == []
    assert own.dead() == []


def test_poison_does_not_stand_in_the_way_of_what_comes_after(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    own.send("poison", "good")
    own.receive()
    own.move_clock(2 * MINUTE)
    assert [message.body for message in own.queue.receive(max_messages=2)] == ["good"]
    assert [message.body for message in own.dead()] == ["poison"]


def test_a_higher_limit_holds_for_messages_that_are_there_already(own: World) -> None:
    own.locked().abandon()
    own.client.update_queue(own.name, max_delivery_count=1)
    own.client.update_queue(own.name, max_delivery_count=2)
    assert own.receive().delivery_count == 2


def test_a_delivery_that_was_faulted_comes_back_when_its_lock_runs_out(own: World) -> None:
    received = own.locked()
    received.fault()
    assert received.state is ReceiveState.FAULTED
    assert own.is_ours(received)
    assert own.queue.receive() == []
    own.move_clock(2 * MINUTE)
    assert own.receive().delivery_count == 2


def test_an_abandoned_message_comes_after_its_delay_and_not_before(own: World) -> None:
    received = own.locked()
    received.abandon(delay=10 * MINUTE)
    assert own.queue.receive() == []
    own.move_clock(9 * MINUTE)
    assert own.queue.receive() == []
    own.move_clock(61 * SECOND)
    again = own.receive()
    assert (again.sequence_number, again.delivery_count) == (received.sequence_number, 2)
