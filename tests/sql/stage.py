"""Named sessions that act in a fixed order, in a database whose time stands still until it is moved.

A step that would have to wait for another session fails, so nothing here hangs; one that shall wait is begun with
``Session.starts``. When a stage is left the tables must be as they must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.errors import LockNotAvailable, QueryCanceled
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pgqueue.model.columns import identifier
from pgqueue.testing import Database
from pgqueue.testing.clock import MOVE

LOCK_LOST, UNKNOWN_QUEUE, QUEUE_EXISTS = "PQ001", "PQ002", "PQ003"
QUEUE_DISABLED, TOO_LARGE, MESSAGE_NOT_FOUND = "PQ004", "PQ005", "PQ006"
INVALID_ARGUMENT, QUEUE_FULL, CONSUMER_IN_USE, FENCED = "PQ007", "PQ008", "PQ009", "PQ010"
PINNED_ELSEWHERE = "PQ011"
SERIALIZATION_FAILURE = "40001"

DEAD = "q/$deadletterqueue"

SECOND = timedelta(seconds=1)
LOCK_DURATION = timedelta(seconds=60)

STAND_STILL = """
create or replace function pgqueue.clock()
returns timestamptz
language sql volatile parallel safe
as $$
    select timestamptz '2030-01-01 00:00+00' + last_value * interval '1 microsecond' from pgqueue_testing.clock_shift
$$
"""

# Transactions of other databases count for the engine, too: those of other tests.
AWAITED_ARE_OPEN = """
select exists (
    select from (select awaited from pgqueue.progress
                 union all
                 select awaited from pgqueue.scheduled_progress
                 union all
                 select awaited from pgqueue.front) as known
     where awaited && array(select pg_snapshot_xip(pg_current_snapshot())
                            except
                            select backend_xid::text::xid8 from pg_stat_activity where datname = current_database()))
"""

T = TypeVar("T")


@dataclass(frozen=True)
class Received:
    """A message as a receive returned it."""

    sequence_number: int
    lock_token: UUID
    delivery_count: int
    locked_until: datetime
    body: Any


class Session:
    """One connection. Each step is a transaction of its own, unless ``begin`` was called."""

    def __init__(self, dsn: str, name: str, waiters: ThreadPoolExecutor) -> None:
        self._dsn = dsn
        self._waiters = waiters
        self.connection: psycopg.Connection[Any] = psycopg.connect(
            dsn, autocommit=True, application_name=name, options="-c statement_timeout=20s -c lock_timeout=1s"
        )

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with must_not_wait():
            cursor = self.connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def values(self, statement: str, **parameters: Any) -> list[Any]:
        return [value for value, *_ in self.rows(statement, **parameters)]

    def value(self, statement: str, **parameters: Any) -> Any:
        (value,) = self.values(statement, **parameters)
        return value

    def call(self, verb: str, **arguments: Any) -> Any:
        """Call a function of pgqueue that returns one value."""
        return self.value(f"select {_call(verb, arguments)}", **arguments)

    def table(self, verb: str, **arguments: Any) -> list[tuple[Any, ...]]:
        """Call a function of pgqueue that returns rows."""
        return self.rows(f"select * from {_call(verb, arguments)}", **arguments)

    def send(self, *bodies: Any, queue: str = "q", **options: Any) -> list[int]:
        return [self.call("send", queue=queue, body=Jsonb(body), **options) for body in bodies]

    def send_many(self, count: int, queue: str = "q") -> list[int]:
        bodies = [Jsonb(number) for number in range(count)]
        return self.values("select pgqueue.send_batch(%(queue)s, %(bodies)s)", queue=queue, bodies=bodies)

    def receive(self, max_messages: int = 1, queue: str = "q", **options: Any) -> list[Received]:
        return self._receive("receive", options | {"queue": queue, "max_messages": max_messages})

    def receive_deferred(self, *numbers: int, **options: Any) -> list[Received]:
        return self._receive("receive_deferred", options | {"queue": "q", "sequence_numbers": list(numbers)})

    def _receive(self, verb: str, options: dict[str, Any]) -> list[Received]:
        columns = "sequence_number, lock_token, delivery_count, locked_until, body"
        with must_not_wait(), self.connection.cursor(row_factory=class_row(Received)) as cursor:
            return cursor.execute(f"select {columns} from {_call(verb, options)}".encode(), options).fetchall()

    def numbers(self, max_messages: int = 1, **options: Any) -> list[int]:
        """The sequence numbers of what a receive returns."""
        return [message.sequence_number for message in self.receive(max_messages, **options)]

    def settle(self, verb: str, message: Received, queue: str = "q", **options: Any) -> Any:
        return self.call(
            verb, queue=queue, sequence_number=message.sequence_number, lock_token=message.lock_token, **options
        )

    def complete(self, message: Received, **options: Any) -> Any:
        return self.settle("complete", message, **options)

    def abandon(self, message: Received, **options: Any) -> None:
        self.settle("abandon", message, **options)

    def settle_batch(
        self, verb: str, messages: Sequence[Received], queue: str = "q", **options: Any
    ) -> list[tuple[Any, ...]]:
        numbers = [message.sequence_number for message in messages]
        tokens = [message.lock_token for message in messages]
        return self.table(verb, queue=queue, sequence_numbers=numbers, lock_tokens=tokens, **options)

    def begin(self, isolation: str = "read committed") -> None:
        self.rows(f"begin isolation level {isolation}")

    def commit(self) -> None:
        self.rows("commit")

    def rollback(self) -> None:
        self.rows("rollback")

    def starts(self, step: Callable[[], T]) -> Future[T]:
        """Begin a step that has to wait for another session; returns as soon as it waits."""
        self.rows("set lock_timeout = 0")
        future = self._waiters.submit(step)
        with psycopg.connect(self._dsn, autocommit=True) as onlooker:
            waits = "select pg_blocking_pids(%s) <> '{}'"
            while onlooker.execute(waits, [self.connection.info.backend_pid]).fetchone() == (False,):
                assert not future.done(), f"a step did not wait: {future.result()}"
        return future


class Stage:
    """A queue called q, sessions by name, and the time."""

    def __init__(self, database: Database, **settings: Any) -> None:
        self.database = database
        self._settings = settings

    def __enter__(self) -> Stage:
        with ExitStack() as opened:
            self._waiters = opened.enter_context(ThreadPoolExecutor())
            self._opened = opened.pop_all()
        self.prompter = self.session("prompter")
        self.prompter.rows(STAND_STILL)
        self.prompter.call("create_queue", queue="q", **self._settings)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        with self._opened:
            if kind is None:
                assert self.prompter.values("select pgqueue.broken_invariants()") == []

    def session(self, name: str) -> Session:
        session = Session(self.database.dsn, name, self._waiters)
        self._opened.callback(session.connection.close)
        return session

    def sessions(self, *names: str) -> list[Session]:
        return [self.session(name) for name in names]

    def passes(self, time: timedelta) -> None:
        self.prompter.connection.execute(MOVE, [time // timedelta(microseconds=1)])

    def rewrite(self, function: str, old: str, new: str) -> None:
        """Replace a function by a variant of itself, to stop it where no statement boundary is."""
        text = self.prompter.value("select pg_get_functiondef(%(name)s::regproc)", name=f"pgqueue.{function}")
        assert old in text, f"{function} does not contain {old!r}"
        self.prompter.rows(text.replace(old, new))


def scan(session: Session) -> int:
    """Where this session's scan of the fresh lane of q begins, as far as it remembers."""
    setting = session.value("select nullif(current_setting('pgqueue.scan_1', true), '')::bigint[]")
    return int(setting[-1]) if setting else 0


