"""The arguments of a worker, checked once for both drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from pgqueue.errors import InvalidArgumentError
from pgqueue.leases.renewals import OnFailure, check_renewal_callback
from pgqueue.model.arguments import count, duration, given, shown, whole
from pgqueue.model.handler import KINDS, Handler
from pgqueue.model.holder import this_process
from pgqueue.worker.handlers import Routes
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.sessions import SessionLimits

DURATIONS = ("handler_timeout", "max_lock_renewal_duration", "grace_period", "sweep_interval", "session_idle_timeout")


class WorkerOptions(TypedDict, total=False):
    """The options of a worker that do not depend on its handler, for type checkers; see :class:`pgqueue.Worker`."""

    concurrency: int
    transaction_batch: int
    retry: RetryPolicy | None
    prefetch: int
    handler_timeout: timedelta | None
    max_lock_renewal_duration: timedelta
    on_lock_renew_failure: OnFailure | None
    grace_period: timedelta
    sweep_interval: timedelta | None
    session_idle_timeout: timedelta
    max_messages_per_session: int | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a worker; see :class:`pgqueue.Worker`."""

    routes: Mapping[str, Routes]
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
    session_idle_timeout: timedelta
    max_messages_per_session: int | None

    def __post_init__(self) -> None:
        takers = [handler for handler in self.handlers if handler.takes_transaction]
        check_renewal_callback(self.on_lock_renew_failure)
        count("concurrency", self.concurrency)
        count("transaction_batch", self.transaction_batch)
        _require(
            self.transaction_batch == 1 or self.transaction is not None,
            "transaction_batch needs a transaction: messages without one are completed in batches anyway",
        )
        given("prefetch", whole("prefetch", self.prefetch, least=0))
        whole("max_messages_per_session", self.max_messages_per_session)
        for name in DURATIONS:
            duration(name, getattr(self, name))
        _require(
            not isinstance(self.transaction, str) or self.transaction in KINDS,
            'transaction must be "psycopg", "sqlalchemy", a source of transactions or None,'
            f" not {shown(self.transaction)}",
        )
        _require(
            bool(takers) or self.transaction is None,
            "with a transaction the handler must take it: handler(message, tx)",
        )
        _require(
            not takers or self.transaction is not None,
            'the handler takes a transaction: choose one, transaction="psycopg" or "sqlalchemy"',
        )
        for handler in takers:
            _require(
                self.transaction not in KINDS or handler.transaction_kind in (None, self.transaction),
                f"{handler.name} asks for a transaction of {handler.transaction_kind}, and {shown(self.transaction)}"
                " was given for all handlers of the worker",
            )
        _require(
            self.sweep_interval is None or self.sweep_interval > timedelta(0),
            "sweep_interval must be positive, or None",
        )
        _require(
            self.max_messages_per_session is None or self.max_messages_per_session >= 1,
            "max_messages_per_session must be 1 or more, or None for no limit",
        )
        for name in {*DURATIONS} - {"sweep_interval"}:
            lasts = getattr(self, name)
            _require(lasts is None or lasts >= timedelta(0), f"{name} must not be negative")

    @property
    def name(self) -> str:
        """The name of its connections in pg_stat_activity, which keeps 63 bytes of it."""
        return f"pgqueue worker {this_process()} {' '.join(self.routes)}"

    @property
    def session_limits(self) -> SessionLimits:
        return SessionLimits(self.concurrency, self.session_idle_timeout.total_seconds(), self.max_messages_per_session)

    @property
    def handlers(self) -> Sequence[Handler]:
        return [handler for routes in self.routes.values() for handler in routes.handlers]


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise InvalidArgumentError(complaint)
