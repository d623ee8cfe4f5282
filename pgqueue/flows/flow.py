"""Flows: generators that yield their steps, so that each verb is written once for both faces.

A step is a call without arguments, or a :class:`Pause`. The synchronous driver calls it; the asynchronous driver calls
it and awaits the result. See ``pgqueue.transports.driving``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from pgqueue.errors import PGQueueError
from pgqueue.model.body_type import BodyType
from pgqueue.model.cipher import Cipher
from pgqueue.model.context import ReceiveContext
from pgqueue.model.message import Message
from pgqueue.model.outcome import Outcome
from pgqueue.statements import Statement

T = TypeVar("T")
R = TypeVar("R")


class WakeSignal(Protocol):
    """A signal that is set when messages arrive in a queue; see :class:`pgqueue.transports.wake_signals.WakeSignal`."""

    count: int
    is_live: bool

    def calling(self, callback: Callable[[], object], since: int) -> AbstractContextManager[None]: ...

    def wait(self, seconds: float, since: int) -> None: ...

    async def arrives(self, seconds: float, since: int) -> None: ...


class Waiters(WakeSignal, Protocol):
    """The callers that wait for outcomes of a queue; see :class:`pgqueue.transports.waiters.Waiters`."""

    queue: str
    error: PGQueueError | None

    @property
    def poller(self) -> Waiter | None: ...

    def joined(self, sequence_number: int) -> AbstractContextManager[Waiter]: ...

    def due(self, now: float) -> list[int]: ...

    def answer(self, outcomes: Mapping[int, Outcome | None], took: float) -> None: ...

    def fail(self, error: PGQueueError) -> None: ...

    def set(self) -> None: ...

    def rest(self, now: float) -> float: ...

    def seconds(self, timeout: timedelta | None) -> float: ...


class Waiter(WakeSignal, Protocol):
    """One of them."""

    is_answered: bool
    outcome: Outcome | None


class LossSignal(Protocol):
    """Is called when a lock is taken away; see :class:`pgqueue.transports.wake_signals.LossSignal`."""

    def connect(self, ask: Callable[[int | None], object], holds: Callable[[], bool]) -> None: ...

    def locked(self, at: float) -> None: ...


@dataclass(frozen=True)
class Pause:
    """A step that waits until the time is over or the signal's count differs from ``since``; it holds no connection."""

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

    #: Whether statements may run in a transaction of ours instead, in a pipeline: they may not.
    pipelines: bool

    def follow(self, contexts: Sequence[ReceiveContext]) -> Flow[None]:
        """Report the end of the transaction to the contexts, if the transaction can be observed."""

    @property
    def is_open(self) -> bool:
        """Whether the transaction may still be open, so that statements can run in it."""


class Begun(Executor, Protocol):
    """A transaction that the library begins and ends; ``handle`` is what the application uses."""

    handle: Any

    def set_savepoint(self) -> Flow[None]:
        """Set a savepoint; there is one in a transaction at most."""

    def roll_back_to_savepoint(self) -> Flow[None]:
        """Roll back to the savepoint."""

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        """Run a last statement, if there is one, and commit."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open; not necessarily the one that was begun."""

    @property
    def can_commit_and_begin(self) -> bool:
        """Whether :meth:`commit_and_begin` saves a round trip."""

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        """In one round trip: run a last statement, commit, begin the next transaction and run its first statement.

        That statement also releases the advisory locks of the session.
        """

    def rollback(self) -> Flow[None]: ...

    def release(self) -> Flow[None]: ...


class Line(Protocol):
    """A connection that is kept for a while; it sends the COMMIT of one transaction with the BEGIN of the next."""

    def exchange(self, statement: Statement[T] | None, *, commit: bool) -> Flow[T | None]:
        """In one round trip: commit the open transaction, begin another, and run the statement in it."""

    def pipeline(self, statements: Iterable[Statement[T]]) -> Flow[list[T]]:
        """In one round trip: run statements in a transaction, each made while the server runs the one before.

        Nothing is committed if the server refuses one, or if one cannot be made.
        """

    def release(self) -> Flow[None]:
        """Roll back the open transaction and return the connection; if that fails, the server rolls back."""


class WakeableExecutor(Executor, Protocol):
    """A place where a statement can run, with a signal when to run it again."""

    def wake_signal(self, queue: str) -> WakeSignal | None:
        """The signal that is set when messages arrive in a queue; None if the client does not listen."""


class Interceptors(Protocol):
    """The interceptors of a client."""

    #: It encrypts the bodies; None if they are not encrypted.
    cipher: Cipher | None

    def around(self, name: str, given: Any, run: Callable[[Any], Flow[Any]]) -> Any:
        """Run a flow within the method of this name of all interceptors, which may change what is given."""

    def changed(self, message: Message) -> Any:
        """The message as they pass it on, where it is not stored yet."""


class Source(WakeableExecutor, Protocol):
    """Where a client's own statements run, each in a transaction of its own.

    ``timeout`` is how many seconds a call may take; infinite if it has none.
    """

    timeout: float

    #: That of the instance.
    schema: str

    #: Whether they run on one connection, in whose transaction work on messages takes part.
    is_one_connection: bool

    #: Whether a line of it pipelines statements.
    pipelines: bool

    #: None if the client has none.
    interceptors: Interceptors | None

    @property
    def conninfo(self) -> str: ...

    def begin(self) -> Flow[Begun]: ...

    def line(self) -> Flow[Line]: ...

    def loss_signal(self, queue: str) -> LossSignal | None:
        """A signal that is called when a lock of the queue is taken away; None if the client does not listen."""

    def waiters(self, queue: str) -> Waiters:
        """The callers that wait for outcomes of a queue."""

    def close(self) -> Flow[None]: ...


class Sourced(Protocol):
    """A queue, a session or a message, with the source of its statements."""

    _source: Source


def source_of(holder: Sourced) -> Source:
    """Where a queue, a session or a message runs its statements."""
    return holder._source  # noqa: SLF001 - a public name would be a promise to users


def intercepted(interceptors: Interceptors | None, name: str, given: Any, run: Callable[[T], Flow[R]]) -> Flow[R]:
    """Run a flow, within the method of this name of all interceptors if there are any."""
    return run(given) if interceptors is None else around(interceptors, name, given, run)


def around(interceptors: Interceptors, name: str, given: Any, run: Callable[[T], Flow[R]]) -> Flow[R]:
    """Run a flow within the method of this name of all interceptors."""
    return in_step(partial(interceptors.around, name, given, run))


def bodies_of(source: Source, kind: Any = None) -> BodyType | None:
    """The type of bodies of a client; None if it has none, and they are not encrypted."""
    return BodyType.of(kind, None if source.interceptors is None else source.interceptors.cipher)


def in_step(step: Step) -> Flow[Any]:
    """A flow of one step."""
    return (yield step)


def create(statement: Statement[None], source: Executor, exists: type[PGQueueError], *, exist_ok: bool) -> Flow[None]:
    """Create something; with ``exist_ok``, leave it as it is if it ``exists``."""
    try:
        yield from source.execute(statement)
    except exists:
        if not exist_ok:
            raise