def recorded(session: Session) -> int:
    """The recorded cursor of the fresh lane."""
    return int(session.value("select cursor from pgqueue.progress where lane = 1"))


def overtaken(session: Session) -> list[int]:
    """Messages that this session has locked, most of which its own cursor has passed; no turn was taken."""
    numbers = session.send_many(200)
    while session.receive(10, take_turn=False):
        pass
    # Its cursor waits for transactions that are open anywhere on the server, of other tests too.
    while scan(session) < 128:
        numbers += session.send_many(1)
        session.receive(take_turn=False)
    return numbers


def not_held_up_by_other_tests(stage: Stage) -> None:
    """From here on sessions prove what is over by the transactions of this database, not by all of the server's."""
    stage.rewrite(
        "_move_scan",
        "pg_snapshot_xip(pg_current_snapshot()) as open",
        """(select backend_xid::text::xid8
             from pg_stat_activity
            where datname = current_database() and backend_type = 'client backend') as clients (open)""",
    )


def turns_until(stage: Stage, session: Session, condition: Callable[[], bool], queue: str = "q") -> None:
    """Seconds pass and turns are taken; in between, transactions of other tests end that turns await."""
    for _ in range(30):
        stage.passes(SECOND)
        assert session.receive(queue=queue) == []
        until_awaited_are_over(session)
        if condition():
            return
    raise AssertionError("half a minute of turns was not enough")


def until_awaited_are_over(session: Session) -> None:
    """Wait until turns await no transaction of another test. No time passes on the movable clock."""
    while session.value(AWAITED_ARE_OPEN):
        pass


def passed(stage: Stage, session: Session) -> Received:
    """A message that this session has locked, and that the recorded cursor has passed."""
    session.send("a")
    (received,) = session.receive()
    turns_until(stage, session, lambda: session.value("select count(*) from pgqueue.watch") == 1)
    return received


def put_back(stage: Stage, session: Session) -> Received:
    """A message whose lock has expired and which a turn has put back; no receive has taken it since."""
    received = passed(stage, session)
    stage.passes(LOCK_DURATION)
    assert session.call("take_turn", queue="q")
    assert session.value("select lane from pgqueue.message") == 0
    return received


@contextmanager
def told(stage: Stage, session: Session, *, times: int, awaited: bool = True) -> Iterator[None]:
    """Asserts that the block notifies receivers that wait for messages of q `times` times."""
    listener = stage.session("listener")
    ((channel, _),) = listener.table("_subscribe", queues=["q"], lasts=timedelta(hours=1) if awaited else None)
    listener.rows(f"listen {channel}")
    yield
    session.rows("select pg_notify(%(channel)s, 'the end')", channel=channel)
    payloads = (notify.payload for notify in listener.connection.notifies())
    assert list(iter(payloads.__next__, "the end")) == ["q"] * times


@contextmanager
def must_not_wait() -> Iterator[None]:
    try:
        yield
    except (LockNotAvailable, QueryCanceled) as error:
        raise AssertionError(f"a step had to wait: {error}") from error


@contextmanager
def refused(sqlstate: str, what: object = "") -> Iterator[None]:
    """The block must be refused with this SQLSTATE."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate != sqlstate:
            raise AssertionError(f"{what} refused with {error.sqlstate} instead of {sqlstate}: {error}") from error
    else:
        raise AssertionError(f"{what} not refused with {sqlstate}")


def _call(verb: str, arguments: dict[str, Any]) -> str:
    return f"pgqueue.{verb}({', '.join(f'{identifier(name)} => %({name})s' for name in arguments)})"
