"""One by one, in every mode: what a verb does, and what is true afterwards."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from pgqueue import ReceivedMessage, ReceiveState
from pgqueue.errors import (
    FaultedError,
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
    MessageAlreadySettledError,
    MessageNotSerializableError,
)
from pgqueue.model.context import Outcome
from tests.contract.world import MINUTE, SECOND, World

Verb = Callable[..., object]

VERBS: dict[str, Verb] = {
    "complete": lambda received, **given: received.complete(**given),
    "abandon": lambda received, **given: received.abandon(**given),
    "abandon with delay": lambda received, **given: received.abandon(delay=MINUTE, **given),
    "dead_letter": lambda received, **given: received.dead_letter("Bad", "very", **given),
    "defer": lambda received, **given: received.defer(**given),
}

ENDS = dict.fromkeys(("complete", "dead_letter", "defer"), ReceiveState.COMPLETED)

each_verb = pytest.mark.parametrize("verb", VERBS)


def settle(world: World, verb: str, received: ReceivedMessage) -> None:
    """Settles in this mode's transaction, and makes it final."""
    with world.transaction() as transaction:
        VERBS[verb](received, transaction=transaction.handle)
        transaction.commit()
    received.resolve()


def test_a_completed_message_is_gone(world: World) -> None:
    received = world.locked()
    settle(world, "complete", received)
    assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.COMPLETED)
    assert received.state is ReceiveState.COMPLETED
    assert world.found() == []
    assert world.dead() == []
    world.move_clock(2 * MINUTE)
    assert world.queue.receive() == []


def test_an_abandoned_message_is_there_at_once_and_counted(world: World) -> None:
    received = world.locked()
    settle(world, "abandon", received)
    assert (received.context.state, received.context.outcome) == (ReceiveState.ABANDONED, Outcome.ABANDONED)
    again = world.receive()
    assert (again.sequence_number, again.delivery_count) == (received.sequence_number, 2)
    assert again.lock_token != received.lock_token
    assert received.state is ReceiveState.ABANDONED


def test_an_abandoned_message_is_redelivered_after_its_delay(world: World) -> None:
    received = world.locked()
    settle(world, "abandon with delay", received)
    assert world.queue.receive() == []
    (resting,) = world.found()
    assert (resting.locked_by, resting.locked_until) == (None, None)
    world.move_clock(MINUTE + 2 * SECOND)
    assert world.receive().delivery_count == 2


def test_an_abandoned_message_may_carry_a_note_for_the_next_delivery(world: World) -> None:
    received = world.locked()
    with world.transaction() as transaction:
        received.abandon(properties={"tries": 1, "why": {"ä": None}}, transaction=transaction.handle)
        transaction.commit()
    again = world.receive()
    assert again.application_properties == {"tries": 1, "why": {"ä": None}}
    with world.transaction() as transaction:
        again.abandon(delay=SECOND, properties=MappingProxyType({"tries": 2}), transaction=transaction.handle)
        transaction.commit()
    world.move_clock(5 * SECOND)
    assert world.receive().application_properties == {"tries": 2, "why": {"ä": None}}


def test_a_dead_lettered_message_is_among_the_dead_with_its_reason(world: World) -> None:
    received = world.locked({"id": 7})
    settle(world, "dead_letter", received)
    assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.DEAD_LETTERED)
    assert world.found() == []
    (dead,) = world.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Bad", "very")
    assert (dead.sequence_number, dead.body, dead.delivery_count) == (received.sequence_number, {"id": 7}, 1)
    assert (dead.enqueued_time, dead.locked_by) == (received.enqueued_time, None)


@each_verb
def test_a_verb_leaves_every_other_message_alone(world: World, verb: str) -> None:
    first, second, third = world.several_locked(3)
    settle(world, verb, second)
    assert world.is_ours(first)
    assert world.is_ours(third)


ILLEGAL_AFTERWARDS = {
    "complete": VERBS.keys(),
    "dead_letter": VERBS.keys(),
    "defer": VERBS.keys(),
    "abandon": ENDS.keys(),
    "abandon with delay": ENDS.keys(),
}


@each_verb
def test_a_settled_message_is_not_settled_again(world: World, verb: str) -> None:
    received = world.locked()
    settle(world, verb, received)
    before = (received.context.state, received.context.outcome, world.found(), world.dead())
    for name, again in VERBS.items():
        with world.transaction() as transaction:
            if name in ILLEGAL_AFTERWARDS[verb]:
                with pytest.raises(MessageAlreadySettledError, match="is illegal once the delivery is"):
                    again(received, transaction=transaction.handle)
            else:
                again(received, transaction=transaction.handle)
            transaction.commit()
        assert (received.context.state, received.context.outcome, world.found(), world.dead()) == before
    with pytest.raises(MessageAlreadySettledError):
        received.renew_lock()
    received.fault()
    assert received.context.state is before[0]


