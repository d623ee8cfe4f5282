"""Messages with a limited time to live."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError
from tests.contract.world import MINUTE, SECOND, World


def test_an_expired_message_is_dropped_and_never_delivered(world: World) -> None:
    with world.transaction() as transaction:
        world.queue.send(Message("brief", time_to_live=MINUTE), transaction=transaction.handle)
        world.queue.send(Message("lasting"), transaction=transaction.handle)
        transaction.commit()
    brief, lasting = world.found()
    assert brief.expires_at == brief.enqueued_time + MINUTE
    assert lasting.expires_at is None
    world.move_clock(MINUTE + SECOND)
    assert world.receive().body == "lasting"
    assert world.bodies() == ["lasting"]
    assert world.dead() == []


def test_the_queue_limits_the_time_to_live_and_keeps_expired_messages_as_dead_letters(own: World) -> None:
    own.client.update_queue(own.name, default_message_time_to_live=MINUTE, dead_lettering_on_message_expiration=True)
    own.queue.send_batch([Message("default"), Message("long", time_to_live=timedelta(days=1))])
    assert [each.expires_at for each in own.found()] == [each.enqueued_time + MINUTE for each in own.found()]
    own.move_clock(MINUTE + SECOND)
    assert own.queue.receive(max_messages=2) == []
    assert [(each.body, each.dead_letter_reason) for each in own.dead()] == [
        ("default", "TTLExpiredException"),
        ("long", "TTLExpiredException"),
    ]


def test_a_locked_message_does_not_expire(own: World) -> None:
    own.queue.send(Message("brief", time_to_live=SECOND))
    received = own.receive()
    own.move_clock(2 * SECOND)
    received.renew_lock()
    received.complete()
    assert own.found() == []


def test_given_back_after_its_time_it_is_not_delivered_again(own: World) -> None:
    own.queue.send(Message("brief", time_to_live=SECOND))
    received = own.receive()
    own.move_clock(2 * SECOND)
    received.abandon()
    assert own.queue.receive() == []
    assert own.found() == []


def test_receive_and_delete_does_not_deliver_it_either(world: World) -> None:
    world.queue.send(Message("brief", time_to_live=SECOND))
    world.move_clock(2 * SECOND)
    with world.transaction() as transaction:
        assert world.queue.receive_and_delete(transaction=transaction.handle) == []
        transaction.commit()
    assert world.found() == []


@pytest.mark.parametrize("time_to_live", [timedelta(0), -SECOND, 60, timedelta(days=10**6)], ids=str)
def test_a_bad_time_to_live_is_refused_and_nothing_stored(either: World, time_to_live: timedelta) -> None:
    with pytest.raises(InvalidArgumentError, match="time_to_live must be"):
        either.queue.send(Message("never", time_to_live=time_to_live))
    assert either.found() == []
