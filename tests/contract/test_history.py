"""The history of messages that are gone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError
from tests.contract.hostile import Zoneless
from tests.contract.world import MINUTE, SECOND, World

HOUR = timedelta(hours=1)


def retain(world: World) -> None:
    world.client.update_queue(world.name, retain_history=HOUR)


def test_a_completed_message_is_remembered_with_its_times_and_its_holder(world: World) -> None:
    retain(world)
    world.queue.send(Message("work", message_id="7", subject="kind", priority=3))
    first = world.receive()
    world.move_clock(SECOND)
    first.abandon()
    received = world.receive()
    world.move_clock(SECOND)
    with world.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.commit()
    (settled,) = world.queue.history()
    assert (settled.outcome, settled.sequence_number, settled.delivery_count) == (
        "COMPLETED",
        received.sequence_number,
        2,
    )
    assert (settled.message_id, settled.subject, settled.priority, settled.locked_by) == (
        "7",
        "kind",
        3,
        received.locked_by,
    )
    assert settled.first_locked_at is not None
    assert settled.enqueued_time < settled.first_locked_at
    assert settled.settled_at >= settled.first_locked_at + 2 * SECOND


def test_a_settlement_that_is_undone_is_not_in_the_history(caller: World) -> None:
    retain(caller)
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.rollback()
    assert caller.queue.history() == []


def test_every_way_out_has_its_outcome(own: World) -> None:
    retain(own)
    own.several_locked(1)[0].dead_letter("Bad")
    own.queue.complete_batch(own.several_locked(2))
    own.send("taken")
    own.queue.receive_and_delete()
    own.queue.send(Message("brief", time_to_live=SECOND))
    own.move_clock(2 * SECOND)
    own.queue.receive()
    ((at,),) = own.look("select pgqueue.clock() + interval '1 hour'")
    own.queue.cancel_scheduled([own.queue.schedule(Message("never"), at=at)])
    own.send("purged")
    own.client.purge_queue(own.name)
    assert sorted(each.outcome for each in own.queue.history()) == [
        "CANCELLED",
        "COMPLETED",
        "COMPLETED",
        "DEAD_LETTERED",
        "EXPIRED",
        "PURGED",
        "RECEIVED_AND_DELETED",
    ]
    (dead,) = own.queue.history(outcome="DEAD_LETTERED")
    assert dead.reason == "Bad"
    assert own.queue.history(sequence_number=dead.sequence_number) == [dead]
    assert own.queue.history(since=dead.settled_at + HOUR) == []
    assert len(own.queue.history(limit=3)) == 3


def test_after_its_time_it_is_forgotten(own: World) -> None:
    own.client.update_queue(own.name, retain_history=MINUTE)
    own.locked().complete()
    assert len(own.queue.history()) == 1
    own.move_clock(MINUTE)
    assert own.queue.history() == []


def test_a_queue_that_does_not_ask_for_it_remembers_nothing(own: World) -> None:
    own.locked().complete()
    retain(own)
    assert own.queue.history() == []


@pytest.mark.parametrize("since", [datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=Zoneless()), 5, "yesterday"])  # noqa: DTZ001
def test_a_start_that_is_not_a_time_is_refused(either: World, since: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="since must be a datetime with a time zone"):
        either.queue.history(since=since)


@pytest.mark.parametrize("limit", [0, "1"])
def test_a_bad_limit_is_refused(either: World, limit: int) -> None:
    with pytest.raises(InvalidArgumentError, match="limit must be"):
        either.queue.history(limit=limit)


def test_a_sequence_number_beyond_those_of_the_server_is_refused(either: World) -> None:
    assert either.queue.history(sequence_number=2**63 - 1) == []
    with pytest.raises(InvalidArgumentError, match="sequence_number must be"):
        either.queue.history(sequence_number=2**63)