@each_verb
def test_a_faulted_delivery_is_not_settled(world: World, verb: str) -> None:
    received = world.locked()
    received.fault()
    with world.transaction() as transaction:
        with pytest.raises(FaultedError):
            VERBS[verb](received, transaction=transaction.handle)
        transaction.commit()
    with pytest.raises(FaultedError):
        received.renew_lock()
    assert received.state is ReceiveState.FAULTED
    assert world.is_ours(received)


@each_verb
def test_the_callbacks_run_while_the_message_is_still_there(world: World, verb: str) -> None:
    received = world.locked()
    seen: list[tuple[str, ReceiveState, bool]] = []
    for name in ("complete", "abandon", "fault"):
        register = getattr(received.context, f"on_{name}")
        register(lambda name=name: seen.append((name, received.context.state, world.is_ours(received))))
    settle(world, verb, received)
    expected = {
        "complete": [("complete", ReceiveState.COMPLETING, True)],
        "abandon": [("abandon", ReceiveState.ABANDONING, True)],
        "abandon with delay": [("abandon", ReceiveState.ABANDONING, True)],
        "dead_letter": [],
        "defer": [],
    }
    assert seen == expected[verb]


@pytest.mark.parametrize("verb", ["complete", "abandon"])
def test_a_callback_that_raises_faults_the_delivery_and_nothing_is_sent(world: World, verb: str) -> None:
    received = world.locked()
    getattr(received.context, f"on_{verb}")(lambda: 1 / 0)
    with world.transaction() as transaction:
        with pytest.raises(ZeroDivisionError):
            VERBS[verb](received, transaction=transaction.handle)
        transaction.commit()
    assert received.context.state is ReceiveState.FAULTED
    assert world.is_ours(received)


@each_verb
def test_a_lost_lock_raises_an_error_and_faults_the_delivery(world: World, verb: str) -> None:
    late = world.locked()
    world.move_clock(2 * MINUTE)
    current = world.receive()
    with world.transaction() as transaction, pytest.raises(LockLostError) as refusal:
        VERBS[verb](late, transaction=transaction.handle)
    assert refusal.value.sqlstate == "PQ001"
    assert f"message {late.sequence_number}" in str(refusal.value)
    assert late.context.state is ReceiveState.FAULTED
    assert world.is_ours(current)
    current.complete()


BAD_ARGUMENTS: dict[str, tuple[Verb, str, type[Exception]]] = {
    "a delay in seconds": (lambda received, **given: received.abandon(delay=5, **given), "delay", InvalidArgumentError),
    "a negative delay": (
        lambda received, **given: received.abandon(delay=-SECOND, **given),
        "delay",
        InvalidArgumentError,
    ),
    "properties that are a list": (
        lambda received, **given: received.abandon(properties=[1], **given),
        "properties",
        InvalidArgumentError,
    ),
    "properties that are not JSON": (
        lambda received, **given: received.abandon(properties={"a": {1}}, **given),
        "properties['a']",
        MessageNotSerializableError,
    ),
    "an empty reason": (lambda received, **given: received.dead_letter("", **given), "reason", InvalidArgumentError),
    "no reason": (lambda received, **given: received.dead_letter(None, **given), "reason", InvalidArgumentError),
    "a reason with a NUL": (
        lambda received, **given: received.dead_letter("a\0", **given),
        "reason",
        InvalidArgumentError,
    ),
    "a description that is a number": (
        lambda received, **given: received.dead_letter("Bad", 7, **given),
        "description",
        InvalidArgumentError,
    ),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_a_bad_argument_is_named_and_the_delivery_goes_on(world: World, case: str) -> None:
    verb, argument, error = BAD_ARGUMENTS[case]
    received = world.locked()
    with world.transaction() as transaction, pytest.raises(error) as refusal:
        verb(received, transaction=transaction.handle)
    assert argument in str(refusal.value)
    assert received.context.state is ReceiveState.RECEIVED
    assert world.is_ours(received)
    settle(world, "complete", received)


def test_a_bad_lock_duration_is_named(own: World) -> None:
    received = own.locked()
    for bad in (5, -SECOND, 0 * SECOND):
        with pytest.raises(InvalidArgumentError, match="lock_duration must be"):
            received.renew_lock(lock_duration=bad)  # type: ignore[arg-type]
    assert received.state is ReceiveState.RECEIVED


def test_a_delivery_that_is_being_completed_can_only_be_faulted(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        assert received.context.state is ReceiveState.COMPLETING
        illegal: list[Callable[[], Any]] = [
            received.complete,
            received.abandon,
            lambda: received.dead_letter("Bad"),
            lambda: received.complete(transaction=transaction.handle),
            lambda: received.transaction().__enter__(),
        ]
        for call in illegal:
            with pytest.raises(InvalidStateError, match="completing"):
                call()
            assert received.context.state is ReceiveState.COMPLETING
        transaction.commit()
    assert received.resolve() is ReceiveState.COMPLETED


def test_a_lock_that_is_being_settled_needs_no_renewal_and_does_not_wait_for_one(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        assert received.renew_lock() == received.locked_until
        transaction.rollback()
    assert received.resolve() is ReceiveState.RECEIVED
    assert caller.is_ours(received)
