"""Messages that are sent now and enqueued later."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pgqueue import Message, SequenceNumber
from pgqueue.errors import InvalidArgumentError, MessageNotFoundError
from tests.contract.world import MINUTE, SECOND, World


def in_a_minute(world: World) -> datetime:
    ((moment,),) = world.look("select pgqueue.clock() + interval '1 minute'")
    assert isinstance(moment, datetime)
    return moment


def schedule(world: World, body: object) -> SequenceNumber:
    """Schedules in this mode's transaction, and makes it final."""
    with world.transaction() as transaction:
        number = world.queue.schedule(Message(body), at=in_a_minute(world), transaction=transaction.handle)
        transaction.commit()
    return number


def test_a_scheduled_message_comes_when_its_time_has_come_under_its_number(world: World) -> None:
    number = schedule(world, "later")
    (peeked,) = world.found()
    assert (peeked.sequence_number, peeked.body) == (number, "later")
    assert peeked.scheduled_enqueue_time == peeked.enqueued_time
    assert world.queue.receive() == []
    world.move_clock(MINUTE + 2 * SECOND)
    received = world.receive()
    assert (received.sequence_number, received.delivery_count) == (number, 1)
    received.complete()
    assert world.found() == []


def test_a_send_with_a_time_is_scheduled_and_one_whose_time_has_passed_is_not(own: World) -> None:
    at = in_a_minute(own)
    later, now = own.queue.send_batch(
        [
            Message("later", scheduled_enqueue_time=at),
            Message("now", scheduled_enqueue_time=at - timedelta(hours=1)),
        ]
    )
    assert own.receive().sequence_number == now
    assert [each.sequence_number for each in own.found() if each.scheduled_enqueue_time] == [later]


def test_a_scheduled_message_can_be_cancelled_until_its_time_comes(world: World) -> None:
    cancelled, kept = schedule(world, "cancelled"), schedule(world, "kept")
    with world.transaction() as transaction:
        world.queue.cancel_scheduled([cancelled], transaction=transaction.handle)
        transaction.commit()
    assert world.bodies() == ["kept"]
    world.move_clock(MINUTE + 2 * SECOND)
    assert world.receive().sequence_number == kept
    with pytest.raises(MessageNotFoundError, match=f"no scheduled message {kept}"):
        world.queue.cancel_scheduled([kept])


def test_a_cancellation_that_is_undone_leaves_the_message_scheduled(caller: World) -> None:
    number = schedule(caller, "kept")
    with caller.transaction() as transaction:
        caller.queue.cancel_scheduled([number], transaction=transaction.handle)
        transaction.rollback()
    assert caller.bodies() == ["kept"]


def test_all_are_cancelled_or_none(own: World) -> None:
    number = schedule(own, "kept")
    with pytest.raises(MessageNotFoundError, match=f"no scheduled message {number + 1000}"):
        own.queue.cancel_scheduled([number, number + 1000])
    assert own.bodies() == ["kept"]
    own.queue.cancel_scheduled([])
    assert own.bodies() == ["kept"]


@pytest.mark.parametrize("at", [datetime(2030, 1, 1), None, 7], ids=["without a zone", "None", "a number"])  # noqa: DTZ001
def test_an_invalid_time_is_refused_and_nothing_is_stored(either: World, at: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^at must be a datetime with a time zone"):
        either.queue.schedule(Message("never"), at=at)
    assert either.found() == []


def test_a_sender_schedules_too(either: World) -> None:
    at = in_a_minute(either)
    with either.queue.sender() as sender:
        pending = [sender.send(Message(body, scheduled_enqueue_time=at, time_to_live=MINUTE)) for body in "ab"]
    assert [each.scheduled_enqueue_time for each in either.found()] == [at, at]
    assert [each.expires_at for each in either.found()] == [at + MINUTE, at + MINUTE]
    assert [each.sequence_number for each in either.found()] == [each.result() for each in pending]
