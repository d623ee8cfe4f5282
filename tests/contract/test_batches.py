"""Many in one round trip, in every mode: a result each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pgqueue import ReceivedMessage, ReceiveState, SettlementResult
from pgqueue.errors import (
    FaultedError,
    InvalidArgumentError,
    LockLostError,
    MessageAlreadySettledError,
    QueueNotFoundError,
)
from pgqueue.statements import settling
from tests.contract.world import MINUTE, SECOND, World

Batch = Callable[..., list[SettlementResult]]

BATCHES: dict[str, Batch] = {
    "complete": lambda queue, received, **given: queue.complete_batch(received, **given),
    "abandon": lambda queue, received, **given: queue.abandon_batch(received, **given),
    "abandon with delay": lambda queue, received, **given: queue.abandon_batch(received, delay=MINUTE, **given),
    "dead_letter": lambda queue, received, **given: queue.dead_letter_batch(received, reason="Bad", **given),
}

each_batch = pytest.mark.parametrize("verb", BATCHES)


def settle(world: World, verb: str, received: list[ReceivedMessage]) -> list[SettlementResult]:
    with world.transaction() as transaction:
        results = BATCHES[verb](world.queue, received, transaction=transaction.handle)
        transaction.commit()
    for message in received:
        message.resolve()
    return results


def where(world: World) -> tuple[list[object], list[object], list[object]]:
    """The bodies of what is ready, of what rests until later, and of what is dead."""
    ready = [message.body for message in world.queue.receive(max_messages=100)]
    dead = [message.body for message in world.dead()]
    return ready, [body for body in world.bodies() if body not in ready], dead


@each_batch
def test_a_batch_settles_all_and_returns_results_in_the_given_order(world: World, verb: str) -> None:
    received = world.several_locked(4)
    backwards = received[::-1]
    results = settle(world, verb, backwards)
    assert [result.sequence_number for result in results] == [message.sequence_number for message in backwards]
    assert all(result.is_settled and result.error is None for result in results)
    state = ReceiveState.ABANDONED if verb.startswith("abandon") else ReceiveState.COMPLETED
    assert [message.context.state for message in received] == [state] * 4
    every: list[object] = [0, 1, 2, 3]
    assert (
        where(world)
        == {
            "complete": ([], [], []),
            "abandon": (every, [], []),
            "abandon with delay": ([], every, []),
            "dead_letter": ([], [], every),
        }[verb]
    )


@each_batch
def test_a_batch_leaves_every_other_message_alone(world: World, verb: str) -> None:
    received = world.several_locked(4)
    settle(world, verb, received[1:3])
    assert world.is_ours(received[0])
    assert world.is_ours(received[3])


def test_a_batch_carries_its_arguments_to_each(world: World) -> None:
    first, second, third = world.several_locked(3)
    with world.transaction() as transaction:
        world.queue.abandon_batch([first, second], properties={"by": "batch"}, transaction=transaction.handle)
        world.queue.dead_letter_batch([third], reason="Bad", description="very", transaction=transaction.handle)
        transaction.commit()
    again = world.queue.receive(max_messages=2)
    assert [message.application_properties for message in again] == [{"by": "batch"}] * 2
    assert [message.delivery_count for message in again] == [2, 2]
    (dead,) = world.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Bad", "very")


@each_batch
def test_alone_one_lost_lock_neither_hides_nor_undoes_the_others(own: World, verb: str) -> None:
    received = own.several_locked(3)
    own.queue.renew_lock_batch([received[0], received[2]], lock_duration=10 * MINUTE)
    own.move_clock(2 * MINUTE)
    current = own.receive()
    results = settle(own, verb, received)
    assert [result.is_settled for result in results] == [True, False, True]
    lost = results[1].error
    assert isinstance(lost, LockLostError)
    assert str(received[1].sequence_number) in str(lost)
    assert lost.sqlstate == "PQ001"
    state = ReceiveState.ABANDONED if verb.startswith("abandon") else ReceiveState.COMPLETED
    assert [message.context.state for message in received] == [state, ReceiveState.FAULTED, state]
    assert own.is_ours(current)


@each_batch
def test_in_a_callers_transaction_one_lost_lock_aborts_all(caller: World, verb: str) -> None:
    received = caller.several_locked(3)
    caller.queue.renew_lock_batch([received[0], received[2]], lock_duration=10 * MINUTE)
    caller.move_clock(2 * MINUTE)
    current = caller.receive()
    with caller.transaction() as transaction:
        transaction.execute(caller.note("work"))
        with pytest.raises(LockLostError, match=f"message {received[1].sequence_number}"):
            BATCHES[verb](caller.queue, received, transaction=transaction.handle)
        transaction.rollback()
    assert caller.effects() == []
    assert caller.is_ours(current)
    for message in (received[0], received[2]):
        assert message.resolve() is ReceiveState.RECEIVED
        assert caller.is_ours(message)


@each_batch
def test_an_abort_undoes_the_whole_batch(caller: World, verb: str) -> None:
    received = caller.several_locked(3)
    with caller.transaction() as transaction:
        BATCHES[verb](caller.queue, received, transaction=transaction.handle)
        transaction.rollback()
    final = ReceiveState.ABANDONED if verb.startswith("abandon") else ReceiveState.RECEIVED
    assert [message.resolve() for message in received] == [final] * 3
    assert all(caller.is_ours(message) for message in received)


def test_without_asking_a_batch_goes_on_after_an_abort(caller: World) -> None:
    received = caller.several_locked(2)
    for _ in range(2):
        with caller.transaction() as transaction:
            caller.queue.complete_batch(received, transaction=transaction.handle)
            transaction.rollback()
    assert all(result.is_settled for result in caller.queue.renew_lock_batch(received))
    with caller.transaction() as transaction:
        caller.queue.complete_batch(received, transaction=transaction.handle)
        transaction.commit()
    assert [message.resolve() for message in received] == [ReceiveState.COMPLETED] * 2
    assert caller.found() == []


def test_a_savepoint_that_is_rolled_back_undoes_a_batch_in_it(caller: World) -> None:
    inside, outside = caller.several_locked(2)
    with caller.transaction() as transaction:
        caller.queue.complete_batch([outside], transaction=transaction.handle)
        with transaction.savepoint():
            caller.queue.complete_batch([inside], transaction=transaction.handle)
            transaction.undo()
        transaction.commit()
    assert (inside.resolve(), outside.resolve()) == (ReceiveState.RECEIVED, ReceiveState.COMPLETED)
    assert caller.is_ours(inside)


def test_a_batch_alone_reports_messages_that_are_over_and_settles_the_others(own: World) -> None:
    done, faulted, good = own.several_locked(3)
    done.complete()
    faulted.fault()
    results = own.queue.complete_batch([done, faulted, good])
    assert [type(result.error) for result in results] == [MessageAlreadySettledError, FaultedError, type(None)]
    assert own.bodies() == [1]
    assert good.context.state is ReceiveState.COMPLETED


def test_in_a_callers_transaction_what_cannot_be_settled_any_more_stops_all(caller: World) -> None:
    good, done = caller.several_locked(2)
    done.complete()
    with caller.transaction() as transaction:
        with pytest.raises(MessageAlreadySettledError):
            caller.queue.complete_batch([good, done], transaction=transaction.handle)
        transaction.commit()
    assert good.context.state is ReceiveState.RECEIVED
    assert caller.is_ours(good)


def test_abandoning_again_in_a_batch_has_no_effect(own: World) -> None:
    abandoned, other = own.several_locked(2)
    abandoned.abandon()
    assert [result.is_settled for result in own.queue.abandon_batch([abandoned, other])] == [True, True]
    assert [message.delivery_count for message in own.queue.receive(max_messages=2)] == [2, 2]


def test_the_callbacks_of_each_run_and_one_that_raises_concerns_its_message_only(own: World) -> None:
    received = own.several_locked(3)
    called: list[int] = []
    for message in received:
        message.context.on_complete(partial(called.append, message.body))
    received[1].context.on_complete(lambda: 1 / 0)
    results = own.queue.complete_batch(received)
    assert called == [0, 1, 2]
    assert [type(result.error) for result in results] == [type(None), ZeroDivisionError, type(None)]
    assert received[1].context.state is ReceiveState.FAULTED
    assert own.bodies() == [1]


def test_a_callback_that_raises_leaves_no_message_settling_in_a_callers_transaction(caller: World) -> None:
    received = caller.several_locked(3)
    received[1].context.on_complete(lambda: 1 / 0)
    with caller.transaction() as transaction:
        with pytest.raises(ZeroDivisionError):
            caller.queue.complete_batch(received, transaction=transaction.handle)
        transaction.commit()
    states = [message.context.state for message in received]
    assert states == [ReceiveState.RECEIVED, ReceiveState.FAULTED, ReceiveState.RECEIVED]
    assert all(caller.is_ours(message) for message in received)


def test_many_locks_are_renewed_at_once(own: World) -> None:
    received = own.several_locked(3)
    own.queue.renew_lock_batch(received[:1], lock_duration=10 * MINUTE)
    own.move_clock(2 * MINUTE)
    current = own.receive()
    now = own.database.clock.now()
    results = own.queue.renew_lock_batch(received)
    assert [result.is_settled for result in results] == [True, False, True]
    assert [result.sequence_number for result in results] == [message.sequence_number for message in received]
    assert isinstance(results[1].error, LockLostError)
    for message, result in ((received[0], results[0]), (received[2], results[2])):
        assert result.locked_until is not None
        assert result.locked_until == message.locked_until
        assert now + MINUTE <= result.locked_until <= now + MINUTE + 10 * SECOND
    assert [message.context.state for message in received] == [
        ReceiveState.RECEIVED, ReceiveState.FAULTED, ReceiveState.RECEIVED,
    ]  # fmt: skip
    assert own.is_ours(current)


def test_a_message_that_is_over_does_not_keep_others_from_being_renewed(own: World) -> None:
    done, good, lost = own.several_locked(3)
    done.complete()
    lost.fault()
    before = good.locked_until
    own.move_clock(SECOND)
    first, second, third = own.queue.renew_lock_batch([done, good, lost])
    assert isinstance(first.error, MessageAlreadySettledError)
    assert isinstance(third.error, FaultedError)
    assert second.locked_until == good.locked_until != before
    assert [result.is_settled for result in own.queue.renew_lock_batch([done])] == [False]


def test_in_a_callers_transaction_a_renewal_of_what_is_over_is_refused_as_a_whole(caller: World) -> None:
    good, done = caller.several_locked(2)
    done.complete()
    with (
        caller.transaction() as transaction,
        pytest.raises(MessageAlreadySettledError, match="renew_lock_batch"),
    ):
        caller.queue.renew_lock_batch([good, done], transaction=transaction.handle)
    assert caller.is_ours(good)


@each_batch
def test_an_empty_batch_is_no_batch(world: World, verb: str) -> None:
    assert settle(world, verb, []) == []
    assert world.queue.renew_lock_batch([]) == []


@each_batch
def test_a_message_of_another_queue_is_refused_before_anything_happens(own: World, verb: str) -> None:
    ours = own.locked()
    own.client.create_queue(f"{own.name}/other")
    other = own.client.queue(f"{own.name}/other")
    with pytest.raises(InvalidArgumentError, match=f"belongs to queue {own.name}, not to {own.name}/other"):
        BATCHES[verb](other, [ours])
    with pytest.raises(InvalidArgumentError, match="belongs to"):
        other.renew_lock_batch([ours])
    assert ours.context.state is ReceiveState.RECEIVED
    assert own.is_ours(ours)


@each_batch
def test_a_message_that_stands_twice_is_refused_before_anything_happens(own: World, verb: str) -> None:
    ours = own.locked()
    with pytest.raises(InvalidArgumentError, match="twice"):
        BATCHES[verb](own.queue, [ours, ours])
    with pytest.raises(InvalidArgumentError, match="twice"):
        own.queue.renew_lock_batch([ours, ours])
    assert own.is_ours(ours)


def test_a_bad_argument_is_named_and_the_deliveries_go_on(own: World) -> None:
    received = own.several_locked(2)
    refused: list[tuple[str, Callable[[], object]]] = [
        ("delay", lambda: own.queue.abandon_batch(received, delay=5)),  # type: ignore[arg-type]
        ("delay", lambda: own.queue.abandon_batch(received, delay=-SECOND)),
        ("properties", lambda: own.queue.abandon_batch(received, properties=[1])),  # type: ignore[arg-type]
        ("reason", lambda: own.queue.dead_letter_batch(received, reason="")),
        ("description", lambda: own.queue.dead_letter_batch(received, reason="Bad", description="\0")),
        ("lock_duration", lambda: own.queue.renew_lock_batch(received, lock_duration=0 * SECOND)),
    ]
    for argument, batch in refused:
        with pytest.raises(InvalidArgumentError, match=f"{argument} must be"):
            batch()
        assert [message.context.state for message in received] == [ReceiveState.RECEIVED] * 2
    assert all(result.is_settled for result in own.queue.complete_batch(received))


def test_a_batch_of_a_deleted_queue_is_refused(own: World) -> None:
    received = own.several_locked(2)
    own.client.delete_queue(own.name)
    with pytest.raises(QueueNotFoundError):
        own.queue.complete_batch(received)
    assert [message.context.state for message in received] == [ReceiveState.RECEIVED] * 2


def test_a_thousand_are_settled_in_one_statement(own: World) -> None:
    received = own.several_locked(1000)
    with own.statements() as statements:
        assert all(result.is_settled for result in own.queue.complete_batch(received))
    assert len(statements) == 1
    assert own.found() == []


def test_a_batch_without_a_settlement_in_doubt_asks_for_no_outcome(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> None:
        raise AssertionError("nothing is in doubt")

    monkeypatch.setattr(settling, "resolve_batch", ask)
    received = either.several_locked(2)
    assert all(result.is_settled for result in either.queue.complete_batch(received))
