"""What a worker has taken on: what lies ready, what is being handled, what is finished. Its steps are flows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pgqueue.errors import InvalidArgumentError, QueueDisabledError, logger
from pgqueue.flows import Flow, Source, WakeSignal, batches
from pgqueue.flows.locked import LockedMessage
from pgqueue.model.about import about
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.holder import this_process
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.row import Row
from pgqueue.model.settings import QueueProperties
from pgqueue.statements import looking, queues, receiving, settling
from pgqueue.statements.looking import SHORTEST_PAUSE, Look
from pgqueue.worker.durations import Durations
from pgqueue.worker.lock_renewals import Renewals
from pgqueue.worker.pace import LONGEST_PAUSE, Pace

RECEIVED = ReceiveState.RECEIVED

Make = Callable[[str, Row, Source], LockedMessage]

#: How many are completed in one statement.
BATCH_SIZE = 1_000
#: How often the settings of the queue are read again.
SETTINGS_REFRESHED_EVERY = 60.0


@dataclass
class Tally:
    """What a worker has done since it started."""

    received: int = 0
    completed: int = 0
    failed: int = 0
    lost: int = 0
    timed_out: int = 0


class Dispatcher:
    """One claim in flight, sized to the idle slots; beside it, completions in batches; and which locks to keep.

    The slots work elsewhere: they are given what :meth:`claim` brings, and say what became of it with :meth:`finish`.
    """

    def __init__(
        self,
        queue: str,
        source: Source,
        make: Make,
        pace: Pace,
        renewals: Renewals,
        wake_signal: WakeSignal | None = None,
    ) -> None:
        if is_dead_letter_queue(queue):
            raise InvalidArgumentError(f"a worker does not take dead letters, loop over a receiver of them: {queue}")
        self.tally = Tally()
        self.durations = Durations()
        self.renewals = renewals
        self._queue = queue
        self._source = source
        self._make = make
        self._pace = pace
        self._wake_signal = wake_signal
        self._signal_count = 0
        self._finished: deque[tuple[LockedMessage, BaseException | None]] = deque()
        self._settings: QueueProperties | None = None
        self._settings_read_at = 0.0
        self._wanted = 0
        self._found = 0
        self._is_idle = False
        self._idle_pause = SHORTEST_PAUSE

    def finish(self, message: LockedMessage, failure: BaseException | None) -> None:
        """A slot is done with a message. Safe to call from any thread."""
        self._finished.append((message, failure))

    @property
    def has_finished(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._finished)

    def is_low(self, waiting: int) -> bool:
        """Whether it is time to claim more, while so many lie ready."""
        return self._pace.is_low(waiting)

    def settle(self) -> Flow[None]:
        """Completes what the handlers have finished. What a broken connection left open is tried again next time."""
        open_still: list[tuple[LockedMessage, BaseException | None]] = []
        while self._finished:
            taken = self._take_finished()
            try:
                in_doubt = [message for message, _ in taken if message.context.is_in_doubt]
                yield from batches.resolve_all(self._queue, in_doubt, self._source)
                batch = [message for message, failure in taken if failure is None and message.context.state is RECEIVED]
                results = yield from batches.settle(self._queue, batch, Outcome.COMPLETED, self._complete, self._source)
            except BaseException:
                self._finished.extendleft(reversed(taken))
                raise
            self._pace.finished(len(taken), time.monotonic())
            for message, failure in taken:
                if message.context.is_in_doubt:
                    open_still.append((message, failure))
                    continue
                self.renewals.drop(message)
                self._count(message, failure)
            for message, result in zip(batch, results, strict=True):
                if result.error is not None:
                    logger.warning(
                        "message %s of %s was handled, but is lost: %s",
                        result.sequence_number,
                        self._queue,
                        result.error,
                        extra=about(message, message.delivery_count, result.error),
                    )
        self._finished.extend(open_still)

    def _take_finished(self) -> list[tuple[LockedMessage, BaseException | None]]:
        """Takes the messages that are settled in one statement.

        A message whose lock has run out may have been claimed anew and be here twice: each delivery is settled by
        itself.
        """
        taken: dict[int, tuple[LockedMessage, BaseException | None]] = {}
        while self._finished and len(taken) < BATCH_SIZE:
            number = self._finished[0][0].sequence_number
            if number in taken:
                break
            taken[number] = self._finished.popleft()
        return list(taken.values())

    def claim(self, *, running: int, waiting: int) -> Flow[Sequence[LockedMessage]]:
        """Claims as many messages as the slots will want, if any."""
        self._signal_count = self._wake_signal.count if self._wake_signal else 0
        self._wanted = self._pace.appetite(running, waiting)
        self._found = 0
        if not self._wanted:
            return ()
        settings = yield from self._read_settings()
        sent_at = time.monotonic()
        rows, self._idle_pause = yield from self._receive(self._wanted, settings.lock_duration)
        self._is_idle = not rows
        self._pace.claimed(time.monotonic() - sent_at)
        messages = [self._make(self._queue, row, self._source) for row in rows]
        self._found = len(messages)
        self.tally.received += len(messages)
        self.renewals.keep(messages, sent_at, settings.lock_duration.total_seconds())
        return messages

    def pause(self) -> float | None:
        """How long until the next turn, unless a slot falls idle before; None: at once."""
        if not self._wanted:
            return LONGEST_PAUSE
        if self._is_notified and not self._found:
            return self._idle_pause
        return self._pace.pause(found=self._found, wanted=self._wanted)

    def on_wake(self, woken: Callable[[], object]) -> AbstractContextManager[None]:
        """While it is entered, ``woken`` is called when messages have come since the last claim, if more are wanted."""
        if self._wake_signal is None or not self._wanted:
            return nullcontext()
        return self._wake_signal.calling(woken, self._signal_count)

    def give_back(self, messages: Iterable[LockedMessage]) -> Flow[None]:
        """Gives back what was never handled; it does not count as a delivery."""
        unstarted = list(messages)
        for message in unstarted:
            self.renewals.drop(message)
        if unstarted:
            yield from self._source.execute(
                settling.release_batch(self._queue, [message.lock for message in unstarted])
            )

    @property
    def _is_notified(self) -> bool:
        return self._wake_signal is not None and self._wake_signal.is_live

    def _receive(self, wanted: int, lock_duration: timedelta) -> Flow[Look]:
        statement = receiving.receive(
            self._queue, max_messages=wanted, lock_duration=lock_duration, locked_by=this_process()
        )
        try:
            if self._is_idle and self._is_notified:
                return (yield from self._source.execute(looking.look(statement, self._queue)))
            return Look((yield from self._source.execute(statement)), SHORTEST_PAUSE)
        except QueueDisabledError as error:
            logger.debug("waiting: %s", error)
            return Look([], SHORTEST_PAUSE)

    def _read_settings(self) -> Flow[QueueProperties]:
        if self._settings is None or time.monotonic() >= self._settings_read_at + SETTINGS_REFRESHED_EVERY:
            self._settings = yield from self._source.execute(queues.get_queue(self._queue))
            self._settings_read_at = time.monotonic()
        return self._settings

    def _complete(self, locks: Sequence[Any]) -> Any:
        return settling.complete_batch(self._queue, locks, atomic=False)

    def _count(self, message: LockedMessage, failure: BaseException | None) -> None:
        if failure is not None or message.context.state is ReceiveState.ABANDONED:
            self.tally.failed += 1
        elif message.context.state is ReceiveState.COMPLETED:
            self.tally.completed += 1
        else:
            self.tally.lost += 1
