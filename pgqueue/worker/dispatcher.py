"""The dispatcher of a worker: claims messages, and settles what the handlers have finished. Its steps are flows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from pgqueue.errors import (
    HandlerTimeoutError,
    InvalidArgumentError,
    PGQueueError,
    QueueDisabledError,
    SettlementUndoneError,
    logger,
)
from pgqueue.flows import Flow, Source, WakeSignal, batches, schedules
from pgqueue.flows.locked import LockedMessage
from pgqueue.leases.renewals import Renewals
from pgqueue.model.about import about
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.holder import this_process
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.settings import QueueProperties
from pgqueue.statements import looking, queues, receiving, settling
from pgqueue.statements.looking import SHORTEST_PAUSE, Look
from pgqueue.worker.failures import fail
from pgqueue.worker.pace import LONGEST_PAUSE, Pace
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.sessions import SETTLED, Make, SessionLimits, Sessions
from pgqueue.worker.tally import Durations, Tally

RECEIVED = ReceiveState.RECEIVED

#: A message that a handler has finished, and the handler's error, if any.
Finished = tuple[LockedMessage, BaseException | None]

#: The maximum number of messages completed in one statement.
BATCH_SIZE = 1_000
#: In seconds: how often the settings of the queue are read again.
SETTINGS_REFRESHED_EVERY = 60.0
#: In seconds: how often a worker that receives nothing, because its handlers are busy, takes a turn.
TURN_EVERY = 5.0
#: In seconds: how often a worker asks for schedules whose due times are to be computed.
SCHEDULES_PLANNED_EVERY = 60.0


class Dispatcher:
    """Runs one claim at a time, as large as the idle slots need; completes in batches; names the locks to renew.

    The slots run handlers on the messages that :meth:`claim` returns, and report the end of each to :meth:`finish`.
    """

    def __init__(
        self,
        queue: str,
        source: Source,
        make: Make,
        pace: Pace,
        renewals: Renewals,
        limits: SessionLimits,
        policy: Callable[[LockedMessage], RetryPolicy],
        wake_signal: WakeSignal | None = None,
    ) -> None:
        if is_dead_letter_queue(queue):
            raise InvalidArgumentError(f"a worker does not take dead letters, loop over a receiver of them: {queue}")
        self.tally = Tally()
        self.durations = Durations()
        self.renewals = renewals
        #: Whether the last claim found nothing because the queue is paused; with sessions, known within a minute.
        self.is_paused = False
        self._queue = queue
        self._source = source
        self._make = make
        self._pace = pace
        self._sessions = Sessions(queue, source, make, renewals, limits, self.tally)
        self._policy = policy
        self._wake_signal = wake_signal
        self._signal_count = 0
        #: How many settlements may have let the queue hand out more, and how many had before the last claim.
        self._frees = 0
        self._frees_before = 0
        self._finished: deque[Finished] = deque()
        self._settings: QueueProperties | None = None
        self._settings_read_at = 0.0
        self._received_at = time.monotonic()
        self._planned_at: float | None = None
        self._wanted = 0
        self._found = 0
        self._is_idle = False
        self._empty_until = 0.0
        self._now = 0.0

    def finish(
        self, messages: Sequence[LockedMessage], failures: Mapping[int, BaseException]
    ) -> Sequence[LockedMessage]:
        """Note that a slot has finished messages, and the errors of some. Safe to call from any thread.

        Returns:
            The next messages of their sessions, if they can be handled now.
        """
        followers: list[LockedMessage] = []
        for message in messages:
            state = message.context.state  # before it is completed in a batch
            failure = failures.get(message.sequence_number)
            self._finished.append((message, failure))
            if self._sessions.held:
                following = self._sessions.follow(message, failure, state)
                if following is not None:
                    followers.append(following)
                if state in SETTLED:
                    self._sessions.end(message)
        return followers

    @property
    def has_finished(self) -> bool:
        """Whether there are messages to settle."""
        return bool(self._finished)

    @property
    def is_releasing(self) -> bool:
        """Whether a session could not be released yet."""
        return self._sessions.is_releasing

    @property
    def is_claim_due(self) -> bool:
        """Whether messages of sessions have ended."""
        return self._sessions.has_ended

    def is_low(self, waiting: int) -> bool:
        """Whether to claim more, given the number of messages that wait for a handler."""
        return self._sessions.is_low if self._sessions.held else self._pace.is_low(waiting)

    def settle(self) -> Flow[bool]:
        """Complete the messages that handlers have finished. After a lost connection, the next call tries again.

        Returns:
            Whether the queue may therefore hand out more, because it has limits.
        """
        open_still: list[Finished] = []
        frees = self._has_limits and self.has_finished
        while self._finished:
            taken = self._take_finished()
            try:
                yield from self._resolve(taken)
                self._sessions.lose_behind(message for message, _ in taken)
                batch = [message for message, failure in taken if failure is None and message.context.state is RECEIVED]
                refusals = yield from batches.settle_resolved(batch, Outcome.COMPLETED, self._complete, self._source)
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
                if self._sessions.held:
                    self._sessions.end(message)
            for message in batch if refusals else ():
                if (error := refusals.get(message.sequence_number)) is not None:
                    logger.warning(
                        "message %s of %s was handled, but is lost: %s",
                        message.sequence_number,
                        self._queue,
                        error,
                        extra=about(message, message.delivery_count, error),
                    )
        self._finished.extend(open_still)
        self._frees += frees
        return frees

    def _resolve(self, taken: list[Finished]) -> Flow[None]:
        """Resolve settlements in doubt. If one by a handler turns out to be undone, that is the handler's failure."""
        places = [place for place, (message, _) in enumerate(taken) if message.context.is_in_doubt]
        yield from batches.resolve_all(self._queue, [taken[place][0] for place in places], self._source)
        for place in places:
            message, failure = taken[place]
            if isinstance(failure, SettlementUndoneError):
                if message.context.state is RECEIVED:
                    yield from fail(message, failure, self._policy(message))
                elif message.context.state is ReceiveState.COMPLETED:
                    taken[place] = message, None

    def _take_finished(self) -> list[Finished]:
        """Take the messages to settle in one statement.

        A message whose lock expired may have been claimed again and be here twice: each delivery is settled separately.
        """
        taken: dict[int, Finished] = {}
        while self._finished and len(taken) < BATCH_SIZE:
            number = self._finished[0][0].sequence_number
            if number in taken:
                break
            taken[number] = self._finished.popleft()
        return list(taken.values())

    def claim(self, *, running: int, waiting: int) -> Flow[Sequence[LockedMessage]]:
        """Claim as many messages as the slots will need, if any; none if the queue is known to be empty."""
        self._now = yield time.monotonic
        yield from self._keep_up()
        settings = yield from self._read_settings()
        if settings.requires_session:
            self.is_paused = settings.paused_at is not None
            return (yield from self._claim_from_sessions(settings.lock_duration.total_seconds()))
        if self._is_known_to_be_empty:
            return ()
        self._begin_to_look()
        self._wanted = self._pace.demand(running, waiting)
        self._found = 0
        self._empty_until = 0.0
        if not self._wanted:
            return ()
        sent_at = time.monotonic()
        rows, idle_pause, self.is_paused = yield from self._receive(self._wanted, settings.lock_duration)
        self._is_idle = not rows
        if len(rows) < self._wanted and not (rows and settings.has_limits):
            self._empty_until = self._now + idle_pause
        self._pace.claimed(time.monotonic() - sent_at)
        messages = [self._make(self._queue, row, self._source) for row in rows]
        self._found = len(messages)
        self.tally.received += len(messages)
        self.renewals.keep(messages, sent_at, settings.lock_duration.total_seconds())
        return messages

    def pause(self) -> float | None:
        """The seconds until the next turn, unless a slot becomes idle before; None for at once."""
        pause = self._pause()
        return min(pause, self._sessions.pause(self._now)) if self._sessions.held and pause is not None else pause

    def _pause(self) -> float | None:
        if not self._wanted:
            return LONGEST_PAUSE
        if self._is_known_to_be_empty:
            return self._empty_until - self._now
        return self._pace.pause(found=self._found, wanted=self._wanted)

    def on_wake(self, woken: Callable[[], object]) -> AbstractContextManager[None]:
        """Inside the block, call ``woken`` when messages have arrived since the last claim, if more are needed."""
        if self._wake_signal is None or not self._wanted:
            return nullcontext()
        return self._wake_signal.calling(woken, self._signal_count)

    def give_back(self, messages: Iterable[LockedMessage]) -> Flow[None]:
        """Release messages that no handler has started, without counting the delivery."""
        unstarted = list(messages)
        for message in unstarted:
            self.renewals.drop(message)
        if unstarted:
            yield from self._source.execute(
                settling.release_batch(self._queue, [message.lock for message in unstarted])
            )
        for message in unstarted:
            self._sessions.end(message)

    def drop(self, messages: Sequence[LockedMessage]) -> Flow[None]:
        """Give back messages that another one has kept from being handled. If that fails, their locks run out."""
        try:
            yield from self.give_back(messages)
        except PGQueueError as error:
            logger.warning("messages of %s were not given back, their locks run out: %s", self._queue, error)
            for message in messages:
                self._sessions.end(message)

    def release_sessions(self) -> Flow[None]:
        """Release the sessions that no handler works on, because the worker stops."""
        yield from self._sessions.release_free()

    def _claim_from_sessions(self, lock_duration: float) -> Flow[Sequence[LockedMessage]]:
        is_empty = self._is_known_to_be_empty
        messages: Sequence[LockedMessage] = ()
        if not is_empty:
            self._begin_to_look()
            self._empty_until = self._now + SHORTEST_PAUSE
            self._received_at = self._now
        sent_at = time.monotonic()
        try:
            messages = yield from self._sessions.claim(lock_duration, self._pace.ahead, is_empty=is_empty)
        except QueueDisabledError as error:
            logger.debug("waiting: %s", error)
        if messages:
            self._pace.claimed(time.monotonic() - sent_at)
        self._found, self._wanted = len(messages), self._sessions.wanted
        return messages

    def _keep_up(self) -> Flow[None]:
        """The upkeep that receives do not do: turns while there is none, and the due times of cron expressions."""
        if self._planned_at is None or self._now >= self._planned_at + SCHEDULES_PLANNED_EVERY:
            try:
                yield from schedules.plan(self._source)
            except PGQueueError as error:
                if error.is_transient:
                    raise
                logger.warning("due times of schedules could not be computed: %s", error)
            self._planned_at = self._now
        if self._now >= self._received_at + TURN_EVERY:
            self._received_at = self._now
            yield from self._source.execute(receiving.take_turn(self._queue))

    def _begin_to_look(self) -> None:
        """Note what was known before a claim: what comes while it is under way may be missing in its answer."""
        self._signal_count = self._wake_signal.count if self._wake_signal else 0
        self._frees_before = self._frees

    @property
    def _is_known_to_be_empty(self) -> bool:
        """Whether the last claim took all there was, a notification would announce more, and no poll is due."""
        return (
            self._wake_signal is not None
            and self._wake_signal.is_live
            and self._wake_signal.count == self._signal_count
            and self._frees == self._frees_before
            and self._now < self._empty_until
        )

    @property
    def _has_limits(self) -> bool:
        return self._settings is not None and self._settings.has_limits

    def _receive(self, wanted: int, lock_duration: timedelta) -> Flow[Look]:
        statement = receiving.receive(
            self._queue, max_messages=wanted, lock_duration=lock_duration, locked_by=this_process()
        )
        try:
            if self._is_idle or self._has_limits:
                found = yield from self._source.execute(looking.look(statement, self._queue))
            else:
                found = Look((yield from self._source.execute(statement)), SHORTEST_PAUSE)
        except QueueDisabledError as error:
            logger.debug("waiting: %s", error)
            return Look([], SHORTEST_PAUSE)
        self._received_at = self._now
        return found

    def _read_settings(self) -> Flow[QueueProperties]:
        if self._settings is None or time.monotonic() >= self._settings_read_at + SETTINGS_REFRESHED_EVERY:
            self._settings = yield from self._source.execute(queues.get_queue(self._queue))
            self._settings_read_at = time.monotonic()
        return self._settings

    def _complete(self, locks: Sequence[Any]) -> Any:
        return settling.complete_batch(self._queue, locks, atomic=False)

    def _count(self, message: LockedMessage, failure: BaseException | None) -> None:
        state = message.context.state
        if failure is None and state is ReceiveState.COMPLETED:
            self.tally.completed += 1
        elif failure is not None or state is ReceiveState.ABANDONED:
            self.tally.failed += 1
            self.tally.timed_out += isinstance(failure, HandlerTimeoutError)
        else:
            self.tally.lost += 1
