"""What the library does, apart from how it waits: a flow is a generator that yields its steps.

A step is a call without arguments, or a :class:`Pause`. The synchronous driver calls it; the asynchronous one calls it
and awaits what comes back. So every verb is written once, for both faces; see ``pgqueue.transports.driving``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from pgqueue.model.context import ReceiveContext
from pgqueue.statements import Statement

T = TypeVar("T")
R = TypeVar("R")


class WakeSignal(Protocol):
    """Is set when messages of a queue have come; see :class:`pgqueue.transports.wake_signals.WakeSignal`."""

    count: int
    is_live: bool

    def calling(self, callback: Callable[[], object], since: int) -> AbstractContextManager[None]: ...

    def wait(self, seconds: float, since: int) -> None: ...

    async def arrives(self, seconds: float, since: int) -> None: ...


@dataclass(frozen=True)
class Pause:
    """A step that waits, holding nothing, until the signal is set anew: its count is no longer ``since``."""

    duration: timedelta
    wake_signal: WakeSignal | None = None
    since: int = 0


Step = Callable[[], Any] | Pause
Flow = Generator[Step, Any, R]


class Executor(Protocol):
    """Where a statement can run."""

    def execute(self, statement: Statement[T]) -> Flow[T]: ...


class Shared(Executor, Protocol):
    """A caller's transaction: we run statements in it, and never end it."""

    def follow(self, contexts: Sequence[ReceiveContext]) -> Flow[None]:
        """Tells the contexts how the transaction ended, where its owner can be overheard."""

    @property
    def is_open(self) -> bool:
        """Whether the transaction may still be open, and can be asked."""


class Begun(Executor, Protocol):
    """A transaction that the library began, and ends; ``handle`` is what the application works with."""

    handle: Any

    def set_savepoint(self) -> Flow[None]:
        """Sets a savepoint, in place of the one before."""

    def roll_back_to_savepoint(self) -> Flow[None]:
        """Undoes what was done since the mark."""

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        """Runs a last statement, if there is one, and commits."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open; it need not be the one that was begun."""

    @property
    def can_commit_and_begin(self) -> bool:
        """Whether :meth:`go_on` saves anything."""

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        """Runs a last statement, commits, begins the next transaction and runs its first statement: one round trip."""

    def rollback(self) -> Flow[None]: ...

    def release(self) -> Flow[None]: ...


class Line(Protocol):
    """A connection that is kept for a while, on which the COMMIT of a transaction travels with the next one's start."""

    def exchange(self, statement: Statement[T] | None, *, commit: bool) -> Flow[T | None]:
        """One round trip: commits the transaction that is open, then begins another and runs the statement in it."""

    def release(self) -> Flow[None]:
        """Gives the connection back, rolling back what is open; the server does it itself where that fails."""


class WakeableExecutor(Executor, Protocol):
    """Where a statement can run, with a signal that says when running it again may bring something."""

    def wake_signal(self, queue: str) -> WakeSignal | None:
        """The signal that is set when messages of a queue have come; None when the client does not listen."""


class Source(WakeableExecutor, Protocol):
    """Where a client's own statements run, each in a transaction of its own."""

    @property
    def conninfo(self) -> str: ...

    def begin(self) -> Flow[Begun]: ...

    def line(self) -> Flow[Line]: ...

    def close(self) -> Flow[None]: ...
