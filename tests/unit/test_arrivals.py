"""Messages that are locked ahead, without a database: the clock, the answers and the other thread are the test's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from pgqueue.errors import ConnectionLostError
from pgqueue.flows import Flow, Pause
from pgqueue.flows.arrivals import Locked
from pgqueue.model.message import PeekedMessage, from_row
from pgqueue.model.row import COLUMNS, LASTS, SEQUENCE_NUMBER, Row
from pgqueue.statements import Statement
from pgqueue.statements.receiving import receive

TOKEN = UUID(int=1)
BRACKETS = str.maketrans("{}", "[]")


def row(number: int, lasts: float = 10) -> Row:
    known = {"sequence_number": number, "lock_token": TOKEN, "body": '"body"'}
    return (*(known.get(name) for name in COLUMNS), timedelta(seconds=lasts))


class Number(int):
    """Stands for the message that is handed out."""

    _body_type = None


def number_of(row: Row) -> Any:
    return Number(row[SEQUENCE_NUMBER])


@dataclass
class Dispatcher:
    """Answers statements, and is where their time passes."""

    answers: list[list[Row]]
    takes: float = 0
    now: float = 1000
    given_back: list[int] = field(default_factory=list)
    meanwhile: Callable[[], Any] = lambda: None

    def wake_signal(self, _: str) -> None:
        """Nobody listens."""

    def execute(self, statement: Statement[Any]) -> Flow[Any]:
        if "release_batch" in statement.sql:
            self.given_back += json.loads(statement.parameters["sequence_numbers"].translate(BRACKETS))
            yield lambda: None
            return []
        self.now += self.takes
        yield self.meanwhile
        return self.answers.pop(0) if self.answers else []

    def run(self, flow: Generator[Any, Any, Any]) -> Any:
        try:
            step = next(flow)
            while True:
                step = flow.send(self._taken(step))
        except StopIteration as end:
            return end.value

    def _taken(self, step: Any) -> Any:
        if isinstance(step, Pause):
            self.now += step.duration.total_seconds()
            return None
        return self.now if step is time.monotonic else step()


def locked(dispatcher: Dispatcher) -> Locked:
    statement = receive("q", max_messages=3, lock_duration=None, locked_by="test")
    return Locked(statement, "q", dispatcher, number_of)


def test_one_round_trip_brings_many_that_come_out_one_by_one() -> None:
    dispatcher = Dispatcher([[row(1), row(2), row(3)]])
    ahead = locked(dispatcher)
    assert [dispatcher.run(ahead.next()) for _ in range(4)] == [1, 2, 3, None]
    assert dispatcher.given_back == []


def test_messages_that_may_have_expired_are_given_back_and_not_handed_out() -> None:
    dispatcher = Dispatcher([[row(1), row(2), row(3)], [row(2), row(3)]])
    ahead = locked(dispatcher)
    assert dispatcher.run(ahead.next()) == 1
    dispatcher.now += 10
    assert dispatcher.run(ahead.next()) == 2
    assert dispatcher.given_back == [2, 3]
    dispatcher.now += 9.9
    assert dispatcher.run(ahead.next()) == 3


def test_a_lock_runs_from_when_it_was_asked_for() -> None:
    dispatcher = Dispatcher([[row(1), row(2)], [row(9)]], takes=6)
    ahead = locked(dispatcher)
    assert dispatcher.run(ahead.next()) == 1
    dispatcher.now += 4
    assert dispatcher.run(ahead.next()) == 9
    assert dispatcher.given_back == [2]


def test_the_time_before_the_receive_that_brought_something_does_not_count() -> None:
    dispatcher = Dispatcher([[], [], [], [row(1, lasts=0.2), row(2, lasts=0.2)]], takes=0.1)
    ahead = locked(dispatcher)
    assert dispatcher.run(ahead.next()) == 1
    assert dispatcher.run(ahead.next()) == 2


def test_the_shortest_of_several_locks_counts() -> None:
    dispatcher = Dispatcher([[row(1, lasts=10), row(2, lasts=0), row(3, lasts=10)]])
    ahead = locked(dispatcher)
    assert dispatcher.run(ahead.next()) == 1
    assert dispatcher.run(ahead.next()) is None
    assert dispatcher.given_back == [2, 3]


def test_a_lock_shorter_than_a_round_trip_does_not_stop_the_receiver() -> None:
    dispatcher = Dispatcher([[row(n, lasts=1)] for n in range(3)], takes=2)
    ahead = locked(dispatcher)
    assert [dispatcher.run(ahead.next()) for _ in range(3)] == [0, 1, 2]


def test_messages_not_handed_out_are_given_back_once_at_the_end() -> None:
    dispatcher = Dispatcher([[row(1), row(2), row(3)]])
    ahead = locked(dispatcher)
    dispatcher.run(ahead.next())
    for _ in range(2):
        dispatcher.run(ahead.close())
    assert dispatcher.given_back == [2, 3]


def test_messages_that_arrive_after_the_end_are_given_back_too() -> None:
    dispatcher = Dispatcher([[row(1), row(2)]])
    ahead = locked(dispatcher)
    dispatcher.meanwhile = lambda: dispatcher.run(ahead.close())
    assert dispatcher.run(ahead.next()) is None
    assert dispatcher.given_back == [1, 2]


def test_a_failure_to_give_messages_back_raises_nothing() -> None:
    class Broken(Dispatcher):
        def execute(self, statement: Statement[Any]) -> Flow[Any]:
            if "release_batch" in statement.sql:
                raise ConnectionLostError("gone")
            return (yield from super().execute(statement))

    dispatcher = Broken([[row(1), row(2)]])
    ahead = locked(dispatcher)
    dispatcher.run(ahead.next())
    dispatcher.run(ahead.close())


def test_the_duration_of_a_lock_is_read_behind_the_columns_of_the_message() -> None:
    statement = receive("q", max_messages=1, lock_duration=None, locked_by="test")
    (read,) = statement.read([row(7, lasts=5)])
    message = from_row(PeekedMessage, "q", read)
    assert (read[LASTS], message.sequence_number, message.body) == (timedelta(seconds=5), 7, "body")
