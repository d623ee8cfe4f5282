"""The dead letters as a queue of their own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue import Message, ReceivedMessage, ReceiveMode, ReceiveState, SubQueue
from pgqueue.errors import InvalidArgumentError, LockLostError
from tests.contract.world import MINUTE, SECOND, World


def dead(world: World, body: object = "dead") -> ReceivedMessage:
    """A dead letter, received from among the dead letters."""
    world.locked(body).dead_letter("Bad", "very")
    (received,) = world.queue.dead_letters.receive()
    return received


def test_a_dead_letter_is_received_under_lock_with_the_reason_and_completed(world: World) -> None:
    received = dead(world)
    assert (received.body, received.dead_letter_reason, received.dead_letter_error_description) == (
        "dead",
        "Bad",
        "very",
    )
    assert received.queue == f"{world.name}/$deadletterqueue"
    assert world.queue.dead_letters.receive() == []
    with world.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.commit()
    assert world.dead() == []


def test_a_completion_that_is_undone_leaves_it_locked_by_us(caller: World) -> None:
    received = dead(caller)
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.rollback()
    received.resolve()
    assert received.state is ReceiveState.RECEIVED
    received.complete()
    assert caller.dead() == []


def test_in_the_block_of_a_transaction_it_is_pinned_first(own: World) -> None:
    received = dead(own)
    with received.transaction():
        pass
    assert (received.state, own.dead()) == (ReceiveState.COMPLETED, [])


def test_abandoned_it_is_a_dead_letter_still_at_once_or_later(world: World) -> None:
    received = dead(world)
    with world.transaction() as transaction:
        received.abandon(properties={"seen": 1}, transaction=transaction.handle)
        transaction.commit()
    (again,) = world.queue.dead_letters.receive()
    assert again.application_properties == {"seen": 1}
    again.abandon(delay=MINUTE)
    assert world.queue.dead_letters.receive() == []
    world.move_clock(MINUTE + SECOND)
    assert len(world.queue.dead_letters.receive()) == 1


def test_it_is_never_dead_lettered_again_and_never_expires(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1, default_message_time_to_live=SECOND)
    received = dead(own)
    for _ in range(3):
        received.abandon()
        own.move_clock(timedelta(days=1))
        (received,) = own.queue.dead_letters.receive()
    for verb in (
        lambda: received.dead_letter("Again"),
        received.defer,
        lambda: own.queue.dead_letters.send(Message(1)),
    ):
        with pytest.raises(InvalidArgumentError, match="dead letters are received"):
            verb()
    received.complete()


def test_a_lock_that_was_taken_over_is_lost(world: World) -> None:
    received = dead(world)
    world.move_clock(2 * MINUTE)
    (taken,) = world.queue.dead_letters.receive()
    with pytest.raises(LockLostError), world.transaction() as transaction:
        received.complete(transaction=transaction.handle)
    assert received.state is ReceiveState.FAULTED
    taken.renew_lock(lock_duration=timedelta(hours=1))
    world.move_clock(2 * MINUTE)
    taken.complete()


def test_batches_settle_dead_letters_too(own: World) -> None:
    letters = own.queue.dead_letters
    own.queue.dead_letter_batch(own.several_locked(4), reason="Bad")
    one, two, three, four = letters.receive(max_messages=4)
    assert letters.renew_lock_batch([one])[0].locked_until is not None
    assert [each.is_settled for each in letters.complete_batch([one, two])] == [True, True]
    assert [each.is_settled for each in letters.abandon_batch([three, four])] == [True, True]
    assert letters.purge() == 2
    assert own.dead() == []


def test_a_receiver_iterates_over_them_and_gives_back_what_it_prefetched(own: World) -> None:
    own.queue.dead_letter_batch(own.several_locked(3), reason="Bad")
    with own.queue.receiver(sub_queue=SubQueue.DEAD_LETTER, prefetch=2) as receiver:
        first = next(iter(receiver))
        assert first.dead_letter_reason == "Bad"
        own.queue.dead_letters.complete_batch([first])
    assert [each.delivery_count for each in own.dead()] == [1, 1]
    with own.queue.receiver(sub_queue=SubQueue.DEAD_LETTER, receive_mode=ReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert next(iter(receiver)).dead_letter_reason is None
    assert len(own.dead()) == 1


def test_a_locked_dead_letter_is_not_resubmitted(own: World) -> None:
    received = dead(own)
    assert own.queue.dead_letters.resubmit() == []
    received.abandon()
    assert own.queue.dead_letters.resubmit() == [received.sequence_number]
    again = own.receive()
    assert (again.delivery_count, again.dead_letter_reason) == (1, None)


def test_a_time_to_live_starts_again_each_time_the_message_is_resubmitted(own: World) -> None:
    own.client.update_queue(own.name, dead_lettering_on_message_expiration=True)
    own.queue.send(Message("brief", time_to_live=MINUTE))
    for _ in range(3):
        own.move_clock(2 * MINUTE)
        assert own.queue.receive() == []
        own.queue.dead_letters.resubmit()
        (found,) = own.found()
        ((now,),) = own.look("select pgqueue.clock()")
        assert found.expires_at is not None
        assert MINUTE - 30 * SECOND < found.expires_at - now <= MINUTE


def test_any_number_is_resubmitted_in_transactions_that_are_all_short(own: World) -> None:
    own.queue.send_batch([Message(n) for n in range(2500)])
    own.queue.dead_letter_batch(own.queue.receive(max_messages=2500), reason="Bad")
    numbers = own.queue.dead_letters.resubmit()
    assert numbers == sorted(numbers)
    assert (len(numbers), own.dead()) == (2500, [])
    in_each = """select count(*) from pgqueue.message join pgqueue.queue on queue.id = queue_id
                  where name = %s group by message.xmin"""
    assert sorted(count for (count,) in own.look(in_each, own.name)) == [500, 1000, 1000]
    assert own.queue.dead_letters.resubmit(sequence_numbers=numbers) == []
