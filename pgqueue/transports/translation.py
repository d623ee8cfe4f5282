"""Translation of drivers' errors into the errors of this library."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, NamedTuple

import psycopg
import psycopg_pool

from pgqueue.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    OperationTimeoutError,
    PGQueueError,
    ReadOnlyError,
    SchemaVersionError,
    error_class,
)
from pgqueue.model.policy import is_refused_for_good

REMEDY = "run `pgqueue migrate`, with --schema unless that is pgqueue, or client.migrate()"

#: A prepared statement already exists, or does not: a pooler has given the session to another client.
NOT_OUR_STATEMENT = ("42P05", "26000")
POOLER_REMEDY = (
    "PgBouncer needs max_prepared_statements > 0, or connections with prepare_threshold=None (of asyncpg, with"
    " statement_cache_size=0)"
)

#: A name of SQL in a hint, whatever the schema.
SCHEMA = r"""(?:\b\w+|"[\w -]+")"""

#: SQL functions in hints that have a method of a client as their equivalent.
ADVISED = re.compile(
    SCHEMA + r"\.(alter|create|drop|grant)_(queue|topic|subscription|rule|batch|schedule|send|receive|monitor|admin)\b"
)
METHODS = {"alter": "update", "drop": "delete"}

#: The hint for a queue that was taken for a topic, or the other way round.
MISTAKEN = re.compile(rf"It is a (queue|topic): send to it with {SCHEMA}\.\w+")

TRACKED = re.compile(r"Tracking id ([0-9a-f]{12})\.")

FAILED_TRANSACTION = "25P02"

#: Something cannot be dropped because of what depends on it, which the detail names.
DEPENDED_ON = "2BP01"
READ_ONLY_REMEDY = (
    "use a transaction that may write: not READ ONLY, nor under default_transaction_read_only, nor on a standby"
)


class translated:  # noqa: N801 - read as a word, like contextlib's suppress
    """Raises the library's error in place of psycopg's, which becomes its cause.

    A refusal by a standby is a transient error: it may be promoted, or the next connection may lead to the primary.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: Any = None) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, psycopg.Error):
            translation = translate(error)
            if isinstance(translation, ReadOnlyError) and self._connection is not None:
                translation.is_transient = self._connection.info.parameter_status("in_hot_standby") == "on"
            raise translation from error


class Refusal(NamedTuple):
    """An error as the server has reported it, to any driver."""

    text: str
    sqlstate: str | None
    primary: str | None
    detail: str | None
    hint: str | None


def translate(error: psycopg.Error) -> PGQueueError:
    if isinstance(error, psycopg_pool.PoolTimeout):
        return OperationTimeoutError(f"the connection pool has no free connection: {error}")
    if isinstance(error, psycopg.errors.PipelineAborted):
        return refusal(Refusal("a statement has failed in the pipeline", FAILED_TRANSACTION, None, None, None))
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return lost(str(error))
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return InvalidArgumentError(str(error))
    diag = error.diag
    return refusal(Refusal(str(error), error.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint))


def lost(text: str) -> ConnectionLostError:
    """The error of a connection that broke, or could not be made."""
    error = ConnectionLostError(text)
    error.is_transient = not is_refused_for_good(text)
    return error


def refusal(reported: Refusal) -> PGQueueError:
    """The error of what the server has reported."""
    kind = error_class(reported.sqlstate)
    text = _text(reported) if kind is None else _text_of(kind, reported)
    return (kind or PGQueueError)(text, sqlstate=reported.sqlstate, tracking_id=_tracking_id(reported))


def _tracking_id(error: Refusal) -> str | None:
    """The id that a refusal of pgqueue has in its detail, and so in the log of the server."""
    found = TRACKED.search(error.detail or "")
    return found and found[1]


def _text_of(kind: type[PGQueueError], error: Refusal) -> str:
    if kind is SchemaVersionError:
        return f"the pgqueue schema is missing or too old here ({error.primary or error.text}): {REMEDY}"
    if kind is ReadOnlyError:
        return f"{_text(error)}: {READ_ONLY_REMEDY}"
    if error.sqlstate == FAILED_TRANSACTION:
        return f"{_text(error)}: roll it back, to the savepoint before the error at least"
    return _text(error)


def _text(error: Refusal) -> str:
    primary = error.primary or error.text
    if error.sqlstate == DEPENDED_ON:
        primary = f"{primary}. {error.detail}"
    hint = POOLER_REMEDY if error.sqlstate in NOT_OUR_STATEMENT else error.hint
    return f"{primary}. {_for_python(hint)}" if hint else primary


def _method(verb: re.Match[str]) -> str:
    return f"client.{METHODS.get(verb[1], verb[1])}_{verb[2]}"


def _for_python(hint: str) -> str:
    return MISTAKEN.sub(r"It is a \1: send to it with client.\1(name).send", ADVISED.sub(_method, hint))
