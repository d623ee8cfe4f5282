"""Connects to the database: a connection that is refused or lost is tried again for a bounded time."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from pgqueue.errors import ConnectionLostError, InvalidArgumentError, SchemaVersionError, error_class
from pgqueue.model.schemas import DEFAULT, check_schema
from pgqueue.spark.errors import DatabaseError, OptionError
from pgqueue.transports.readable import renaming

if TYPE_CHECKING:
    from pgqueue import QueueClient

T = TypeVar("T")

#: How long refused and lost connections are tried again, in the driver and in tasks.
RETRIED_SECONDS = 60.0

#: The same before a job begins: a restart of the server is waited for, and a wrong DSN is reported soon.
FIRST_SECONDS = 10.0

#: How long a new connection is tried in order to learn the outcome of a COMMIT whose answer was lost.
DOUBTS_FOR_SECONDS = RETRIED_SECONDS

#: How long one attempt may take, unless the DSN or PGCONNECT_TIMEOUT sets it.
ATTEMPT_SECONDS = 10


@dataclass(frozen=True)
class Instance:
    """An instance of pgqueue: its database, and its schema there.

    Raises:
        OptionError: no instance can be in this schema.
    """

    dsn: str = field(repr=False)
    schema: str = DEFAULT

    def __post_init__(self) -> None:
        try:
            check_schema(self.schema)
        except InvalidArgumentError as error:
            raise OptionError(str(error.args[0])) from None

    def connect(self, **settings: Any) -> psycopg.Connection[TupleRow]:
        """A connection whose statements name ``pgqueue``, and are executed in the schema."""
        return renaming(psycopg.connect(self.dsn, **settings), self.schema)

    def client(self) -> QueueClient:
        """A client that does not listen."""
        from pgqueue import QueueClient  # which tasks do without

        return QueueClient(self.dsn, listen=False, schema=self.schema)


def connect(instance: Instance, **settings: Any) -> psycopg.Connection[TupleRow]:
    """A connection, tried again for a minute while it is refused.

    Raises:
        psycopg.OperationalError: the last attempt failed.
    """
    return trying_again(RETRIED_SECONDS)(connect_once, instance, **settings)


def connect_once(instance: Instance, **settings: Any) -> psycopg.Connection[TupleRow]:
    """A connection, with a timeout for a server that does not answer.

    Raises:
        psycopg.OperationalError: it was refused, or there was no answer in time.
    """
    if not (conninfo_to_dict(instance.dsn).get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")):
        settings["connect_timeout"] = ATTEMPT_SECONDS
    return instance.connect(**settings)


def first_row(connection: psycopg.Connection[Any], query: Any, parameters: Any = None) -> TupleRow:
    """The first row of a query that has at least one."""
    row: TupleRow | None = connection.execute(query, parameters).fetchone()
    assert row is not None
    return row


def trying_again(seconds: float, retry: Callable[[BaseException], bool] | None = None) -> Retrying:
    """The policy that repeats a call for so many seconds while its connection is refused or lost."""
    return Retrying(
        retry=retry_if_exception(retry or is_lost),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )


def retried_until_known(
    instance: Instance,
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
        with connecting(instance) as connection:
            if connection.info.parameter_status("in_hot_standby") == "on":
                raise psycopg.OperationalError("the server is a standby, which may not have replayed everything yet")
            return act(connection)

    return trying_again(DOUBTS_FOR_SECONDS)(act_once)


def is_lost(error: BaseException) -> bool:
    """Whether the error is a lost connection, not a failed statement."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error_class(error.sqlstate) is ConnectionLostError


@contextmanager
def looking(instance: Instance, seconds: float | None = None) -> Iterator[psycopg.Connection[TupleRow]]:
    """A transaction in which the driver looks at the database before a task starts; it is rolled back.

    A refused connection is tried again for so many seconds, by default ``FIRST_SECONDS``.

    Raises:
        DatabaseError: the database cannot be reached, has no queues, or refuses a statement.
    """
    connecting = trying_again(FIRST_SECONDS if seconds is None else seconds, _may_answer_soon)
    with in_one_line(instance.schema), connecting(connect_once, instance) as connection:
        yield connection
        connection.rollback()


@contextmanager
def in_one_line(schema: str) -> Iterator[None]:
    """Raise psycopg's errors as a :class:`DatabaseError`, whose text is one line with the remedy."""
    try:
        yield
    except psycopg.Error as error:
        raise DatabaseError(" ".join(_line_of(error, schema).split())) from None


def _may_answer_soon(error: BaseException) -> bool:
    """Whether waiting may help: not if the name of the server is unknown, or if it rejected a password."""
    if not isinstance(error, psycopg.OperationalError) or error.pgconn is None:
        return False
    return is_lost(error) and not error.pgconn.used_password


def _line_of(error: psycopg.Error, schema: str) -> str:
    if error.sqlstate is None:
        first, *_ = str(error).splitlines() or ["no reason given"]
        return f"the database cannot be reached: {first}: is the server running, and is the dsn right?"
    if error_class(error.sqlstate) is SchemaVersionError:
        option = "" if schema == DEFAULT else f" --schema {shlex.quote(schema)}"
        return f"the {schema} schema is missing in this database, or too old: run `pgqueue migrate{option}`"
    text = error.diag.message_primary or str(error)
    return f"{text}: {error.diag.message_hint}" if error.diag.message_hint else text
