"""Why a message is not delivered, and how a person frees it."""

from __future__ import annotations

import pytest

from pgqueue import QueueStatus
from pgqueue.errors import (
    InvalidArgumentError,
    LockLostError,
    MessageNotFoundError,
    QueueNotFoundError,
    TransactionConflictError,
)
from tests.contract.world import MINUTE, World


def test_a_message_is_explained(own: World) -> None:
    (number,) = own.send("a")
    assert "can be delivered now" in own.queue.explain_message(number)
    received = own.receive()
    assert f"is locked by {received.locked_by} until" in own.queue.explain_message(number)
    own.client.update_queue(own.name, status=QueueStatus.DISABLED)
    assert "the status DISABLED" in own.queue.explain_message(number)
    received.abandon(delay=MINUTE, error=ValueError("no"))
    assert "rests after a delivery" in own.queue.explain_message(number)
    assert "Delivery 1 failed with ValueError: no." in own.queue.explain_message(number)


def test_the_holder_of_a_lock_that_was_taken_away_settles_nothing(own: World) -> None:
    received = own.locked()
    own.queue.unlock(received.sequence_number)
    with pytest.raises(LockLostError):
        received.complete()
    again = own.receive()
    assert (again.sequence_number, again.delivery_count) == (received.sequence_number, 2)
    again.complete()


def test_the_lock_of_a_dead_letter_is_taken_away(either: World) -> None:
    either.locked().dead_letter("Bad")
    (dead,) = either.queue.dead_letters.receive()
    either.queue.dead_letters.unlock(dead.sequence_number)
    with pytest.raises(LockLostError):
        dead.complete()
    either.queue.dead_letters.receive()[0].complete()


def test_a_message_in_an_open_transaction_stays_there(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        ((process,),) = transaction.execute("select pg_backend_pid()")
        assert f"process {process}" in caller.queue.explain_message(received.sequence_number)
        with pytest.raises(TransactionConflictError, match=f"process {process}"):
            caller.queue.unlock(received.sequence_number)
        transaction.commit()
    assert "does not have a message" in caller.queue.explain_message(received.sequence_number)


def test_a_message_that_is_not_locked_cannot_be_unlocked(either: World) -> None:
    (number,) = either.send("a")
    with pytest.raises(MessageNotFoundError, match=f"no locked message {number}"):
        either.queue.unlock(number)
    with pytest.raises(InvalidArgumentError, match="sequence_number"):
        either.queue.unlock("7")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(QueueNotFoundError):
        either.client.queue("nowhere").explain_message(number)
