"""Retries an idempotent transaction while the outcome of its COMMIT is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from pgqueue.errors import ConnectionLostError, error_class

T = TypeVar("T")

#: How long a new connection is tried in order to learn the outcome of a COMMIT whose answer was lost.
DOUBTS_FOR_SECONDS = 60.0


def retried_until_known(dsn: str, act: Callable[[psycopg.Connection[Any]], T]) -> T:
    """Call ``act`` in a transaction of its own, and again on another connection if the first was lost.

    The first transaction may have been committed; the second call of ``act`` must then change nothing.

    Raises:
        psycopg.OperationalError: no connection lasted long enough within a minute. It is not known whether the
            transaction was committed.
    """

    def act_once() -> T:
        with psycopg.connect(dsn) as connection:
            return act(connection)

    again = Retrying(
        retry=retry_if_exception(is_lost),
        stop=stop_after_delay(DOUBTS_FOR_SECONDS),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    return again(act_once)


def is_lost(error: BaseException) -> bool:
    """Whether the error is a lost connection, not a failed statement."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error_class(error.sqlstate) is ConnectionLostError
