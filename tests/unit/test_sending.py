"""Decisions of a sender: the messages of the next flush, and the outcome of each."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from pgqueue import Message, SequenceNumber
from pgqueue.aio import sender as aio_sender
from pgqueue.errors import (
    CommitInDoubtError,
    ConnectionLostError,
    InvalidStateError,
    MessageSizeExceededError,
    PGQueueError,
    QueueDisabledError,
    SendError,
    TransactionConflictError,
)
from pgqueue.flows import Flow, Pause
from pgqueue.model.encoding import encode
from pgqueue.model.policy import retry_policy
from pgqueue.sending import Flusher, Outbox, Outgoing, Portion, log_unread, outbox, report
from pgqueue.statements import Statement, sending
from pgqueue.statements.sending import Stored
from pgqueue.transports.waiters import Waiters

THREE_TRIES = retry_policy(tenacity.Retrying(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_fixed(1)))


class Rung:
    """A bell, and how often it was rung."""

    def __init__(self) -> None:
        self.times = 0

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        self.times += 1


class Scenario:
    """An outbox with sends in it."""

    def __init__(self, *bodies: Any) -> None:
        self.arrived = Rung()
        self.room = 0
        self.outbox = Outbox("orders", self.arrived, self.make_room)
        self.sends = [self.send(body) for body in bodies]

    def make_room(self, places: int) -> None:
        self.room += places

    def send(self, body: Any) -> Outgoing:
        send = Outgoing(Message(body), self.outbox)
        self.outbox.put(send)
        return send

    def outcomes(self) -> list[Any]:
        """A number, or the class of the error."""
        return [type(each.outcome) if isinstance(each.outcome, Exception) else each.outcome for each in self.sends]


Line = Callable[[Sequence[str], bool], list[int]]


class Server:
    """Plays the database: stores what it receives, unless a failure is due, and answers about transactions."""

    is_one_connection = False
    pipelines = False
    schema = "pgqueue"
    interceptors: Any = None

    def __init__(self, *failures: Callable[[list[str], bool], Exception | None]) -> None:
        self.failures = list(failures)
        self.turns: list[tuple[list[str], bool]] = []
        self.committed: list[str] = []
        self.answers: list[Any] = []
        self.lines = 0
        self._open: list[str] = []

    conninfo = ""
    timeout = 30.0

    def loss_signal(self, _: str) -> None:
        pass

    def wake_signal(self, _: str) -> None:
        """Nobody listens."""

    def waiters(self, queue: str) -> Waiters:
        return Waiters(queue, lambda: None)

    def line(self) -> Flow[Any]:
        yield from ()
        self.lines += 1
        return self

    def exchange(self, statement: Statement[Any] | None, *, commit: bool) -> Flow[Any]:
        yield from ()
        bodies = [] if statement is None else bodies_of(statement)
        self.turns.append((bodies, commit))
        failure = self.failures.pop(0)(bodies, commit) if self.failures else None
        if failure is not None:
            raise failure
        if commit:
            self.committed += self._open
        self._open = bodies
        return Stored("7", "today", [SequenceNumber(int(body)) for body in bodies]) if bodies else None

    def release(self) -> Flow[None]:
        yield from ()
        self.lines -= 1

    def execute(self, statement: Statement[Any]) -> Flow[Any]:
        yield from ()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer == "committed":
            self.committed += self._open
        return answer

    def begin(self) -> Flow[Any]:
        raise NotImplementedError

    def close(self) -> Flow[None]:
        raise NotImplementedError


def test_an_exit_in_the_task_of_a_sender_ends_the_program() -> None:
    class Exiting:
        def run(self, wait: Any) -> Flow[None]:
            yield from ()
            raise SystemExit(7)

    scenario = Scenario(1)
    with pytest.raises(SystemExit):
        asyncio.run(aio_sender._empty(scenario.outbox, Exiting(), asyncio.Event()))  # type: ignore[arg-type]
    assert scenario.outcomes() == [PGQueueError]


class Picky(Server):
    """Refuses some messages; the COMMIT before them goes through."""

    def __init__(self, *bad: int) -> None:
        super().__init__()
        self._bad = {str(body) for body in bad}

    def exchange(self, statement: Statement[Any] | None, *, commit: bool) -> Flow[Any]:
        if statement is not None and self._bad & {*bodies_of(statement)}:
            self.turns.append((bodies_of(statement), commit))
            raise MessageSizeExceededError("too large")
        return (yield from super().exchange(statement, commit=commit))

    def execute(self, statement: Statement[Any]) -> Flow[Any]:
        self.answers = ["committed"]
        return (yield from super().execute(statement))


def bodies_of(statement: Statement[Any]) -> list[str]:
    """Numbers all of them; one by itself, or in an array."""
    return re.findall(r"\d+", str(statement.parameters["body"]))


def fine(bodies: list[str], commit: bool) -> None:
    return None


def raises(error: Exception) -> Callable[[list[str], bool], Exception]:
    return lambda bodies, commit: error


def refuses(*bad: str) -> Callable[[list[str], bool], Exception | None]:
    return lambda bodies, commit: MessageSizeExceededError("too large") if {*bad} & {*bodies} else None


def work_off(scenario: Scenario, server: Server) -> list[float]:
    """Empties the outbox; returns the pauses."""
    scenario.outbox.close()
    steps = told_the_time(Flusher(scenario.outbox, server, THREE_TRIES).run(pytest.fail))
    return [step.duration.total_seconds() for step in steps if isinstance(step, Pause)]


def told_the_time(flow: Flow[None]) -> Iterator[Any]:
    """The steps of a flow. Only a step that reads the clock is run."""
    answer = None
    with suppress(StopIteration):
        while True:
            step = flow.send(answer)
            yield step
            answer = step() if step is time.monotonic else None


def test_all_that_waits_goes_with_the_next_flush_and_its_commit_with_the_one_after() -> None:
    scenario, server = Scenario(1, 2, 3), Server()
    server.failures = [lambda bodies, commit: scenario.sends.append(scenario.send(4)), fine, fine]
    scenario.outbox.close()
    scenario.outbox._closed = False
    run = Flusher(scenario.outbox, server, THREE_TRIES).run(scenario.outbox.close)
    for step in told_the_time(run):
        step()
    assert server.turns == [(["1", "2", "3"], False), (["4"], True), ([], True)]
    assert scenario.outcomes() == [1, 2, 3, 4]
    assert scenario.room == 4
    assert server.lines == 0


def test_nothing_is_settled_before_its_commit() -> None:
    scenario = Scenario(1)
    seen = []
    server = Server(fine, lambda bodies, commit: seen.append(scenario.outcomes()))
    work_off(scenario, server)
    assert seen == [[None]]
    assert scenario.outcomes() == [1]


@given(st.lists(st.integers(0, 63), unique=True, max_size=12))
def test_each_has_an_outcome_of_its_own(bad: list[int]) -> None:
    scenario, server = Scenario(*range(64)), Picky(*bad)
    work_off(scenario, server)
    assert scenario.outcomes() == [MessageSizeExceededError if body in bad else body for body in range(64)]
    assert server.committed == [str(body) for body in range(64) if body not in bad]
    assert len(server.turns) <= 3 + 13 * len(bad), "halves of halves"


def test_a_refusal_by_the_queue_is_raised_at_once_for_all() -> None:
    scenario, server = Scenario(*range(64)), Server(raises(QueueDisabledError("disabled", tracking_id="abc")))
    assert work_off(scenario, server) == []
    assert len(server.turns) == 1
    assert scenario.outcomes() == [QueueDisabledError] * 64
    errors = [each.outcome for each in scenario.sends]
    assert {error.tracking_id for error in errors if isinstance(error, PGQueueError)} == {"abc"}
    assert len({id(error) for error in errors}) == 64


def test_a_transient_failure_is_retried_as_often_as_the_policy_allows() -> None:
    scenario, server = Scenario(1, 2), Server(*[raises(TransactionConflictError("again"))] * 2)
    assert work_off(scenario, server) == [1, 1]
    assert scenario.outcomes() == [1, 2]
    scenario, server = Scenario(1, 2), Server(*[raises(TransactionConflictError("again"))] * 3)
    assert work_off(scenario, server) == [1, 1]
    assert scenario.outcomes() == [TransactionConflictError] * 2
    assert server.lines == 0


def test_a_connection_lost_before_the_id_was_known_has_committed_nothing_and_needs_no_query() -> None:
    scenario, server = Scenario(1), Server(raises(ConnectionLostError("gone")))
    work_off(scenario, server)
    assert server.committed == ["1"]
    assert scenario.outcomes() == [1]


@pytest.mark.parametrize(
    ("answers", "sent_again"),
    [
        (["committed"], False),
        (["aborted"], True),
        (["in progress", "in progress", "committed"], False),
        ([ConnectionLostError("still gone"), "aborted"], True),
        ([PGQueueError("in the future", sqlstate="22023")], True),
    ],
)
def test_a_commit_that_was_not_answered_is_asked_about(answers: list[Any], sent_again: bool) -> None:
    scenario, server = Scenario(1), Server(fine, raises(ConnectionLostError("gone")))
    server.answers = answers
    work_off(scenario, server)
    assert server.committed == ["1"]
    assert ((["1"], False) in server.turns[2:]) == sent_again
    assert scenario.outcomes() == [1]


@pytest.mark.parametrize("answer", ["unknown", PGQueueError("no")])
def test_an_unknown_outcome_is_raised_as_commit_in_doubt(answer: Any) -> None:
    scenario, server = Scenario(1, 2), Server(fine, raises(ConnectionLostError("gone")))
    server.answers = [answer]
    work_off(scenario, server)
    assert scenario.outcomes() == [CommitInDoubtError] * 2
    assert len(server.turns) == 2, "it is not sent again"


def test_a_commit_that_is_refused_concerns_the_flush_before() -> None:
    """The statement sent with it had not begun: it has lost no attempt, and is not split."""
    scenario = Scenario(1)
    refusal = MessageSizeExceededError("at the commit")
    server = Server(lambda bodies, commit: scenario.sends.extend(map(scenario.send, (2, 3))), raises(refusal))
    server.answers = ["aborted"]
    run = Flusher(scenario.outbox, server, THREE_TRIES).run(scenario.outbox.close)
    for step in told_the_time(run):
        step()
    assert scenario.outcomes() == [MessageSizeExceededError, 2, 3]
    assert server.turns[1:3] == [(["2", "3"], True), (["2", "3"], False)]


def test_a_flush_that_is_refused_does_not_concern_the_commit_it_travelled_with() -> None:
    scenario = Scenario(1)
    server = Server(
        lambda bodies, commit: scenario.sends.extend(map(scenario.send, (2, 3))), refuses("2"), refuses("2")
    )
    server.answers = ["committed"]
    run = Flusher(scenario.outbox, server, THREE_TRIES).run(scenario.outbox.close)
    for step in told_the_time(run):
        step()
    assert scenario.outcomes() == [1, MessageSizeExceededError, 3]
    assert server.committed == ["1", "3"]


def test_a_flush_is_bounded_in_number_and_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MESSAGES_AT_ONCE", 3)
    monkeypatch.setattr(outbox, "SIZE_AT_ONCE", 10)
    scenario = Scenario(1, 2, 3, 4, "x" * 50, 5, "y" * 7, 6)
    taken = []
    while (portion := scenario.outbox.take()) is not None:
        taken.append([send.message.body for send in portion.sends])
    assert taken == [[1, 2, 3], [4], ["x" * 50], [5, "y" * 7], [6]]


def test_messages_put_back_go_first_in_their_order() -> None:
    scenario = Scenario(1, 2, 3)
    portion = scenario.outbox.take()
    assert portion is not None
    scenario.send(4)
    scenario.outbox.put_back(*portion.halves())
    order = [[send.message.body for send in taken.sends] for taken in iter(scenario.outbox.take, None)]
    assert order == [[1], [2, 3], [4]]


def test_a_failure_of_the_sender_itself_is_the_outcome_of_all_that_is_out() -> None:
    scenario = Scenario(1, 2, 3)
    scenario.outbox.put_back(*Portion(scenario.sends[:2]).halves())
    scenario.outbox.fail(ZeroDivisionError("a bug"))
    assert scenario.outcomes() == [PGQueueError] * 3
    assert scenario.room == 3
    assert "is not stored" in str(scenario.sends[0].outcome)
    with pytest.raises(InvalidStateError, match="failed: make another"):
        scenario.send(4)
    scenario.outbox.close()
    assert scenario.outbox.is_over


def test_an_outcome_that_was_read_is_not_raised_again() -> None:
    scenario = Scenario(1, 2)
    scenario.outbox.refuse(Portion(scenario.sends), TransactionConflictError("again"))
    with pytest.raises(TransactionConflictError):
        scenario.outbox.read(scenario.sends[0])
    with pytest.raises(SendError, match="1 failed") as failed:
        scenario.outbox.raise_unread()
    assert failed.value.exceptions == (scenario.sends[1].outcome,)
    scenario.outbox.raise_unread()


def test_a_block_that_failed_keeps_its_own_error(caplog: pytest.LogCaptureFixture) -> None:
    scenario = Scenario(1)
    scenario.outbox.refuse(Portion(scenario.sends), QueueDisabledError("disabled"))
    own = ZeroDivisionError()
    report(scenario.outbox, own)
    assert "1 failed" in own.__notes__[0]
    assert "disabled" in own.__notes__[0]
    report(scenario.outbox, None)
    log_unread(scenario.outbox)
    assert caplog.messages == []


def test_a_fork_has_no_thread_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidStateError, match="make one in this process"):
        scenario.send(1)


def test_arrays_are_written_as_postgresql_reads_them() -> None:
    messages = [Message('\\ "', subject="NULL"), Message(b"\x00\xff", subject="{a,b}"), Message(1)]
    text = sending.store("orders", [encode(message) for message in messages]).text()
    for array in (r"""{"\"\\\\ \\\"\"",NULL,"1"}""", r"""{NULL,"\\x00ff",NULL}"""):
        assert " E'" + array.replace("\\", "\\\\") + "'::" in text
    assert """'{"NULL","{a,b}",NULL}'::text[]""" in text
    assert "priorities => null::" in text
