"""The consequences of a failed handler."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqueue import DeadLetter, RetryPolicy
from pgqueue.errors import InvalidArgumentError, InvalidStateError, LockLostError
from pgqueue.worker.policy import LONGEST_DESCRIPTION, Abandon, LeaveLocked, MoveToDeadLetters, judge

SECOND = timedelta(seconds=1)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_the_delay_doubles_with_each_delivery_up_to_the_longest() -> None:
    policy = RetryPolicy(first_delay=SECOND, max_delay=10 * SECOND, jitter=0)
    assert [policy.delay(count, 0.3) / SECOND for count in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_the_delay_around_its_middle() -> None:
    policy = RetryPolicy(first_delay=10 * SECOND, jitter=0.2)
    assert [policy.delay(1, share) / SECOND for share in (0, 0.5, 1)] == [8, 10, 12]


@pytest.mark.parametrize(
    ("failure", "policy", "verdict"),
    [
        (ValueError("x"), RetryPolicy(jitter=0), Abandon(2 * SECOND)),
        (DeadLetter("Unreadable", "no order"), RetryPolicy(), MoveToDeadLetters("Unreadable", "no order")),
        (LockLostError("gone"), RetryPolicy(max_attempts=1), LeaveLocked()),
        (InvalidStateError("settled"), RetryPolicy(dead_letter_on=(Exception,)), LeaveLocked()),
    ],
    ids=["any", "on demand", "lost", "settled"],
)
def test_a_failure_has_one_verdict(failure: Exception, policy: RetryPolicy, verdict: Any) -> None:
    assert judge(raised(failure), 2, policy, 0.5) == verdict


@pytest.mark.parametrize(
    "policy", [RetryPolicy(dead_letter_on=(LookupError,)), RetryPolicy(max_attempts=2)], ids=["by type", "by number"]
)
def test_a_message_that_the_policy_dead_letters_is_described_by_type_and_text(policy: RetryPolicy) -> None:
    error = raised(KeyError("\x00" + "k" * 10_000))
    error.__cause__ = raised(ValueError("v" * 10_000))
    verdict = judge(error, 2, policy, 0.5)
    assert isinstance(verdict, MoveToDeadLetters)
    assert verdict.reason == "KeyError"
    assert verdict.description is not None
    assert verdict.description.startswith(r"KeyError: '\x00kkk")
    assert len(verdict.description) == LONGEST_DESCRIPTION + 1


def test_a_dead_letter_without_a_description_is_described_by_its_cause() -> None:
    assert judge(raised(DeadLetter("Unpaid")), 1, RetryPolicy(), 0.5) == MoveToDeadLetters("Unpaid", None)
    caused = DeadLetter("Unpaid")
    caused.__cause__ = raised(ValueError("a\x00b"))
    assert judge(raised(caused), 1, RetryPolicy(), 0.5) == MoveToDeadLetters("Unpaid", "ValueError: a\ufffdb")


@pytest.mark.parametrize(
    "wrong",
    [
        {"transaction_attempts": 0},
        {"max_attempts": 0},
        {"first_delay": -SECOND},
        {"first_delay": 2 * SECOND, "max_delay": SECOND},
        {"jitter": 1.1},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (DeadLetter("Bad", "a\0b"), MoveToDeadLetters("Bad", "a\ufffdb")),
        (DeadLetter("B\ud800d", "why"), MoveToDeadLetters("B\ufffdd", "why")),
        (DeadLetter(7, "why"), MoveToDeadLetters("7", "why")),  # type: ignore[arg-type]
        (DeadLetter("", "why"), MoveToDeadLetters("pgqueue.errors.DeadLetter", "why")),
    ],
)
def test_a_reason_that_postgresql_cannot_store_dead_letters_all_the_same(
    failure: DeadLetter, verdict: MoveToDeadLetters
) -> None:
    assert judge(failure, 1, RetryPolicy(), 0.5) == verdict
