"""Results: a consumer completes a message with one, and the sender waits for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import pgqueue
from pgqueue import Outcome, ReceiveState
from pgqueue.errors import (
    InvalidArgumentError,
    MessageNotFoundError,
    MessageNotSerializableError,
    MessageSizeExceededError,
    OperationTimeoutError,
    QueueNotFoundError,
)
from tests.contract.world import MINUTE, SECOND, World

SOON = timedelta(milliseconds=50)


def keep(world: World, **settings: Any) -> None:
    world.client.update_queue(world.name, result_retention=timedelta(days=1), **settings)


def ended(outcome: Outcome | None) -> tuple[str, Any]:
    assert outcome is not None
    return outcome.state, outcome.result


@pytest.mark.parametrize("result", [{"total": 3}, 0, False, "", [], "ü\N{SNOWMAN}", None])
def test_a_caller_that_waits_gets_the_result(world: World, result: Any) -> None:
    keep(world)
    received = world.locked()
    with world.transaction() as transaction:
        received.complete(result=result, transaction=transaction.handle)
        transaction.commit()
    assert ended(world.queue.wait_for(received.sequence_number, timeout=MINUTE)) == ("COMPLETED", result)
    assert ended(world.queue.result(received.sequence_number)) == ("COMPLETED", result)


def test_a_rollback_leaves_no_result(caller: World) -> None:
    keep(caller)
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(result=1, transaction=transaction.handle)
        transaction.rollback()
    assert caller.queue.result(received.sequence_number) is None
    assert received.resolve() is ReceiveState.RECEIVED
    received.complete(result=2)
    assert ended(caller.queue.result(received.sequence_number)) == ("COMPLETED", 2)


def test_a_dead_letter_has_its_reason_and_its_error(own: World) -> None:
    keep(own)
    received = own.locked()
    received.dead_letter("Invalid", "no such city", error=ValueError("no"))
    outcome = own.queue.wait_for(received.sequence_number, timeout=MINUTE)
    assert (outcome.state, outcome.error) == ("DEAD_LETTERED", "Invalid: no such city")
    assert outcome.last_error is not None
    assert (outcome.last_error.type, outcome.last_error.text) == ("ValueError", "no")


def test_a_cancelled_message_is_deleted(either: World) -> None:
    keep(either)
    (number,) = either.send("a")
    either.queue.cancel(number)
    outcome = either.queue.wait_for(number, timeout=MINUTE)
    assert (outcome.state, outcome.result, outcome.error) == ("DELETED", None, "CANCELLED")


def test_a_message_that_is_not_settled_in_time(own: World) -> None:
    keep(own)
    (number,) = own.send("a")
    with pytest.raises(OperationTimeoutError, match=f"message {number} of queue {own.name} is not settled yet"):
        own.queue.wait_for(number, timeout=SOON)
    assert own.queue.result(number) is None


def test_a_deadline_ends_the_wait(either: World) -> None:
    keep(either)
    (number,) = either.send("a")
    with pgqueue.deadline(SOON), pytest.raises(OperationTimeoutError):
        either.queue.wait_for(number)


def test_a_message_that_the_queue_does_not_know(own: World) -> None:
    keep(own)
    for number in (10**15, -1, 0):
        with pytest.raises(MessageNotFoundError, match=f"neither message {number} nor its outcome.*Commit before"):
            own.queue.wait_for(number, timeout=MINUTE)
        assert own.queue.result(number) is None


def test_an_outcome_that_is_forgotten(own: World) -> None:
    keep(own)
    received = own.locked()
    received.complete(result=1)
    own.client.update_queue(own.name, result_retention=MINUTE)
    own.run("update pgqueue.outcome set settled_at = settled_at - interval '1 hour'")
    with pytest.raises(MessageNotFoundError, match="forgotten"):
        own.queue.wait_for(received.sequence_number, timeout=MINUTE)


def test_a_queue_that_keeps_no_results(own: World) -> None:
    received = own.locked()
    with pytest.raises(InvalidArgumentError, match="keeps no results"):
        received.complete(result=1)
    for ask in (own.queue.wait_for, own.queue.result):
        with pytest.raises(InvalidArgumentError, match="keeps no results"):
            ask(received.sequence_number)
    received.complete()
    with pytest.raises(QueueNotFoundError):
        own.client.queue("none").wait_for(1)


@pytest.mark.parametrize("result", [float("nan"), "\0", "\ud800", {1, 2}, object()])
def test_a_result_that_is_no_json_is_refused_before_anything_happens(either: World, result: Any) -> None:
    keep(either)
    received = either.locked()
    with pytest.raises(MessageNotSerializableError, match="result"):
        received.complete(result=result)
    assert either.is_ours(received)
    received.complete(result="done")


def test_a_result_is_as_large_as_a_message(either: World) -> None:
    keep(either, max_message_size=10)
    received = either.locked("a")
    with pytest.raises(MessageSizeExceededError, match=f"result of message {received.sequence_number} has 12 bytes"):
        received.complete(result="0123456789")
    assert either.is_ours(received)


@pytest.mark.parametrize(
    "arguments", [{"timeout": 5}, {"timeout": 0 * SECOND}, {"timeout": -SECOND}, {"sequence_number": None}]
)
def test_bad_arguments(either: World, arguments: Any) -> None:
    keep(either)
    with pytest.raises(InvalidArgumentError):
        either.queue.wait_for(**{"sequence_number": 1, **arguments})


def test_the_work_of_process_completes_with_a_result_in_its_transaction(own: World) -> None:
    keep(own)
    received = own.locked()

    def work(message: Any, transaction: Any) -> None:
        message.complete(result={"by": "work"}, transaction=transaction)

    own.sources.process(received, work)
    assert ended(own.queue.result(received.sequence_number)) == ("COMPLETED", {"by": "work"})
