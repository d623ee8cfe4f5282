"""psycopg: a transaction that we begin on a connection, and pools."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from typing import Any, TypeVar

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from pgqueue.errors import (
    InvalidStateError,
    TransactionRequiredError,
)
from pgqueue.flows import Begun, Flow, Line
from pgqueue.statements import Statement
from pgqueue.transports import cursors, forking, handles
from pgqueue.transports.cursors import end_transaction, execute, execute_after, is_in_a_pipeline
from pgqueue.transports.deadlines import DEFAULT, LAST_STEP, Deadlines, time_left
from pgqueue.transports.drivers import PSYCOPG
from pgqueue.transports.drivers.over_psycopg import has_pending_input
from pgqueue.transports.driving import adrive, drive
from pgqueue.transports.dsn import for_libpq, hosts, parsed
from pgqueue.transports.ending import end_statement
from pgqueue.transports.lines import ConnectionLine
from pgqueue.transports.notify_listener import NotifyListenerOwner
from pgqueue.transports.readable import ENCODING
from pgqueue.transports.translation import translated

T = TypeVar("T")

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any
AnyPool = Any

#: Arguments of psycopg's connect() that are not part of a DSN.
NOT_OF_LIBPQ = ("autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory")

#: The name of our own pools in psycopg's log.
POOL = "pgqueue"

#: In seconds, until psycopg calls ``reconnect_failed``. A pool pauses for a second before its second attempt, and for
#: longer from then on; restarting its backoff this often caps the pause.
RECONNECT_TIMEOUT = 2.0

#: Detects within half a minute that a server has vanished silently. Settings in the DSN take precedence.
SOCKET_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}

#: In seconds: libpq takes no less.
LEAST_CONNECT_TIMEOUT = 2

#: In seconds: how long to wait for a connection when no time is left. A pool does not look for less.
AT_ONCE = 0.001

#: The application name of a client's connections.
OUR_NAME = "pgqueue"

#: Those that libpq takes from environment variables, too.
ENVIRONMENT_VARIABLES = {
    "application_name": "PGAPPNAME",
    "client_encoding": "PGCLIENTENCODING",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}


def refuse_a_pipeline(connection: AnyConnection) -> None:
    """Refuse a pipeline: it sends COMMIT, but does not wait for the server's answer."""
    if is_in_a_pipeline(connection):
        raise TransactionRequiredError(
            "the connection is in pipeline mode, where a failed COMMIT goes unnoticed: leave the pipeline first"
        )


