"""Receivers that lock messages ahead."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from pgqueue import ReceiveMode
from pgqueue.errors import InvalidArgumentError
from tests.contract.world import MINUTE, World

TICK = timedelta(milliseconds=300)


def locked(world: World) -> list[bool]:
    return [message.locked_by is not None for message in world.found()]


def take(receiver: Any, count: int) -> list[Any]:
    arrivals = iter(receiver)
    return [next(arrivals) for _ in range(count)]


def test_messages_are_locked_ahead_and_come_in_order(own: World) -> None:
    own.send(*range(5))
    with own.queue.receiver(prefetch=3) as receiver:
        (first,) = take(receiver, 1)
        assert locked(own) == [True, True, True, True, False]
        rest = take(receiver, 4)
        for received in [first, *rest]:
            assert own.is_ours(received)
            received.complete()
    assert [received.body for received in [first, *rest]] == [0, 1, 2, 3, 4]
    assert own.found() == []


def test_messages_not_handed_out_are_returned_to_the_front_uncounted_at_the_end(own: World) -> None:
    own.send(*range(5))
    with own.queue.receiver(prefetch=3) as receiver:
        (first,) = take(receiver, 1)
    assert locked(own) == [True, False, False, False, False]
    assert own.is_ours(first)
    again = own.queue.receive(max_messages=9)
    assert [(message.body, message.delivery_count) for message in again] == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_an_error_in_the_loop_gives_back_what_was_not_handed_out(own: World) -> None:
    def work() -> None:
        with own.queue.receiver(prefetch=9) as receiver:
            for _ in receiver:
                raise ZeroDivisionError

    own.send("bad", "good")
    with pytest.raises(ZeroDivisionError):
        work()
    assert locked(own) == [True, False]


def test_a_message_whose_lock_may_be_over_is_not_handed_out_under_it(own: World) -> None:
    own.client.update_queue(own.name, lock_duration=TICK)
    own.send("a", "b", "c")
    with own.queue.receiver(prefetch=2) as receiver:
        (first,) = take(receiver, 1)
        tokens = {token for (token,) in own.look("select lock_token from pgqueue.message where locked_by is not null")}
        time.sleep(TICK.total_seconds())
        (second,) = take(receiver, 1)
        assert first.lock_token in tokens
        assert second.lock_token not in tokens
        assert own.is_ours(second)
        assert second.delivery_count <= 2


def test_slow_work_on_one_message_does_not_use_up_deliveries_of_the_others(own: World) -> None:
    own.client.update_queue(own.name, lock_duration=TICK, max_delivery_count=2)
    own.send(*range(4))
    bodies = []
    with own.queue.receiver(prefetch=9) as receiver:
        for received in receiver:
            time.sleep(TICK.total_seconds())
            assert hasattr(received, "complete")
            received.complete()
            bodies.append(received.body)
            if len(bodies) == 4:
                break
    assert sorted(bodies) == [0, 1, 2, 3]
    assert own.dead() == []


@pytest.mark.parametrize("away", [1000 * MINUTE, -1000 * MINUTE], ids=["ahead", "behind"])
def test_the_clocks_of_the_client_and_of_the_database_are_not_compared(own: World, away: timedelta) -> None:
    own.move_clock(away)
    try:
        own.send(*range(3))
        with own.queue.receiver(prefetch=2) as receiver:
            (first,) = take(receiver, 1)
            second, third = take(receiver, 2)
            assert {first.lock_token, second.lock_token, third.lock_token} == {first.lock_token}
    finally:
        own.move_clock(-away)


def test_a_receiver_that_deletes_cannot_give_back_and_so_takes_nothing_ahead(own: World) -> None:
    with pytest.raises(InvalidArgumentError, match="prefetch must be 0 in the mode RECEIVE_AND_DELETE"):
        own.queue.receiver(receive_mode=ReceiveMode.RECEIVE_AND_DELETE, prefetch=1)


@pytest.mark.parametrize("mode", ["peek-lock", "PEEK_LOCK", None, True])
def test_a_mode_that_is_none_deletes_nothing(own: World, mode: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="receive_mode must be a ReceiveMode"):
        own.queue.receiver(receive_mode=mode)


@pytest.mark.parametrize("which", ["orders", False])
def test_a_sub_queue_that_is_none_is_refused(own: World, which: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="sub_queue must be a SubQueue"):
        own.queue.receiver(sub_queue=which)


@pytest.mark.parametrize("prefetch", [-1, 1.5, "3", True])
def test_a_prefetch_that_is_no_number_of_messages_is_refused(own: World, prefetch: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="prefetch must be"):
        own.queue.receiver(prefetch=prefetch)
