"""A loop of a worker: it recovers from an error, or ends the worker with it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

from pgqueue.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    PGQueueError,
    QueueNotFoundError,
    SchemaVersionError,
    logger,
)
from pgqueue.model.backoff import AFTER_FAILURES

#: Errors that do not pass by themselves: they end the worker.
FATAL = (AccessDeniedError, InvalidArgumentError, QueueNotFoundError, SchemaVersionError)

#: A loop that has waited for the database for so long fails, though there is no error yet.
SILENT_AFTER = timedelta(seconds=10)

#: In seconds: how long a thread that ends may take for its last statement.
LAST_STATEMENT = 5.0

Turn = Callable[[], float | None]


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
        """What fails at the moment, as text."""
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
        self._said: set[type[PGQueueError]] = set()

    def passed(self) -> None:
        self._beat.asked_at = None
        if self._beat.failures:
            logger.info("%s: works again, after %s failures", self._name, self._beat.failures)
        self._beat.failures, self._beat.error = 0, None
        self._said.clear()

    def failed(self, error: Exception) -> float:
        """The pause, in seconds."""
        self._beat.asked_at = None
        if not isinstance(error, PGQueueError) or (isinstance(error, FATAL) and not self._may_be_an_upgrade(error)):
            raise error
        self._beat.failures += 1
        self._beat.error = error
        pause = AFTER_FAILURES.pause(self._beat.failures, random.random())
        self.tell(error, f"; trying again in {pause:.1f} s")
        return pause

    def _may_be_an_upgrade(self, error: PGQueueError) -> bool:
        """Whether a function that ran during a migration may have called one that was dropped; true only once."""
        return isinstance(error, SchemaVersionError) and not self._beat.failures

    def tell(self, error: PGQueueError, what_follows: str = "") -> None:
        """Log an error; only the first of each kind in a row is a warning."""
        level = logging.DEBUG if type(error) in self._said else logging.WARNING
        self._said.add(type(error))
        logger.log(level, "%s: %s%s", self._name, error, what_follows, extra={"tracking_id": error.tracking_id})


class Loop:
    """Takes turns, each after the pause that the last one returned, or when it is woken.

    Nothing is concluded from how long a turn takes that ``is_long``, because it has many statements.
    """

    def __init__(
        self,
        name: str,
        turn: Turn,
        stopping: threading.Event,
        woken: threading.Event,
        on_wake: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        is_long: bool = False,
    ) -> None:
        self.beat = Heartbeat()
        self._turn = turn
        self._stopping = stopping
        self._woken = woken
        self._hearing = on_wake
        self._is_long = is_long
        self._recovery = Recovery(name, self.beat)

    def run(self) -> None:
        while not self._stopping.is_set():
            self.beat.asked_at = None if self._is_long else time.monotonic()
            try:
                pause = self._turn()
            except Exception as error:  # noqa: BLE001 - what cannot be mended is raised again
                pause = self._recovery.failed(error)
                self._stopping.wait(pause)
            else:
                self._recovery.passed()
                self._wait(pause)
            self.beat.beat()

    def _wait(self, pause: float | None) -> None:
        if pause is not None:
            with self._hearing():
                self._woken.wait(pause)
            self._woken.clear()
