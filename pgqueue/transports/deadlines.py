"""Deadlines: a call that the server does not answer in time fails, and its connection is closed.

While psycopg waits for the server, it resumes a generator: when there is something to read, and ten times a second
otherwise. For the duration of a call, the connection's ``wait`` gets that generator wrapped in one that looks at the
clock. This needs no thread and no further statement, and is the same in both faces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from math import inf
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen

from pgqueue.errors import InvalidArgumentError, OperationTimeoutError, logger
from pgqueue.model.arguments import duration
from pgqueue.statements import Statement

T = TypeVar("T")

#: A psycopg Connection or AsyncConnection.
AnyConnection = Any

#: The timeout of a client that was not given one.
TIMEOUT = timedelta(seconds=30)

DEFAULT = TIMEOUT.total_seconds()

#: In seconds: how long a server may be silent before a warning is logged, and how often it is logged.
SILENCE, WARNED_EVERY = 10.0, 60.0

#: In seconds, for what must be tried even when a deadline is over: rolling back, and waiting for threads to end.
LAST_STEP = 5.0

#: The attribute of a connection with the time of our first use, in monotonic seconds.
USED_SINCE = "_pgqueue_used_since"


class Block:
    """A ``with deadline(…)`` block: when it ends at the latest, in monotonic seconds."""

    __slots__ = ("ends_at",)

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at


NO_BLOCK = Block(inf)

_block: ContextVar[Block] = ContextVar("pgqueue_deadline", default=NO_BLOCK)


@contextmanager
def deadline(timeout: timedelta) -> Iterator[None]:
    """Limits all calls in a ``with`` block together, ``wait=`` included, in place of the client's ``timeout``.

    A call that gets no answer by then raises what it raises at the client's timeout, and a later call in the block
    raises :class:`~pgqueue.errors.OperationTimeoutError`. It applies to the calls of the thread or task that enters the
    block, synchronous or not; statements of your own are not limited. An inner block never lasts longer than an outer
    one.

    Raises:
        InvalidArgumentError: ``timeout`` is not positive, or no timedelta. None sets no limit of its own.
    """
    with until(time.monotonic() + seconds_of(timeout)):
        yield


@contextmanager
def until(ends_at: float) -> Iterator[None]:
    """As :func:`deadline`, for a time in monotonic seconds."""
    block = Block(min(ends_at, _block.get().ends_at))
    token = _block.set(block)
    try:
        yield
    finally:
        block.ends_at = inf  # a task that was begun in the block may go on after it
        _block.reset(token)


def leave_blocks() -> None:
    """Let no block apply to the rest of this thread or task, which works for many calls."""
    _block.set(NO_BLOCK)


def time_left(most: float = inf) -> float:
    """The seconds until the deadline of this block, and at most so many."""
    ends_at = _block.get().ends_at
    return most if ends_at == inf else max(min(ends_at - time.monotonic(), most), 0.0)


def seconds_of(timeout: timedelta | None) -> float:
    """A timeout in seconds; infinite if it is None."""
    checked = duration("timeout", timeout)
    if checked is None:
        return inf
    if checked <= timedelta(0):
        raise InvalidArgumentError("timeout must be positive, or None for no timeout")
    return checked.total_seconds()


class Deadlines:
    """The deadlines of a client's calls, each of which takes ``timeout`` seconds at most."""

    def __init__(self, timeout: float = DEFAULT) -> None:
        self.timeout = timeout
        self._expired_at = self._warned_at = -inf

    def begin(self, statement: Statement[Any] | None = None) -> float:
        """The deadline of a call that begins now, in monotonic seconds.

        Raises:
            OperationTimeoutError: the deadline of the block is over; nothing was sent.
        """
        limit = None if statement is None else statement.limit
        timeout = self.timeout if limit is None else limit if limit == inf else min(limit, self.timeout)
        ends_at, now = _block.get().ends_at, time.monotonic()
        if ends_at == inf:
            return now + timeout
        if ends_at <= now:
            raise OperationTimeoutError("the deadline is over: nothing was sent to the database")
        return ends_at if limit is None or limit == inf else min(ends_at, now + timeout)

    def limited(self, connection: AnyConnection, until: float) -> Limited:
        """In this block, close the connection when the server has not answered by then."""
        return Limited(self, connection, until)

    def ending(self, connection: AnyConnection) -> Limited:
        """In this block, what ends a transaction is limited."""
        return Limited(self, connection, self.last_step())

    def last_step(self) -> float:
        """The deadline of what ends a transaction, in monotonic seconds. That is tried after a deadline, too."""
        return time.monotonic() + min(self.timeout, LAST_STEP)

    def trusts(self, connection: AnyConnection) -> bool:
        """Whether an idle connection may be used: only if first used after the last call that expired."""
        used_since = connection.__dict__.get(USED_SINCE)
        if used_since is None:
            used_since = connection.__dict__[USED_SINCE] = time.monotonic()
        return bool(used_since > self._expired_at)

    def expire(self, connection: AnyConnection, waited: float) -> NoReturn:
        """Close a connection in an unknown state; the next call opens another, to the next host if need be."""
        self._expired_at = time.monotonic()
        connection.pgconn.finish()
        raise psycopg.OperationalError(f"no answer from the server within {waited:.1f} s: the connection was closed")

    def warn(self, connection: AnyConnection, waited: float, left: float) -> None:
        now = time.monotonic()
        if now >= self._warned_at + WARNED_EVERY:
            self._warned_at = now
            rest = "" if left == inf else f"; the connection is closed in {left:.0f} s"
            logger.warning("no answer from the server on %s for %.0f s%s", _host(connection), waited, rest)


