"""What drivers raise, as the errors of this library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import psycopg_pool

from pgqueue.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    OperationTimeoutError,
    PGQueueError,
    SchemaVersionError,
    error_class,
)

REMEDY = "run `pgqueue migrate`, or client.migrate()"

#: A statement of that name exists already, or does not: somebody else has been in the session.
NOT_OUR_STATEMENT = ("42P05", "26000")
POOLER_REMEDY = "PgBouncer needs max_prepared_statements > 0, or connections with prepare_threshold=None"


@contextmanager
def translated() -> Iterator[None]:
    """Raises the library's error in place of psycopg's, which stays its cause."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> PGQueueError:
    if isinstance(error, psycopg_pool.PoolTimeout):
        return OperationTimeoutError(f"the connection pool had no connection to give: {error}")
    kind = error_class(error.sqlstate)
    if kind is SchemaVersionError:
        return SchemaVersionError(
            f"the pgqueue schema is missing or too old here ({error}): {REMEDY}", sqlstate=error.sqlstate
        )
    if kind is not None:
        return kind(_text(error), sqlstate=error.sqlstate)
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return ConnectionLostError(str(error))
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return InvalidArgumentError(str(error))
    return PGQueueError(_text(error), sqlstate=error.sqlstate)


def _text(error: psycopg.Error) -> str:
    primary = error.diag.message_primary or str(error)
    hint = POOLER_REMEDY if error.sqlstate in NOT_OUR_STATEMENT else error.diag.message_hint
    return f"{primary}. {hint}" if hint else primary
