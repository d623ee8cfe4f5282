"""How a worker answers a handler that fails: decisions as values."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import timedelta

import tenacity

from pgqueue.errors import (
    CommitInDoubtError,
    DeadLetter,
    InvalidArgumentError,
    InvalidStateError,
    LockLostError,
)
from pgqueue.model.backoff import Backoff
from pgqueue.model.policy import default_retry

#: Descriptions of dead letters are for people; the end of a traceback says most.
LONGEST_DESCRIPTION = 4_000


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """When a worker tries again, how long it waits, and when it dead-letters.

    A transaction that fails for a passing reason, a conflict, a deadlock or a lost connection, is begun again on the
    same lock, ``transaction_attempts`` times in all. Any other failure ends the delivery: the message rests for
    ``first_delay``, doubled with each delivery up to ``max_delay``, more or less by the share ``jitter``, and is
    delivered again.

    It is dead-lettered, with the type of the exception as the reason and its traceback as the description, when the
    exception is one of ``dead_letter_on``, or after ``max_attempts`` deliveries; the queue's ``max_delivery_count``
    holds in any case. A handler dead-letters on demand by raising :class:`~pgqueue.DeadLetter`.
    """

    transaction_attempts: int = 5
    max_attempts: int | None = None
    first_delay: timedelta = timedelta(seconds=1)
    max_delay: timedelta = timedelta(minutes=5)
    jitter: float = 0.2
    dead_letter_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.transaction_attempts < 1:
            raise InvalidArgumentError("transaction_attempts must be 1 or more")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise InvalidArgumentError(
                "max_attempts must be 1 or more, or None for the queue's max_delivery_count alone"
            )
        if self.first_delay < timedelta(0) or self.max_delay < self.first_delay:
            raise InvalidArgumentError("first_delay must not be negative, nor longer than max_delay")
        if not 0 <= self.jitter <= 1:
            raise InvalidArgumentError("jitter must be a share between 0 and 1")

    def delay(self, delivery_count: int, luck: float) -> timedelta:
        """How long a message rests after that many deliveries; ``luck`` between 0 and 1 picks from the range."""
        jitter = (1 - self.jitter, 1 + self.jitter)
        return Backoff(self.first_delay, self.max_delay, jitter=jitter).pause(delivery_count, luck)

    def transaction_retry(self) -> tenacity.Retrying:
        """How often, and how far apart, a transaction is tried on one lock."""
        return default_retry(self.transaction_attempts)


@dataclass(frozen=True)
class Abandon:
    """Give the message back, to rest that long."""

    delay: timedelta


@dataclass(frozen=True)
class MoveToDeadLetters:
    """Move the message to the dead letters."""

    reason: str
    description: str


@dataclass(frozen=True)
class LeaveLocked:
    """Nothing is to be done: the delivery is over, or its lock runs out by itself."""


Verdict = Abandon | MoveToDeadLetters | LeaveLocked


def judge(failure: BaseException, delivery_count: int, policy: RetryPolicy, luck: float) -> Verdict:
    """What becomes of a message whose handler failed."""
    match failure:
        case DeadLetter(reason=reason, description=description):
            return MoveToDeadLetters(reason, description or _traceback(failure))
        case LockLostError() | InvalidStateError() | CommitInDoubtError():
            return LeaveLocked()
        case _ if isinstance(failure, policy.dead_letter_on) or delivery_count >= (policy.max_attempts or float("inf")):
            return MoveToDeadLetters(_name(failure), _traceback(failure))
    return Abandon(policy.delay(delivery_count, luck))


def _name(failure: BaseException) -> str:
    kind = type(failure)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _traceback(failure: BaseException) -> str:
    text = "".join(traceback.format_exception(failure)).replace("\x00", "\ufffd")
    return text if len(text) <= LONGEST_DESCRIPTION else f"…{text[-LONGEST_DESCRIPTION:]}"
