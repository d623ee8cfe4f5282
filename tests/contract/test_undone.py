"""Settlements that SQL text has undone unseen, with a savepoint or the transaction: none is reported as completed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pgqueue import ReceivedMessage, ReceiveState
from pgqueue.errors import LockLostError, SettlementUndoneError
from tests.contract.test_transaction_block import fails_with
from tests.contract.transactions import Transaction
from tests.contract.world import MINUTE, World

FINAL: dict[str, Callable[..., object]] = {
    "complete": lambda world, received, **given: received.complete(**given),
    "dead_letter": lambda world, received, **given: received.dead_letter("Bad", **given),
    "defer": lambda world, received, **given: received.defer(**given),
    "complete_batch": lambda world, received, **given: world.queue.complete_batch([received], **given),
    "defer_batch": lambda world, received, **given: world.queue.defer_batch([received], **given),
}

every_verb = pytest.mark.parametrize("verb", FINAL)


@every_verb
def test_a_savepoint_rolled_back_by_text_undoes_the_settlement_despite_the_commit(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute("savepoint hidden")
        FINAL[verb](caller, received, transaction=transaction.handle)
        transaction.execute("rollback to savepoint hidden")
        transaction.commit()
    assert received.context.state is not ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)
    received.complete()


@every_verb
def test_a_receiver_that_took_the_message_after_an_undone_savepoint_has_it(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        _undo(caller, received, verb, transaction)
        current = caller.receive()
        transaction.commit()
    assert received.context.state is not ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.RECEIVED
    with pytest.raises(LockLostError):
        received.complete()
    current.complete()


@every_verb
def test_a_completion_by_another_after_an_undone_savepoint_is_not_ours(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        _undo(caller, received, verb, transaction)
        caller.receive().complete()
        transaction.commit()
    assert received.context.state is not ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.RECEIVED


@every_verb
def test_an_undone_settlement_is_known_while_the_transaction_is_open(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        _undo(caller, received, verb, transaction)
        caller.receive()
        assert received.resolve() is ReceiveState.RECEIVED
        transaction.rollback()


@every_verb
def test_a_savepoint_of_text_that_is_kept_undoes_nothing(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute("savepoint outer_one")
        transaction.execute("savepoint inner_one")
        FINAL[verb](caller, received, transaction=transaction.handle)
        transaction.execute("release savepoint inner_one")
        transaction.execute("savepoint later_one")
        transaction.execute("rollback to savepoint later_one")
        assert received.resolve() is ReceiveState.COMPLETING
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert not caller.is_ours(received)


@every_verb
def test_a_savepoint_that_was_released_goes_with_the_one_around_it(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute("savepoint outer_one")
        transaction.execute("savepoint inner_one")
        FINAL[verb](caller, received, transaction=transaction.handle)
        transaction.execute("release savepoint inner_one")
        transaction.execute("rollback to savepoint outer_one")
        transaction.commit()
    assert received.context.state is not ReceiveState.COMPLETED
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("rollback", ReceiveState.RECEIVED),
        ("select 1; rollback", ReceiveState.RECEIVED),
        ("abort", ReceiveState.RECEIVED),
        ("commit", ReceiveState.COMPLETED),
        ("end", ReceiveState.COMPLETED),
    ],
)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_that_text_has_ended_is_not_what_is_ended_next(
    caller: World, text: str, state: ReceiveState, end: str
) -> None:
    received = caller.locked()
    with suppress(Exception), caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.execute(text)
        transaction.execute("select 1")
        with suppress(Exception):
            getattr(transaction, end)()
    contradiction = {ReceiveState.RECEIVED: ReceiveState.COMPLETED, ReceiveState.COMPLETED: ReceiveState.RECEIVED}
    assert received.context.state is not contradiction[state]
    assert received.resolve() is state
    assert caller.is_ours(received) is (state is ReceiveState.RECEIVED)


def test_work_that_undoes_its_own_completion_is_not_completed(either: World, workplace: str) -> None:
    received = either.locked()
    with either.sources.workplace(workplace) as source:
        with fails_with(SettlementUndoneError), received.transaction(source) as handle:
            transaction = Transaction(handle)
            transaction.execute("savepoint hidden")
            received.complete(transaction=handle)
            transaction.execute("rollback to savepoint hidden")
        assert received.resolve() is ReceiveState.RECEIVED
        assert either.is_ours(received)
        with received.transaction(source):
            pass
    assert either.found() == []


def _undo(world: World, received: ReceivedMessage, verb: str, transaction: Transaction) -> None:
    """Settles in a savepoint that is rolled back; then the lock runs out."""
    transaction.execute("savepoint hidden")
    FINAL[verb](world, received, transaction=transaction.handle)
    transaction.execute("rollback to savepoint hidden")
    world.move_clock(2 * MINUTE)