class BegunConnection:
    """A transaction that we began on a connection, which is given back to its source afterwards.

    The application works with the connection, but only we end the transaction. Nothing of its work stays on a
    connection of ours; a pool of the application's resets its connections itself, we only restore their attributes.
    """

    def __init__(
        self,
        connection: AnyConnection,
        deadlines: Deadlines,
        give_back: Callable[[], Any] | None = None,
        *,
        is_ours: bool = False,
    ) -> None:
        self.handle = connection
        self._deadlines = deadlines
        self._give_back = give_back
        self._is_ours = is_ours
        self._before = handles.Attributes.of_ours(connection) if is_ours else handles.Attributes(connection)
        self._is_to_begin = False
        #: Whether work may have left something in the session, which is ours.
        self._is_to_reset = False

    def begin(self) -> Flow[Begun]:
        status = self.handle.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR, TransactionStatus.ACTIVE):
            raise InvalidStateError(
                "the connection is in a transaction already: end it first, or settle with transaction=connection"
            )
        refuse_a_pipeline(self.handle)
        self._is_to_begin = self.handle.autocommit
        handles.refuse_ends(self.handle)
        yield from ()
        return self

    def execute(self, statement: Statement[T]) -> Flow[T]:
        with self._limited(statement):
            return (yield from self._execute(statement))

    def _execute(self, statement: Statement[T]) -> Flow[T]:
        if self._is_to_begin:
            self._is_to_reset = self._is_ours
            result = yield from execute_after(self.handle, ["begin"], statement)
            self._is_to_begin = False
            return result
        handles.require_free(PSYCOPG, self.handle)
        return (yield from execute(self.handle, statement))

    def _limited(self, statement: Statement[Any] | None = None) -> AbstractContextManager[None]:
        return self._deadlines.limited(self.handle, self._deadlines.begin(statement))

    def set_savepoint(self) -> Flow[None]:
        with translated(), self._limited():
            yield partial(self.handle.execute, "savepoint pgqueue_mark")

    def roll_back_to_savepoint(self) -> Flow[None]:
        with translated(), self._limited():
            yield partial(self.handle.execute, "rollback to savepoint pgqueue_mark")

    def commit(self, last: Statement[Any] | None = None) -> Flow[None]:
        self._require_open(last)
        with self._limited(last):
            if last is not None and self.handle.autocommit:
                yield from self._end_and_reset([last.text(), "commit"])
                return
            if last is not None:
                yield from self._execute(last)
            yield from self._end("commit")

    @property
    def is_open(self) -> bool:
        return bool(self.handle.info.transaction_status != TransactionStatus.IDLE)

    @property
    def can_commit_and_begin(self) -> bool:
        # An application's pool gets its connection back after each transaction: others wait for it, and it is reset.
        return (
            self._is_ours
            and bool(self.handle.autocommit)
            and self.handle.info.transaction_status == TransactionStatus.INTRANS
            and not is_in_a_pipeline(self.handle)
            and not PSYCOPG.is_busy(self.handle)
        )

    def commit_and_begin(self, last: Statement[Any], first: Statement[T]) -> Flow[T]:
        with self._limited(first):
            result = yield from execute_after(
                self.handle, [last.text(), "commit", *self._before.reset_alone, "begin"], first
            )
            if self._before.is_reset_enough is None:
                self._before.compare((yield partial(cursors.run, self.handle, [handles.DEFAULTS])))
        self._before.restore(self.handle)
        handles.refuse_ends(self.handle)
        return result

    def rollback(self) -> Flow[None]:
        # A closed coroutine cannot await, and psycopg itself ends a cancelled statement.
        if isinstance(self.handle, psycopg.Connection):
            yield from end_statement(self.handle)
        self._restore()
        if PSYCOPG.is_busy(self.handle) or (self._give_back is not None and is_in_a_pipeline(self.handle)):
            yield self.handle.close  # otherwise we, or its next user, would wait for what occupies it
        if not self.handle.closed:
            with self._deadlines.ending(self.handle):
                yield from self._end("rollback")

    def release(self) -> Flow[None]:
        self._restore()
        try:
            if self._is_to_reset and not self.handle.closed:
                yield self.handle.close
        finally:
            if self._give_back is not None:
                yield self._give_back

    def _require_open(self, last: Statement[Any] | None) -> None:
        refuse_a_pipeline(self.handle)
        handles.require_open(PSYCOPG, self.handle)
        if last is None:
            handles.require_success(PSYCOPG, self.handle)

    def _end(self, how: str) -> Flow[None]:
        if self._is_to_reset:
            yield from self._end_and_reset([how] if self.is_open else [])
            return
        handles.allow_ends(self.handle)
        with translated():
            yield getattr(self.handle, how)

    def _end_and_reset(self, commands: Sequence[str]) -> Flow[None]:
        yield from end_transaction(self.handle, commands, self._before.reset if self._is_ours else ())
        self._is_to_reset = False

    def _restore(self) -> None:
        if self._give_back is None:
            handles.allow_ends(self.handle)
        elif not self.handle.closed:
            self._before.restore(self.handle)


