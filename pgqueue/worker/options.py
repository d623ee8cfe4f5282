"""The arguments of a worker, checked once for both drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.calls import is_coroutine_function, must_finish
from pgqueue.worker.handling import takes_a_transaction
from pgqueue.worker.lock_renewals import OnFailure, check_renewal_callback
from pgqueue.worker.policy import RetryPolicy

KINDS = ("psycopg", "sqlalchemy")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a worker; see :class:`pgqueue.Worker`."""

    handler: Callable[..., Any]
    concurrency: int
    transaction: object
    retry: RetryPolicy
    transaction_batch: int
    prefetch: int
    handler_timeout: timedelta | None
    max_lock_renewal_duration: timedelta
    on_lock_renew_failure: OnFailure | None
    grace_period: timedelta
    sweep_interval: timedelta | None

    def __post_init__(self) -> None:
        takes_two = takes_a_transaction(self.handler)
        must_finish(self.handler, "the handler", asynchronous=True)
        check_renewal_callback(self.on_lock_renew_failure)
        _require(self.concurrency >= 1, "concurrency must be 1 or more")
        _require(self.transaction_batch >= 1, "transaction_batch must be 1 or more")
        _require(
            self.transaction_batch == 1 or self.transaction is not None,
            "transaction_batch needs a transaction: messages without one are completed in batches anyway",
        )
        _require(self.prefetch >= 0, "prefetch must not be negative")
        _require(
            not isinstance(self.transaction, str) or self.transaction in KINDS,
            f'transaction must be "psycopg", "sqlalchemy", a source of transactions or None, not {self.transaction!r}',
        )
        _require(
            takes_two or self.transaction is None,
            "with a transaction the handler must take it: handler(message, tx)",
        )
        _require(
            not takes_two or self.transaction is not None,
            'the handler takes a transaction: say which, transaction="psycopg" or "sqlalchemy"',
        )
        _require(
            self.sweep_interval is None or self.sweep_interval > timedelta(0),
            "sweep_interval must be positive, or None",
        )
        for name in ("handler_timeout", "max_lock_renewal_duration", "grace_period"):
            duration = getattr(self, name)
            _require(duration is None or duration >= timedelta(0), f"{name} must not be negative")

    @property
    def is_coroutine(self) -> bool:
        return is_coroutine_function(self.handler)


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise InvalidArgumentError(complaint)
