"""The caller owns the transaction: its commit makes a settlement final, its abort undoes it, a lost lock aborts it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import pytest

from pgqueue import Message, ReceivedMessage, ReceiveState
from pgqueue.errors import LockLostError
from pgqueue.model.context import Outcome, ReceiveContext
from tests.contract.world import MINUTE, World

FINAL: dict[str, Callable[..., object]] = {
    "complete": lambda received, **given: received.complete(**given),
    "dead_letter": lambda received, **given: received.dead_letter("Bad", **given),
}

finally_settled = pytest.mark.parametrize("verb", FINAL)


def contexts() -> int:
    """How many there are; a lazy object that is asked for its class may fail."""
    return sum(issubclass(type(each), ReceiveContext) for each in gc.get_objects())


def is_received_and_ours(world: World, received: ReceivedMessage) -> bool:
    """As if the settlement had never been asked for."""
    assert received.resolve() is ReceiveState.RECEIVED
    assert received.state is ReceiveState.RECEIVED
    assert received.context.outcome is None
    assert world.dead() == []
    return world.is_ours(received) and world.queue.receive() == []


@finally_settled
def test_nothing_is_final_before_the_commit(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work"))
        FINAL[verb](received, transaction=transaction.handle)
        assert received.resolve() is ReceiveState.COMPLETING
        assert caller.is_ours(received)
        assert caller.effects() == []
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert received.state is ReceiveState.COMPLETED
    assert caller.found() == []
    assert caller.effects() == ["work"]


def test_nothing_is_kept_of_a_transaction_that_is_over(caller: World) -> None:
    def complete_one() -> None:
        received = caller.locked()
        with caller.transaction() as transaction:
            received.complete(transaction=transaction.handle)
            transaction.commit()

    gc.collect()
    before = contexts()
    complete_one()
    gc.collect()
    assert contexts() == before


@finally_settled
def test_an_abort_undoes_the_work_and_the_settlement_and_the_lock_is_still_ours(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("undone"))
        FINAL[verb](received, transaction=transaction.handle)
        transaction.rollback()
        assert is_received_and_ours(caller, received)
        transaction.begin()
        transaction.execute(caller.note("done"))
        FINAL[verb](received, transaction=transaction.handle)
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert caller.effects() == ["done"]
    assert caller.found() == []


def test_without_asking_a_delivery_goes_on_after_an_abort(caller: World) -> None:
    received = caller.locked()
    for _ in range(3):
        with caller.transaction() as transaction:
            received.complete(transaction=transaction.handle)
            transaction.rollback()
    received.renew_lock()
    received.abandon()
    assert caller.receive().delivery_count == 2


@finally_settled
def test_an_unwanted_end_undoes_the_settlement_too(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("undone"))
        FINAL[verb](received, transaction=transaction.handle)
    while received.resolve() is ReceiveState.COMPLETING:
        assert received.context.transaction_id  # the server has not noticed yet that the client is gone
    assert is_received_and_ours(caller, received)
    assert caller.effects() == []


@finally_settled
def test_a_savepoint_that_is_rolled_back_undoes_the_settlement_in_it(caller: World, verb: str) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("outside"))
        with transaction.savepoint():
            transaction.execute(caller.note("inside"))
            FINAL[verb](received, transaction=transaction.handle)
            transaction.undo()
        assert received.resolve() is ReceiveState.RECEIVED
        transaction.commit()
    assert is_received_and_ours(caller, received)
    assert caller.effects() == ["outside"]


def test_after_a_savepoint_was_rolled_back_the_same_transaction_may_settle(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        with transaction.savepoint():
            received.complete(transaction=transaction.handle)
            transaction.undo()
        received.complete(transaction=transaction.handle)
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert caller.found() == []


def test_a_savepoint_that_is_released_or_came_later_undoes_nothing(caller: World) -> None:
    first, second = caller.several_locked(2)
    with caller.transaction() as transaction:
        with transaction.savepoint():
            first.complete(transaction=transaction.handle)
        second.complete(transaction=transaction.handle)
        with transaction.savepoint():
            transaction.execute(caller.note("undone"))
            transaction.undo()
        assert first.resolve() is second.resolve() is ReceiveState.COMPLETING
        transaction.commit()
    assert first.resolve() is second.resolve() is ReceiveState.COMPLETED
    assert caller.found() == []


def test_a_savepoint_within_a_savepoint_that_is_rolled_back_is_undone_with_it(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        with transaction.savepoint():
            with transaction.savepoint():
                received.complete(transaction=transaction.handle)
            transaction.undo()
        transaction.commit()
    assert is_received_and_ours(caller, received)


def test_a_commit_that_the_database_refuses_undoes_the_settlement(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        transaction.execute("insert into checked_late values (1), (1)")
        received.complete(transaction=transaction.handle)
        with pytest.raises(Exception, match="checked_late"):
            transaction.commit()
        with suppress(Exception):
            transaction.rollback()
    assert is_received_and_ours(caller, received)


@pytest.mark.parametrize("verb", [*FINAL, "abandon"])
def test_a_lost_lock_aborts_the_transaction_even_when_the_error_is_swallowed(caller: World, verb: str) -> None:
    verbs = FINAL | {"abandon": lambda received, **given: received.abandon(**given)}
    late = caller.locked("late")
    caller.move_clock(2 * MINUTE)
    current = caller.receive()
    caller.send("other")
    other = caller.receive()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work for the lost delivery"))
        caller.queue.send(Message("follow-up"), transaction=transaction.handle)
        other.complete(transaction=transaction.handle)
        with suppress(LockLostError):
            verbs[verb](late, transaction=transaction.handle)
        with suppress(Exception):
            transaction.execute(caller.note("more work"))
        with suppress(Exception):
            transaction.commit()
    assert late.resolve() is ReceiveState.FAULTED
    assert other.context.state is not ReceiveState.COMPLETED
    assert caller.effects() == []
    assert caller.bodies() == ["late", "other"]
    assert caller.is_ours(current)
    assert is_received_and_ours(caller, other)


def test_a_message_is_not_redelivered_while_the_transaction_is_open(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        caller.move_clock(2 * MINUTE)
        assert caller.queue.receive(max_messages=10) == []
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED
    assert caller.queue.receive() == []


def test_after_an_abort_a_lock_that_ran_out_meanwhile_is_open_to_all(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        caller.move_clock(2 * MINUTE)
        transaction.rollback()
    caller.move_clock(2 * MINUTE)
    again = caller.receive()
    assert again.delivery_count == 2
    with pytest.raises(LockLostError):
        received.complete()
    again.complete()


def test_an_abandon_in_a_transaction_that_aborts_leaves_the_lock_to_run_out(caller: World) -> None:
    """An abandon ends the delivery for its receiver, whatever the transaction does: the receiver never resumes it."""
    received = caller.locked()
    with caller.transaction() as transaction:
        received.abandon(transaction=transaction.handle)
        assert received.context.state is ReceiveState.ABANDONED
        transaction.rollback()
    assert received.state is ReceiveState.ABANDONED
    assert caller.is_ours(received)
    caller.move_clock(2 * MINUTE)
    assert caller.receive().delivery_count == 2


def test_several_settlements_and_sends_share_one_transaction(caller: World) -> None:
    first, second, third = caller.several_locked(3)
    with caller.transaction() as transaction:
        first.complete(transaction=transaction.handle)
        second.dead_letter("Bad", transaction=transaction.handle)
        third.abandon(transaction=transaction.handle)
        caller.queue.send(Message("follow-up"), transaction=transaction.handle)
        transaction.execute(caller.note("work"))
        transaction.commit()
    assert first.resolve() is second.resolve() is ReceiveState.COMPLETED
    assert (first.context.outcome, second.context.outcome) == (Outcome.COMPLETED, Outcome.DEAD_LETTERED)
    assert caller.bodies() == [2, "follow-up"]
    assert [message.body for message in caller.dead()] == [1]
    assert caller.effects() == ["work"]


def test_a_fault_while_the_transaction_is_open_stays_and_the_commit_still_deletes(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        received.fault()
        transaction.commit()
    assert received.resolve() is ReceiveState.FAULTED
    assert caller.found() == []


def test_we_never_end_a_transaction_that_is_not_ours(caller: World) -> None:
    first, second = caller.several_locked(2)
    with caller.transaction() as transaction:
        (before,) = transaction.execute("select pg_current_xact_id()::text")
        first.complete(transaction=transaction.handle)
        caller.queue.complete_batch([second], transaction=transaction.handle)
        caller.queue.send(Message(1), transaction=transaction.handle)
        caller.queue.receive_and_delete(transaction=transaction.handle)
        assert transaction.execute("select pg_current_xact_id()::text") == [before]
        transaction.rollback()
    assert caller.bodies() == [0, 1]


def locked_until(world: World, received: ReceivedMessage) -> datetime:
    ((until,),) = world.look(
        "select locked_until from pgqueue.message join pgqueue.queue on id = queue_id"
        " where name = %s and sequence_number = %s",
        world.name,
        received.sequence_number,
    )
    assert isinstance(until, datetime)
    return until


def test_a_renewal_holds_if_and_only_if_its_transaction_commits(caller: World) -> None:
    received = caller.locked()
    before = received.locked_until
    with caller.transaction() as transaction:
        transaction.execute(caller.note("undone"))
        until = received.renew_lock(lock_duration=10 * MINUTE, transaction=transaction.handle)
        assert before is not None
        assert until > before + 5 * MINUTE
        assert locked_until(caller, received) == before
        transaction.rollback()
        assert locked_until(caller, received) == before == received.locked_until
        transaction.begin()
        transaction.execute(caller.note("done"))
        until = received.renew_lock(lock_duration=10 * MINUTE, transaction=transaction.handle)
        transaction.commit()
    assert locked_until(caller, received) == until
    assert caller.effects() == ["done"]
    caller.move_clock(5 * MINUTE)
    received.complete()


def test_a_renewal_of_a_lock_that_is_lost_aborts_the_transaction(caller: World) -> None:
    received = caller.locked()
    caller.move_clock(2 * MINUTE)
    current = caller.receive()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("undone"))
        with pytest.raises(LockLostError):
            received.renew_lock(transaction=transaction.handle)
        transaction.rollback()
    assert caller.effects() == []
    assert received.state is ReceiveState.FAULTED
    assert caller.is_ours(current)


def test_many_locks_are_renewed_in_a_transaction_or_none(caller: World) -> None:
    received = caller.several_locked(2)
    before = received[0].locked_until
    with caller.transaction() as transaction:
        results = caller.queue.renew_lock_batch(received, lock_duration=60 * MINUTE, transaction=transaction.handle)
        assert [locked_until(caller, each) for each in received] == [before, before]
        transaction.commit()
    assert [locked_until(caller, each) for each in received] == [result.locked_until for result in results]
    received[0].complete()
    lost, held = caller.several_locked(2)
    caller.queue.renew_lock_batch([held], lock_duration=60 * MINUTE)
    caller.move_clock(2 * MINUTE)
    caller.receive()
    until = locked_until(caller, held)
    with caller.transaction() as transaction:
        transaction.execute(caller.note("undone"))
        with pytest.raises(LockLostError, match=f"message {lost.sequence_number}"):
            caller.queue.renew_lock_batch([lost, held], lock_duration=120 * MINUTE, transaction=transaction.handle)
        transaction.rollback()
    assert locked_until(caller, held) == until
    assert caller.effects() == []
