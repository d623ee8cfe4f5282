"""`process`: back to the beginning of the transaction, on the same lock, for as long as it may help."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import tenacity

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    LockLostError,
    MessageAlreadySettledError,
    UnsupportedSourceError,
)
from pgqueue.model.context import Outcome
from tests.contract.interpreter import meant
from tests.contract.transactions import execute
from tests.contract.world import MINUTE, SECOND, World

AT_ONCE = tenacity.Retrying(stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_none())

CONFLICT = "do $$ begin raise exception 'again' using errcode = '40001'; end $$"

#: The sources that can begin a new transaction after their connection was lost.
LASTING = ["nothing", "pool", "engine", "sqlalchemy connection", "session", "scoped session", "session maker"]


class WorkFailedError(Exception):
    """Raised by the work of a test."""


class Tries:
    """Work that fails on the first tries as the failures define, and records each try."""

    def __init__(self, world: World, *failures: Callable[[Any], object]) -> None:
        self._world = world
        self._failures = list(failures)
        self.count = 0
        self.tokens: list[Any] = []

    def __call__(self, message: ReceivedMessage, tx: Any) -> str:
        self.count += 1
        self.tokens.append(message.lock_token)
        execute(tx, self._world.note(f"try {self.count}"))
        if self.count <= len(self._failures):
            self._failures[self.count - 1](tx)
        return f"done at try {self.count}"


def conflict(tx: Any) -> None:
    execute(tx, CONFLICT)


def cut(connection: Any) -> None:
    """Cuts the connection both ways, without notice to either end."""
    with socket.socket(fileno=os.dup(meant(connection).fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def fail(_: Any) -> None:
    raise WorkFailedError


def test_the_work_is_done_and_committed_with_the_completion(either: World, workplace: str) -> None:
    received = either.locked()
    work = Tries(either)
    with either.sources.workplace(workplace) as source:
        assert either.sources.process(received, work, source) == "done at try 1"
    assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.COMPLETED)
    assert either.effects() == ["try 1"]
    assert either.found() == []


def test_work_that_takes_one_argument_gets_the_message(either: World) -> None:
    received = either.locked()
    assert either.sources.process(received, lambda message: message.sequence_number) == received.sequence_number
    assert received.context.state is ReceiveState.COMPLETED
    assert either.found() == []


@pytest.mark.parametrize("work", [lambda: None, lambda message, tx, more: None, lambda *, tx: None])
def test_work_that_takes_anything_else_is_refused(either: World, work: Any) -> None:
    received = either.locked()
    with pytest.raises(InvalidArgumentError, match=r"the work takes \(message\) or \(message, tx\), not "):
        either.sources.process(received, work)
    assert either.is_ours(received)


async def test_a_message_of_the_other_face_is_refused(either: World) -> None:
    received = either.locked()

    async def process_with_the_other_face() -> None:
        if either.mode.face == "sync":
            await pgqueue.aio.process(meant(received), print)
        else:
            pgqueue.process(meant(received), print)

    with pytest.raises(InvalidArgumentError, match=r"was received with pgqueue.*: process it with pgqueue.*\.process"):
        await process_with_the_other_face()
    with pytest.raises(InvalidArgumentError, match="received under lock"):
        pgqueue.process({"body": 1}, print)  # type: ignore[call-overload]
    assert either.is_ours(received)


def test_after_a_conflict_the_work_is_done_again_on_the_same_lock(either: World, workplace: str) -> None:
    received = either.locked()
    work = Tries(either, conflict, conflict)
    with either.sources.workplace(workplace) as source:
        assert either.sources.process(received, work, source, retry=AT_ONCE) == "done at try 3"
    assert work.tokens == [received.lock_token] * 3
    assert received.delivery_count == 1
    assert either.effects() == ["try 3"]
    assert either.found() == []


@pytest.mark.parametrize("kind", ["connection", "engine", "session"])
def test_a_real_serialization_failure_is_tried_again(either: World, kind: str) -> None:
    """Two serializable transactions that each read what the other writes: the second to commit cannot be right."""
    count = f"select count(*) from effect where place = '{either.name}'"

    def rival(_: Any) -> None:
        with either.database.connect() as connection:
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            connection.execute(count)
            connection.execute(either.note("rival"))

    tries: list[int] = []

    def work(message: ReceivedMessage, tx: Any) -> None:
        ((there,),) = execute(tx, count)
        tries.append(there)
        if len(tries) == 1:
            rival(tx)
        execute(tx, either.note(f"found {there}"))

    received = either.locked()
    with either.sources.serializable(kind) as source:
        either.sources.process(received, work, source, retry=AT_ONCE)
    assert tries == [0, 1]
    assert either.effects() == ["rival", "found 1"]
    assert received.context.state is ReceiveState.COMPLETED
    assert either.found() == []


@pytest.mark.parametrize("kind", ["nothing", "engine", "session maker"])
def test_a_real_deadlock_is_tried_again(either: World, kind: str) -> None:
    add = f"update counter set n = n + 1 where place = '{either.name}/%s'"
    either.run(f"insert into counter values ('{either.name}/a', 0), ('{either.name}/b', 0)")
    rival = either.database.connect()
    rivals: list[Future[Any]] = []

    def finish() -> None:
        rival.execute(add % "a")
        rival.commit()

    def lock_the_other_way_round() -> None:
        rival.execute(add % "b")
        rivals.append(threads.submit(finish))
        either.wait_until_blocked(rival.info.backend_pid)

    def work(message: ReceivedMessage, tx: Any) -> None:
        execute(tx, "set local deadlock_timeout = '1 ms'")
        execute(tx, add % "a")
        if not rivals:
            lock_the_other_way_round()
        execute(tx, add % "b")

    received = either.locked()
    with ThreadPoolExecutor(1) as threads, either.sources.workplace(kind) as source, rival:
        either.sources.process(received, work, source, retry=AT_ONCE)
        rivals[0].result()
    assert either.look(f"select n from counter where place like '{either.name}/_'") == [(2,), (2,)]
    assert received.context.state is ReceiveState.COMPLETED


@pytest.mark.parametrize("kind", LASTING)
def test_after_a_lost_connection_the_work_is_done_again_on_another(either: World, kind: str) -> None:
    def terminate(tx: Any) -> None:
        ((process,),) = execute(tx, "select pg_backend_pid()")
        either.look("select pg_terminate_backend(%s, 5000)", process)
        execute(tx, "select 1")

    received = either.locked()
    work = Tries(either, terminate)
    with either.sources.workplace(kind) as source:
        assert either.sources.process(received, work, source, retry=AT_ONCE) == "done at try 2"
    assert work.tokens == [received.lock_token] * 2
    assert either.effects() == ["try 2"]
    assert either.found() == []


@pytest.mark.parametrize("kind", ["nothing", "pool"])
def test_a_connection_that_breaks_without_a_word_is_lost_too(either: World, kind: str) -> None:
    def work(tx: Any) -> None:
        cut(tx)
        execute(tx, "select 1")

    received = either.locked()
    with either.sources.workplace(kind) as source:
        assert either.sources.process(received, Tries(either, work), source, retry=AT_ONCE) == "done at try 2"
    assert either.effects() == ["try 2"]


def test_a_connection_of_the_callers_that_is_lost_cannot_be_replaced(either: World) -> None:
    received = either.locked()
    with either.sources.workplace("connection") as source:
        cut(source)
        with pytest.raises(ConnectionLostError):
            either.sources.process(received, Tries(either), source, retry=AT_ONCE)
    assert received.context.state is ReceiveState.ABANDONED
    assert either.effects() == []


def test_the_lock_is_renewed_between_the_tries(either: World) -> None:
    received = either.locked()
    until: list[Any] = []

    def look_and_linger(tx: Any) -> None:
        until.append(either.found()[0].locked_until)
        either.move_clock(50 * SECOND)
        conflict(tx)

    work = Tries(either, look_and_linger, look_and_linger, look_and_linger)
    assert either.sources.process(received, work, retry=AT_ONCE) == "done at try 4"
    assert len(set(until)) == 3
    assert until[1] - until[0] >= 50 * SECOND
    assert until[2] - until[1] >= 50 * SECOND


def test_a_lock_that_is_lost_between_the_tries_ends_them(either: World) -> None:
    received = either.locked()
    taken: list[ReceivedMessage] = []

    def lose(_: tenacity.RetryCallState) -> None:
        either.move_clock(2 * MINUTE)
        with QueueClient(either.database.dsn) as somebody_else:
            taken.extend(somebody_else.queue(either.name).receive())

    work = Tries(either, conflict)
    with pytest.raises(LockLostError):
        either.sources.process(received, work, retry=AT_ONCE.copy(after=lose))
    assert work.count == 1
    assert received.context.state is ReceiveState.FAULTED
    assert either.effects() == []
    assert either.is_ours(taken[0])


def test_when_the_policy_gives_up_the_message_is_abandoned_and_the_error_raised(either: World) -> None:
    received = either.locked()
    work = Tries(either, *[conflict] * 9)
    with pytest.raises(Exception, match="again") as failure:
        either.sources.process(received, work, retry=AT_ONCE.copy(stop=tenacity.stop_after_attempt(3)))
    assert not isinstance(failure.value, tenacity.RetryError)
    assert work.count == 3
    assert received.context.state is ReceiveState.ABANDONED
    assert either.effects() == []
    assert either.queue.receive() == []
    either.move_clock(3 * SECOND)
    assert either.receive().delivery_count == 2


def test_by_default_five_tries_are_made(either: World) -> None:
    work = Tries(either, *[conflict] * 9)
    with pytest.raises(Exception, match="again"):
        either.sources.process(either.locked(), work)
    assert work.count == 5


def test_a_policy_determines_the_wait_and_is_called_for_every_try(either: World) -> None:
    asked: list[int] = []
    told: list[tuple[str, int]] = []

    def wait(state: tenacity.RetryCallState) -> float:
        asked.append(state.attempt_number)
        return 0.001

    policy = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(3),
        wait=wait,
        before=lambda state: told.append(("before", state.attempt_number)),
        after=lambda state: told.append(("after", state.attempt_number)),
        before_sleep=lambda state: told.append(("sleep", state.attempt_number)),
    )
    either.sources.process(either.locked(), Tries(either, conflict, conflict), retry=policy)
    assert asked == [1, 2]
    assert told == [
        ("before", 1), ("after", 1), ("sleep", 1), ("before", 2), ("after", 2), ("sleep", 2), ("before", 3),
    ]  # fmt: skip


def test_an_asynchronous_policy_does_as_well(either: World) -> None:
    policy = tenacity.AsyncRetrying(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none())
    assert either.sources.process(either.locked(), Tries(either, conflict), retry=policy) == "done at try 2"


def test_a_policy_that_would_hide_the_error_is_refused(either: World) -> None:
    received = either.locked()
    policy = AT_ONCE.copy(stop=tenacity.stop_after_attempt(1), retry_error_callback=lambda _: "all is well")
    with pytest.raises(InvalidArgumentError, match="leave out retry_error_callback"):
        either.sources.process(received, Tries(either, conflict), retry=policy)
    assert received.context.state is ReceiveState.RECEIVED


def test_one_policy_serves_many_messages_at_once(either: World) -> None:
    received = either.several_locked(6)

    def run(message: ReceivedMessage) -> object:
        return either.sources.process(message, Tries(either, conflict), retry=AT_ONCE)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(run, received)) == ["done at try 2"] * 6
    assert either.found() == []


@pytest.mark.parametrize("deliveries", [1, 2, 4])
def test_any_other_error_abandons_with_backoff_and_is_raised(either: World, deliveries: int) -> None:
    received = either.locked()
    for _ in range(deliveries - 1):
        received.abandon()
        received = either.receive()
    work = Tries(either, fail)
    with pytest.raises(WorkFailedError):
        either.sources.process(received, work, retry=AT_ONCE)
    assert work.count == 1
    assert received.context.state is ReceiveState.ABANDONED
    assert either.effects() == []
    backoff = 2 ** (deliveries - 1) * SECOND
    either.move_clock(backoff - SECOND / 2)
    assert either.queue.receive() == []
    either.move_clock(2 * SECOND)
    assert either.receive().delivery_count == deliveries + 1


def test_poison_that_fails_every_time_ends_among_the_dead(either: World) -> None:
    either.client.update_queue(either.name, max_delivery_count=3)
    either.send("poison")
    failures = 0
    while received := either.queue.receive():
        with suppress(WorkFailedError):
            either.sources.process(received[0], Tries(either, fail))
        failures += 1
        either.move_clock(MINUTE)
    assert failures == 3
    assert [message.dead_letter_reason for message in either.dead()] == ["MaxDeliveryCountExceeded"]


@pytest.mark.parametrize("description", [None, "customer 7 is not in the ledger"])
def test_a_verdict_of_the_work_dead_letters_the_message(either: World, workplace: str, description: str | None) -> None:
    def condemn(_: Any) -> None:
        raise DeadLetter("UnknownCustomer", description)

    received = either.locked()
    with either.sources.workplace(workplace) as source:
        assert either.sources.process(received, Tries(either, condemn), source, retry=AT_ONCE) is None
    assert (received.context.state, received.context.outcome) == (ReceiveState.COMPLETED, Outcome.DEAD_LETTERED)
    (dead,) = either.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("UnknownCustomer", description)
    assert either.effects() == []
    assert either.found() == []


def test_the_work_may_settle_the_message_itself(either: World) -> None:
    def give_back(message: ReceivedMessage, tx: Any) -> str:
        execute(tx, either.note("looked at"))
        message.abandon(delay=MINUTE, transaction=tx)
        return "later"

    received = either.locked()
    assert either.sources.process(received, give_back) == "later"
    assert received.context.state is ReceiveState.ABANDONED
    assert either.effects() == ["looked at"]
    assert either.queue.receive() == []


def test_work_stopped_from_outside_leaves_the_message_locked_and_unabandoned(either: World) -> None:
    class Stopped(BaseException):
        """As KeyboardInterrupt is: no failure of the work."""

    def stop(_: Any) -> None:
        raise Stopped

    received = either.locked()
    with pytest.raises(Stopped):
        either.sources.process(received, Tries(either, stop), retry=AT_ONCE)
    assert received.context.state is ReceiveState.RECEIVED
    assert either.is_ours(received)
    assert either.effects() == []


def test_a_delivery_that_is_over_is_not_processed(either: World) -> None:
    received = either.locked()
    received.complete()
    work = Tries(either)
    with pytest.raises(MessageAlreadySettledError):
        either.sources.process(received, work)
    assert work.count == 0


def test_work_never_starts_on_a_message_that_is_lost_already(either: World) -> None:
    received = either.locked()
    either.move_clock(2 * MINUTE)
    current = either.receive()
    work = Tries(either)
    with pytest.raises(LockLostError):
        either.sources.process(received, work)
    assert work.count == 0
    assert received.context.state is ReceiveState.FAULTED
    assert either.is_ours(current)


def test_processing_after_an_unreported_abort_completes_the_message(caller: World) -> None:
    received = caller.locked()
    with caller.transaction() as transaction:
        received.complete(transaction=transaction.handle)
        transaction.rollback()
    caller.sources.process(received, Tries(caller))
    assert caller.effects() == ["try 1"]
    assert caller.found() == []


def test_a_source_that_is_none_is_refused(either: World) -> None:
    with pytest.raises(UnsupportedSourceError):
        either.sources.process(either.locked(), Tries(either), "postgresql://localhost/db")


def test_the_work_sees_the_errors_of_its_own_driver(either: World) -> None:
    failures: list[BaseException | None] = []

    def watch(state: tenacity.RetryCallState) -> None:
        assert state.outcome is not None
        failures.append(state.outcome.exception())

    either.sources.process(either.locked(), Tries(either, conflict), retry=AT_ONCE.copy(after=watch))
    assert [type(failure) for failure in failures] == [psycopg.errors.SerializationFailure]
