"""Two-phase commit: what is prepared is neither open nor over, and only who ends it decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.exc import InvalidRequestError

from pgqueue import Message, ReceivedMessage, ReceiveState
from pgqueue.errors import TransactionRequiredError
from tests.contract.world import World

FINAL: dict[str, Callable[..., object]] = {
    "complete": lambda received, **given: received.complete(**given),
    "dead_letter": lambda received, **given: received.dead_letter("Bad", **given),
    "defer": lambda received, **given: received.defer(**given),
}


def somebody_waits(world: World) -> None:
    world.run(f"select from pgqueue._subscribe(array['{world.name}'], interval '1 hour')")


@pytest.mark.parametrize("verb", FINAL)
def test_a_prepared_settlement_is_neither_open_nor_over(prepared: World, verb: str) -> None:
    received = prepared.locked()
    with prepared.transaction() as transaction:
        FINAL[verb](received, transaction=transaction.handle)
        transaction.prepare()
        assert received.state is ReceiveState.COMPLETING
        assert received.resolve() is ReceiveState.COMPLETING
        assert prepared.is_ours(received)
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert not prepared.is_ours(received)


def test_a_settlement_prepared_and_rolled_back_is_not_completed_by_a_later_commit(prepared: World) -> None:
    received = prepared.locked()
    with prepared.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.prepare()
        transaction.rollback()
        transaction.in_another_transaction("select 1")
        assert received.context.state is not ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.RECEIVED
    assert prepared.is_ours(received)
    received.complete()


@pytest.mark.parametrize(("end", "state"), [("commit", ReceiveState.COMPLETED), ("rollback", ReceiveState.RECEIVED)])
def test_a_transaction_that_was_never_prepared_ends_as_any_other(
    prepared: World, end: str, state: ReceiveState
) -> None:
    received = prepared.locked()
    with prepared.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        getattr(transaction, end)()
    if prepared.mode.caller != "two-phase connection":
        assert received.context.state is state
    assert received.resolve() is state
    assert prepared.is_ours(received) is (state is ReceiveState.RECEIVED)


def test_sqlalchemy_reports_the_commit_of_a_prepared_transaction(prepared: World) -> None:
    received = prepared.locked()
    with prepared.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.prepare()
        transaction.commit()
    told = prepared.mode.caller != "two-phase connection"
    assert received.context.state is (ReceiveState.COMPLETED if told else ReceiveState.COMPLETING)


def test_a_commit_after_a_rollback_from_elsewhere_is_detected(prepared: World) -> None:
    received = prepared.locked()
    with prepared.forgiving(), prepared.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.prepare()
        ((name,),) = prepared.look("select gid from pg_prepared_xacts where database = current_database()")
        prepared.run(f"rollback prepared '{name}'")
        with pytest.raises(Exception, match="does not exist"):
            transaction.commit()
        assert received.context.state is ReceiveState.COMPLETING
        assert received.resolve() is ReceiveState.RECEIVED
        transaction.discard()
    assert prepared.is_ours(received)


def test_a_send_can_be_prepared_while_a_receiver_waits(prepared: World) -> None:
    somebody_waits(prepared)
    with prepared.transaction() as transaction:
        prepared.queue.send(Message("one"), transaction=transaction.handle)
        prepared.queue.send_batch([Message("two"), Message("three", priority=7)], transaction=transaction.handle)
        transaction.prepare()
        assert prepared.bodies() == []
        transaction.commit()
    assert sorted(prepared.bodies()) == ["one", "three", "two"]


def test_every_verb_can_be_prepared(prepared: World) -> None:
    *received, last = prepared.several_locked(5)
    somebody_waits(prepared)
    with prepared.transaction() as transaction:
        given = {"transaction": transaction.handle}
        received[0].abandon(**given)
        prepared.queue.abandon_batch([received[1]], **given)
        prepared.queue.complete_batch([received[2]], **given)
        received[3].record_effect("mailed", **given)
        received[3].complete(**given)
        prepared.queue.receive_and_delete(**given)
        transaction.prepare()
        transaction.commit()
    assert [message.resolve() for message in received] == 2 * [ReceiveState.ABANDONED] + 2 * [ReceiveState.COMPLETED]
    assert sorted(prepared.bodies()) == [1, 4]
    last.complete()


def test_a_prepared_transaction_accepts_no_further_settlement(prepared: World) -> None:
    first, second = prepared.several_locked(2)
    with prepared.transaction() as transaction:
        first.complete(transaction=transaction.handle)
        transaction.prepare()
        with pytest.raises((TransactionRequiredError, InvalidRequestError), match="prepared"):
            second.complete(transaction=transaction.handle)
        assert second.resolve() is ReceiveState.RECEIVED
        transaction.commit()
    assert first.resolve() is ReceiveState.COMPLETED
    assert prepared.bodies() == [1]


def test_a_settlement_in_a_transaction_that_is_prepared_later_is_not_waited_for(prepared: World) -> None:
    """The verbs that follow are refused at once, instead of waiting for a lock that is held until the end."""
    received: ReceivedMessage = prepared.locked()
    with prepared.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.prepare()
        with pytest.raises(Exception, match="completing"):
            received.abandon()
        transaction.rollback()
    received.abandon()
    assert prepared.receive().delivery_count == 2
