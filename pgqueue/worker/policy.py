"""A worker's decisions when a handler fails, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import tenacity

from pgqueue.errors import (
    CommitInDoubtError,
    DeadLetter,
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
)
from pgqueue.model.arguments import count, duration, given, real, whole
from pgqueue.model.backoff import Backoff
from pgqueue.model.bodies import InvalidBody
from pgqueue.model.failure import storable, text_of, titled, type_of
from pgqueue.model.policy import Tries, default_retry

#: People read the descriptions of dead letters; the traceback is kept as the message's last error.
LONGEST_DESCRIPTION = 4_000


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """When a worker retries, how long it waits, and when it dead-letters.

    A transaction that fails for a transient reason (a conflict, a deadlock or a lost connection) is begun again on the
    same lock, ``transaction_attempts`` times in all. Any other failure ends the delivery: the message is delivered
    again after a delay. The delay is ``first_delay``, doubled with each delivery up to ``max_delay``, and varied at
    random by the fraction ``jitter``.

    A message is dead-lettered when the exception is one of ``dead_letter_on``, or after ``max_attempts`` deliveries;
    the queue's ``max_delivery_count`` applies in any case. The reason is the type of the exception, the description
    its type and text. A handler dead-letters its message by raising :class:`~pgqueue.DeadLetter`.
    """

    transaction_attempts: int = 5
    max_attempts: int | None = None
    first_delay: timedelta = timedelta(seconds=1)
    max_delay: timedelta = timedelta(minutes=5)
    jitter: float = 0.2
    dead_letter_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        count("transaction_attempts", self.transaction_attempts)
        whole("max_attempts", self.max_attempts)
        if self.max_attempts is not None and self.max_attempts < 1:
            raise InvalidArgumentError(
                "max_attempts must be 1 or more, or None for the queue's max_delivery_count alone"
            )
        for name in ("first_delay", "max_delay"):
            given(name, duration(name, getattr(self, name)))
        if self.first_delay < timedelta(0) or self.max_delay < self.first_delay:
            raise InvalidArgumentError("first_delay must not be negative, nor longer than max_delay")
        if not 0 <= given("jitter", real("jitter", self.jitter)) <= 1:
            raise InvalidArgumentError("jitter must be a share between 0 and 1")

    def delay(self, delivery_count: int, luck: float) -> timedelta:
        """The delay after this many deliveries; ``luck``, between 0 and 1, picks a value within the jitter."""
        jitter = (1 - self.jitter, 1 + self.jitter)
        return Backoff(self.first_delay, self.max_delay, jitter=jitter).pause(delivery_count, luck)

    def transaction_retry(self) -> tenacity.Retrying:
        """How often, and at what intervals, a transaction is tried on one lock."""
        return default_retry(self.transaction_attempts)


@dataclass(frozen=True)
class TryAgain:
    """Begin the transaction again on the same lock, after this pause; the attempt with this ``number`` failed."""

    number: int
    pause: timedelta


@dataclass(frozen=True)
class Abandon:
    """Abandon the message; deliver it again after this delay."""

    delay: timedelta


@dataclass(frozen=True)
class MoveToDeadLetters:
    """Move the message to the dead letters; ``summary`` is the description for a log: short, and without the body."""

    reason: str
    description: str | None
    summary: str = field(default="", compare=False)


@dataclass(frozen=True)
class LeaveLocked:
    """Do nothing: the delivery is over, or its lock expires by itself."""


Verdict = TryAgain | Abandon | MoveToDeadLetters | LeaveLocked


def judge(
    failure: BaseException, delivery_count: int, policy: RetryPolicy, luck: float, tries: Tries | None = None
) -> Verdict:
    """Decide what to do with a message whose handler failed; ``tries`` are those of its transaction, if it has one."""
    if tries is not None and isinstance(failure, Exception):
        number, pause = tries.number, tries.pause_after(failure)
        if pause is not None:
            return TryAgain(number, pause)
    match failure:
        case DeadLetter(reason=reason, description=description):
            described = storable(str(description)) if description else _description(failure.__cause__)
            summary = failure.without_values if isinstance(failure, InvalidBody) else str(description or "")
            return MoveToDeadLetters(storable(str(reason)) or type_of(failure), described, summary)
        case LockLostError() | InvalidStateError() | CommitInDoubtError():
            return LeaveLocked()
        case _ if isinstance(failure, policy.dead_letter_on) or delivery_count >= (policy.max_attempts or float("inf")):
            return MoveToDeadLetters(storable(type_of(failure)), _description(failure), text_of(failure))
    return Abandon(policy.delay(delivery_count, luck))


def _description(failure: BaseException | None) -> str | None:
    if failure is None:
        return None
    text = storable(titled(type_of(failure), text_of(failure)))
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[:LONGEST_DESCRIPTION]}…"
