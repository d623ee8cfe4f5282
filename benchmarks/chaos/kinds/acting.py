"""The part that all actors share: their place, the mischief allowed to them, and their book."""

from __future__ import annotations

import itertools
import random
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
import sqlalchemy.exc

import pgqueue.aio
from benchmarks.chaos.history import Book, Open, Outcome
from pgqueue import ReceivedMessage
from pgqueue.errors import PGQueueError


class Broken(Exception):
    """A framework's error in place of the original: it leaves open whether anything was done."""


#: Errors that faults cause in calls. Anything else is a defect, and ends the process with a traceback.
EXPECTED = (PGQueueError, psycopg.Error, sqlalchemy.exc.SQLAlchemyError, TimeoutError, Broken)

REST = "rest"
#: Written once the stream of Spark runs.
READY = "spark-is-ready"
PAUSE_AFTER_AN_ERROR = 0.1
#: For how long a transaction is held open on purpose, in seconds: longer than a lock lasts.
HELD = (2.5, 4.0)

#: Sessions of each queue that requires them: fewer than receivers, so that each passes from one to another.
SESSIONS = ("one", "two", "three")

Lock = tuple[str, str]


@dataclass(frozen=True)
class Setting:
    """Where a round takes place. ``mischief`` names the faults that actors commit themselves."""

    dsn: str
    pooled: str | None
    directory: Path
    mischief: frozenset[str]
    queues: tuple[str, ...]
    sessions: frozenset[str] = frozenset()
    """Those of the queues that require sessions."""
    pace: float = 1.0
    """Senders pause so many times as long after each step."""


@dataclass(frozen=True)
class Assignment:
    """An actor: of which kind, at which queue, and the seed of all its choices."""

    name: str
    kind: str
    queue: str
    seed: int


class Kind(Protocol):
    """The repeated step of an actor; it keeps its sessions from one step to the next."""

    def __init__(self, actor: Actor) -> None: ...

    def step(self) -> None: ...


class Actor:
    """One thread of a process, with choices of its own."""

    def __init__(self, setting: Setting, assignment: Assignment, generation: int, book: Book) -> None:
        self.setting = setting
        self.queue = assignment.queue
        self.name = f"{assignment.name}.{generation}"
        self.chance = random.Random(f"{assignment.seed}-{generation}")
        self._book = book
        self._numbers = itertools.count()

    @property
    def is_resting(self) -> bool:
        """Whether faults are over: then everybody behaves."""
        return (self.setting.directory / REST).exists()

    def commits(self, mischief: str, probability: float) -> bool:
        """Whether to do something that a good application would not, or only rarely."""
        drawn = self.chance.random() < probability
        return drawn and mischief in self.setting.mischief and not self.is_resting

    def new_messages(self, count: int = 1) -> list[str]:
        return [f"{self.name}-{next(self._numbers)}" for _ in range(count)]

    def a_session(self, queue: str) -> str | None:
        """The session to send to; all senders share a few."""
        return self.chance.choice(SESSIONS) if queue in self.setting.sessions else None

    @contextmanager
    def operation(self, verb: str, queue: str | None = None, *, doubt: bool = False, **facts: Any) -> Iterator[Open]:
        with self._book.operation(verb, self.name, queue or self.queue, doubt=doubt, **facts) as operation:
            yield operation

    @contextmanager
    def settling(
        self, how: str, received: Sequence[Any], *, effect: bool = False, doubt: bool = False
    ) -> Iterator[Open]:
        """Settles messages under lock; writes down their state in the library afterwards."""
        with self.operation("settle", how=how, locks=locks(received), effect=effect, doubt=doubt) as operation:
            try:
                yield operation
            finally:
                answered(operation)
                operation.facts.setdefault("states", [known_state(each) for each in received])

    def receiving(self) -> AbstractContextManager[Open]:
        return self.operation("receive", doubt=True)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def locks(received: Iterable[Any]) -> list[Lock]:
    return [(each.body["id"], str(each.lock_token)) for each in received]


def deliveries(received: Iterable[Any]) -> list[tuple[str, str, float, int]]:
    return [
        (each.body["id"], str(each.lock_token), each.locked_until.timestamp(), each.delivery_count) for each in received
    ]


def remember(received: ReceivedMessage[Any], transaction: Any) -> None:
    """Count the message in the state of its session, if it has one, in the transaction of its effect."""
    if received.session_id is not None:
        state = received.get_session_state(transaction=transaction)
        received.set_session_state(counted(state, received), transaction=transaction)


async def aremember(received: pgqueue.aio.ReceivedMessage[Any], transaction: Any) -> None:
    if received.session_id is not None:
        state = await received.get_session_state(transaction=transaction)
        await received.set_session_state(counted(state, received), transaction=transaction)


def counted(state: Any, received: Any) -> dict[str, Any]:
    return {"done": state["done"] + 1 if state else 1, "last": received.body["id"]}


def known_state(received: Any) -> str | None:
    """The state that the library reports, where that claims something: a delivery that is being settled, or in doubt,
    claims nothing."""
    with suppress(*EXPECTED):
        state: str = received.state.value
        return state if state in ("completed", "received") else None
    return None


def live(actor: Actor, kind: type[Kind], *, until_rest: bool) -> None:
    """Acts for as long as the process lives, or until faults are over, whatever is done to its connections."""
    acting: Kind | None = None
    while not (until_rest and actor.is_resting):
        try:
            acting = acting or kind(actor)
            acting.step()
        except EXPECTED:
            time.sleep(PAUSE_AFTER_AN_ERROR)
        except Exception as surprise:
            with suppress(type(surprise)), actor.operation("surprise", traceback=traceback.format_exc()):
                raise
            time.sleep(PAUSE_AFTER_AN_ERROR)


def answered(operation: Open) -> None:
    """Marks the outcome as known, though the operation goes on: a frozen server may be asked for the state."""
    operation.facts["answered"] = time.monotonic()


def failing(operation: Open) -> None:
    """Marks an operation as undone on purpose."""
    operation.outcome = Outcome.FAIL
