"""Retries an idempotent transaction while the outcome of its COMMIT is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from pgqueue.spark.connections import RETRIED_SECONDS, connect_once, refuse_standby, trying_again

T = TypeVar("T")

#: How long a new connection is tried in order to learn the outcome of a COMMIT whose answer was lost.
DOUBTS_FOR_SECONDS = RETRIED_SECONDS


def retried_until_known(
    dsn: str,
    act: Callable[[psycopg.Connection[Any]], T],
    *,
    connecting: Callable[..., psycopg.Connection[Any]] = connect_once,
) -> T:
    """Call ``act`` in a transaction of its own, and again on another connection if the first was refused or lost.

    The first transaction may have been committed; the second call of ``act`` must then change nothing. A standby is
    asked for nothing: it may not have replayed the first transaction yet, and is perhaps promoted soon.

    Raises:
        psycopg.OperationalError: no connection to a primary lasted long enough within a minute. It is not known whether
            the transaction was committed.
    """

    def act_once() -> T:
        with connecting(dsn) as connection:
            refuse_standby(connection)
            return act(connection)

    return trying_again(DOUBTS_FOR_SECONDS)(act_once)
