"""A loop, in a thread or in a task: it recovers from errors that pass by themselves, and ends with any other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from pgqueue.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    PGQueueError,
    QueueNotFoundError,
    SchemaVersionError,
    logger,
)
from pgqueue.flows import Flow
from pgqueue.model.backoff import AFTER_FAILURES, by_chance
from pgqueue.transports import call_in

#: Errors that do not pass by themselves: they end the worker.
FATAL = (AccessDeniedError, InvalidArgumentError, QueueNotFoundError, SchemaVersionError)

#: A loop that has waited for the database for so long fails, though there is no error yet.
SILENT_AFTER = timedelta(seconds=10)

#: In seconds: how long a thread that ends may take for its last statement.
LAST_STATEMENT = 5.0

#: A round; it returns the seconds until the next one, or None for at once.
Turn = Callable[[], Flow[float | None]]


class Flag(Protocol):
    """An event that is set by others, and stays set."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> Any: ...


class Event(Flag, Protocol):
    """A :class:`threading.Event`, or an :class:`AsyncEvent`, whose ``wait`` is awaited."""

    def set(self) -> None: ...

    def clear(self) -> None: ...


class AsyncEvent:
    """An event that tasks of one event loop wait for. Any thread may set it, and a signal handler."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_set = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        is_new, self._is_set = not self._is_set, True
        if is_new and self._loop is not None:
            call_in(self._loop, self._event.set)

    def clear(self) -> None:
        self._is_set = False
        self._event.clear()

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as that of threading.Event
        self._loop = asyncio.get_running_loop()
        if self._is_set:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()


@dataclass
class Heartbeat:
    """When a loop last completed a round, and its error since then, if any.

    ``asked_at`` is when it turned to the database, if it waits for that now.
    """

    turned_at: float = field(default_factory=time.monotonic)
    asked_at: float | None = None
    failures: int = 0
    error: BaseException | None = None

    def beat(self) -> None:
        """Note that the loop has completed a round."""
        self.turned_at = time.monotonic()

    @property
    def trouble(self) -> str | None:
        """The current failure, as text."""
        if self.error is not None:
            return str(self.error)
        asked_at = self.asked_at
        silence = timedelta(seconds=0 if asked_at is None else time.monotonic() - asked_at)
        return f"no answer from the database for {silence.seconds} s" if silence >= SILENT_AFTER else None

    @property
    def age(self) -> timedelta:
        """How long ago the loop last completed a round."""
        return timedelta(seconds=time.monotonic() - self.turned_at)


class Recovery:
    """The reaction of a loop to an error: the pause before the next round, or giving up."""

    def __init__(self, name: str, beat: Heartbeat) -> None:
        self._name = name
        self._beat = beat
        self._logged: set[type[PGQueueError]] = set()

    def passed(self) -> None:
        self._beat.asked_at = None
        if self._beat.failures:
            logger.info("%s: works again, after %s failures", self._name, self._beat.failures)
        self._beat.failures, self._beat.error = 0, None
        self._logged.clear()

    def failed(self, error: Exception) -> float:
        """The pause, in seconds."""
        self._beat.asked_at = None
        if not isinstance(error, PGQueueError) or (isinstance(error, FATAL) and not self._may_be_an_upgrade(error)):
            raise error
        self._beat.failures += 1
        self._beat.error = error
        pause = AFTER_FAILURES.pause(self._beat.failures, by_chance())
        self.log(error, f"; trying again in {pause:.1f} s")
        return pause

    def _may_be_an_upgrade(self, error: PGQueueError) -> bool:
        """Whether a function that ran during a migration may have called one that was dropped; true only once."""
        return isinstance(error, SchemaVersionError) and not self._beat.failures

    def log(self, error: PGQueueError, what_follows: str = "") -> None:
        """Log an error; only the first of each kind in a row is a warning."""
        level = logging.DEBUG if type(error) in self._logged else logging.WARNING
        self._logged.add(type(error))
        logger.log(level, "%s: %s%s", self._name, error, what_follows, extra={"tracking_id": error.tracking_id})


class Loop:
    """Rounds, each after the pause that the last one returned, or when ``woken`` is set.

    No conclusion is drawn from the duration of a round that ``is_long``, because it has many statements.
    """

    def __init__(
        self,
        name: str,
        turn: Turn,
        stopping: Flag,
        woken: Event,
        on_wake: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        is_long: bool = False,
    ) -> None:
        self.beat = Heartbeat()
        self._turn = turn
        self._stopping = stopping
        self._woken = woken
        self._on_wake = on_wake
        self._is_long = is_long
        self._recovery = Recovery(name, self.beat)

    def run(self) -> Flow[None]:
        """Do rounds until ``stopping`` is set, or an error occurs that does not pass by itself."""
        while not self._stopping.is_set():
            self.beat.asked_at = None if self._is_long else time.monotonic()
            try:
                pause = yield from self._turn()
            except Exception as error:  # noqa: BLE001 - an error that does not pass by itself is raised again
                rest = self._rest(self._recovery.failed(error))
            else:
                self._recovery.passed()
                rest = self._wait(pause)
            yield from rest
            self.beat.beat()

    def _rest(self, pause: float) -> Flow[None]:
        yield partial(self._stopping.wait, pause)

    def _wait(self, pause: float | None) -> Flow[None]:
        if pause is not None:
            with self._on_wake():
                yield partial(self._woken.wait, pause)
        self._woken.clear()