class PoolSource(NotifyListenerOwner):
    """A pool of psycopg connections, the client's own or the caller's."""

    pipelines = cursors.PIPELINES
    _belongs_to_parent = False
    #: The error text of calls once this source is closed, if any.
    _closed_text: str | None = None

    def __init__(self, pool: AnyPool, *, owned: bool, timeout: float = DEFAULT) -> None:
        self.timeout = timeout
        self._deadlines = Deadlines(timeout)
        self._pool = pool
        self._owned = owned
        self._opened = not owned
        self._is_closed = False

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        self._belongs_to_parent = not self._pool.closed

    @property
    def conninfo(self) -> str:  # type: ignore[override]  # readers see a property as an attribute
        return _conninfo(self._pool)

    def execute(self, statement: Statement[T]) -> Flow[T]:
        until = self._deadlines.begin(statement)
        connection = yield from self._take(until)
        give_back = partial(self._pool.putconn, connection)
        try:
            restore = not connection.autocommit
            if restore:
                yield partial(connection.set_autocommit, True)
            try:
                with self._deadlines.limited(connection, until):
                    if not self._owned:
                        return (yield from execute(connection, statement))
                    kept = cursors.take_kept(connection)
                    result = yield from execute(connection, statement, kept)
                    cursors.keep(connection, kept)
                    return result
            except BaseException:
                yield from end_statement(connection)
                raise
            finally:
                if restore and not connection.closed:
                    yield partial(connection.set_autocommit, False)
        finally:
            yield give_back

    def begin(self) -> Flow[Begun]:
        connection = yield from self._take(self._deadlines.begin())
        cursors.take_kept(connection)
        give_back = partial(self._pool.putconn, connection)
        begun = BegunConnection(connection, self._deadlines, give_back, is_ours=self._owned)
        try:
            return (yield from begun.begin())
        except BaseException:
            yield from begun.release()
            raise

    def line(self) -> Flow[Line]:
        until = self._deadlines.begin()
        connection = yield from self._take(until)
        cursors.take_kept(connection)
        give_back = partial(self._pool.putconn, connection)
        line = ConnectionLine(connection, give_back, self._deadlines, until, restore=not connection.autocommit)
        try:
            if not connection.autocommit:
                yield partial(connection.set_autocommit, True)
        except BaseException:
            yield from line.release()
            raise
        return line

    def close(self) -> Flow[None]:
        yield self.stop_listening
        if self._owned:
            self._is_closed = True
            if not self._pool.closed:  # open, even if the call that opened it was interrupted
                yield partial(self._pool.close, timeout=time_left(LAST_STEP))

    def _take(self, until: float = inf) -> Flow[AnyConnection]:
        self._require_open()
        with translated():
            if not self._opened:
                yield from self._test_connection(until)
                yield self._pool.open
                self._opened = True
                if self._is_closed:  # meanwhile, when there was nothing to close yet
                    yield self._pool.close
                    self._require_open()
            try:
                connection = yield self._getconn(until)
                while not self._is_usable(connection):
                    yield partial(self._pool.putconn, connection)
                    connection = yield self._getconn(until)
                return connection
            except psycopg_pool.PoolClosed:
                self._require_open()
                raise
            except psycopg_pool.PoolTimeout:
                if self._owned:
                    yield from self._test_connection(until)
                raise

    def _getconn(self, until: float) -> Callable[[], Any]:
        left = max(until - time.monotonic(), AT_ONCE)
        return partial(self._pool.getconn, timeout=min(left, self._pool.timeout))

    def _is_usable(self, connection: AnyConnection) -> bool:
        """Whether an idle connection is; if its server has given no answer on another one, it is closed."""
        if self._deadlines.trusts(connection):
            return not is_broken(connection)
        connection.pgconn.finish()
        return False

    def _require_open(self) -> None:
        if self._belongs_to_parent:
            raise InvalidStateError(
                "this client's pool belongs to the process that forked: open a pool in this process, and make a client"
                " of that"
            )
        if self._is_closed and self._closed_text is not None:
            raise InvalidStateError(self._closed_text)

    def _test_connection(self, until: float) -> Flow[None]:
        """Connects once without the pool, which would keep trying for long without giving the reason of the failure."""
        options = {} if until == inf else {"connect_timeout": _connect_timeout(self._pool.conninfo, until)}
        connection = yield partial(self._pool.connection_class.connect, self._pool.conninfo, **options)
        yield connection.close


class OwnPool(PoolSource):
    """A pool that the client opens at its first use in each process, and again when its event loop was closed."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, make: Callable[[], AnyPool], timeout: float, closed_text: str | None) -> None:
        super().__init__(make(), owned=True, timeout=timeout)
        self._make = make
        self._closed_text = closed_text

    def _take(self, until: float = inf) -> Flow[AnyConnection]:
        self._leave_closed_loop()
        if not self._opened and isinstance(self._pool, psycopg_pool.AsyncConnectionPool):
            self._loop = asyncio.get_running_loop()
        return (yield from super()._take(until))

    def close(self) -> Flow[None]:
        self._leave_closed_loop()
        yield from super().close()

    def _leave_closed_loop(self) -> None:
        """Leave a pool whose event loop was closed: the tasks that make its connections have died with it."""
        if self._loop is not None and self._loop.is_closed() and not self._is_closed:
            for connection in self._pool._pool:  # noqa: SLF001 - close() would wait for these tasks
                connection.pgconn.finish()
            self._pool._closed = True  # noqa: SLF001
            self._pool, self._opened, self._loop = self._make(), False, None

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        if self._belongs_to_parent:
            # A garbage-collected open pool waits for its threads, which exist only in the parent.
            self._pool._closed = True  # noqa: SLF001 - close() would end the parent's connections
            self._pool, self._opened, self._belongs_to_parent = self._make(), False, False


class OwnPoolSource(OwnPool):
    """A client's own pools: one for its statements, and one for the transactions in which the application works.

    So work that lasts long, or hangs, keeps no connection from the client's statements.
    """

    def __init__(self, make: Callable[[], AnyPool], timeout: float, closed_text: str | None) -> None:
        super().__init__(make, timeout, closed_text)
        self._for_work = OwnPool(make, timeout, closed_text)

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        self._for_work.reset_after_fork()

    def begin(self) -> Flow[Begun]:
        return self._for_work.begin()

    def close(self) -> Flow[None]:
        try:
            yield from self._for_work.close()
        finally:
            yield from super().close()


def own_pool(
    conninfo: str,
    *,
    asynchronous: bool,
    size: int = 10,
    patience: float | None = None,
    timeout: float = DEFAULT,
    closed_text: str | None = None,
) -> PoolSource:
    """The pools of a client with a DSN: opened at the first use; a connection is checked before it is handed out.

    ``patience`` is how long to wait for a connection, if that is less than the ``timeout`` of a call.
    """
    longest = DEFAULT if timeout == inf else timeout
    make: Callable[..., AnyPool] = partial(
        psycopg_pool.AsyncConnectionPool if asynchronous else psycopg_pool.ConnectionPool,
        with_timeouts(conninfo, timeout),
        min_size=0,
        max_size=size,
        open=False,
        kwargs={"autocommit": True},
        name=POOL,
        timeout=longest if patience is None else min(patience, longest),
        reconnect_timeout=RECONNECT_TIMEOUT,
    )
    if asynchronous:
        make = partial(make, configure=_detach_async_after_fork, reconnect_failed=_atry_again)
    else:
        make = partial(make, configure=forking.detach_after_fork, reconnect_failed=_try_again)
    return OwnPoolSource(make, timeout, closed_text)


async def _detach_async_after_fork(connection: AnyConnection) -> None:
    forking.detach_after_fork(connection)


def _try_again(pool: AnyPool) -> None:
    drive(_reconnecting(pool))


async def _atry_again(pool: AnyPool) -> None:
    await adrive(_reconnecting(pool))


def _is_not_of_our_pools(record: logging.LogRecord) -> bool:
    """Drop psycopg's warnings about failed attempts of our pools: callers get an error, a worker logs it once."""
    about = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
    return not (about.split("-")[0] == POOL and record.levelno == logging.WARNING)