class Limited:
    """A block in which a connection has a deadline; waiting on it raises psycopg's error for a broken connection.

    A block may be within another one: a hook of SQLAlchemy sends a message during a COMMIT of ours.
    """

    __slots__ = ("_connection", "_deadlines", "_until", "is_over", "outer", "wait")

    def __init__(self, deadlines: Deadlines, connection: AnyConnection, until: float) -> None:
        self._deadlines = deadlines
        self._connection = connection
        self._until = until
        self.outer: Limited | None = None
        self.is_over = False

    def __enter__(self) -> None:
        owner = getattr(self._connection.__dict__.get("wait"), "__self__", None)
        self.outer = owner if isinstance(owner, Limited) else None
        if self.outer is not None:
            self.outer.outer = self.outer.around()  # calls that overlap for long make no long chain
        self.wait = self._wait_until
        self._connection.wait = self.wait

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_over = True
        # Another task or thread may have a call of ours on the same connection.
        if self._connection.__dict__.get("wait") is self.wait:
            outer = self.around()
            if outer is None:
                del self._connection.wait
            else:
                self._connection.wait = outer.wait

    def around(self) -> Limited | None:
        """The block around this one that is not over."""
        outer = self.outer
        while outer is not None and outer.is_over:
            outer = outer.outer
        return outer

    def _wait_until(self, generator: PQGen[T], *arguments: Any, **options: Any) -> Any:
        """As ``wait`` of the connection, or an awaitable."""
        return type(self._connection).wait(self._connection, self._watched(generator), *arguments, **options)

    def _watched(self, generator: PQGen[T]) -> PQGen[T]:
        silent_since = 0.0
        warns_at = inf
        try:
            wanted = next(generator)
            while True:
                ready = yield wanted
                if not ready:
                    now = time.monotonic()
                    if not silent_since:
                        silent_since, warns_at = now, now + SILENCE
                    if now >= self._until:
                        self._deadlines.expire(self._connection, now - silent_since)
                    if now >= warns_at:
                        warns_at = inf
                        self._deadlines.warn(self._connection, now - silent_since, self._until - now)
                wanted = generator.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def _host(connection: AnyConnection) -> str:
    return f"{connection.info.host or 'localhost'}:{connection.info.port}"