logging.getLogger("psycopg.pool").addFilter(_is_not_of_our_pools)


def _reconnecting(pool: AnyPool) -> Flow[None]:
    """Make a pool that has failed to reconnect try again for requests that still wait; psycopg would forget them."""
    if pool.get_stats()["requests_waiting"]:
        yield pool.check


def with_timeouts(conninfo: str, timeout: float = DEFAULT) -> str:
    """The DSN as libpq writes it, with our defaults for what neither it nor the environment sets."""
    conninfo = for_libpq(conninfo)
    parameters = parsed(conninfo)
    defaults: dict[str, str | int] = {"application_name": OUR_NAME, "client_encoding": ENCODING, **SOCKET_TIMEOUTS}
    defaults["connect_timeout"] = _share_of_a_host(conninfo, timeout / 2)
    elsewhere = {name for name, variable in ENVIRONMENT_VARIABLES.items() if os.environ.get(variable)}
    missing = defaults.keys() - parameters.keys() - elsewhere
    return psycopg.conninfo.make_conninfo(conninfo, **{name: defaults[name] for name in missing})


def _share_of_a_host(conninfo: str, seconds: float) -> int:
    """How long to wait for one host, so that all hosts of a DSN are tried within this time."""
    least, most = LEAST_CONNECT_TIMEOUT, SOCKET_TIMEOUTS["connect_timeout"]
    return int(max(min(seconds / hosts(conninfo), most), least))


def _connect_timeout(conninfo: str, until: float) -> int:
    """The same until a deadline, and no longer than the timeout of the DSN."""
    limit = psycopg.conninfo.timeout_from_conninfo(psycopg.conninfo.conninfo_to_dict(conninfo))
    return min(_share_of_a_host(conninfo, until - time.monotonic()), limit)


def named(conninfo: str, application_name: str) -> str:
    """The DSN with this application name, unless it or the environment has another than ours."""
    name = psycopg.conninfo.conninfo_to_dict(conninfo).get("application_name", OUR_NAME)
    if name != OUR_NAME or os.environ.get(ENVIRONMENT_VARIABLES["application_name"]):
        return conninfo
    return psycopg.conninfo.make_conninfo(conninfo, application_name=application_name)


def _conninfo(pool: AnyPool) -> str:
    """The conninfo of a pool's database, from its DSN and its keyword arguments."""
    conninfo = pool.conninfo() if callable(pool.conninfo) else pool.conninfo
    beside = pool.kwargs() if callable(pool.kwargs) else pool.kwargs
    options = {name: value for name, value in (beside or {}).items() if name not in NOT_OF_LIBPQ}
    return psycopg.conninfo.make_conninfo(conninfo or "", **options)


def is_broken(connection: AnyConnection) -> bool:
    """Whether the server has ended an idle connection: reads unsolicited input, if any.

    A pool may have a check of its own, but it waits longer after each connection that fails it, up to half a minute.
    """
    try:
        while has_pending_input(connection):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return False
