"""Connections of an application's engine, within a deadline.

An engine may connect, ping an idle connection, or wait for a free one, each for as long as its own settings allow. A
thread cannot be interrupted in that; so another one does it, and is left behind when the time is over.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from math import inf
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool

from pgqueue.errors import OperationTimeoutError

#: An event loop itself keeps no reference to its tasks.
closing: set[asyncio.Task[None]] = set()

UNANSWERED = "the engine gave no connection within {:.1f} s: nothing was sent to the database"


def connect(engine: Any, until: float) -> Any:
    """Return a connection, or an awaitable; ``until`` is in monotonic seconds.

    Raises:
        OperationTimeoutError: there was none in time.
    """
    left = max(until - time.monotonic(), 0.0)
    is_quick = until == inf or _connects_at_once(engine)
    if isinstance(engine, AsyncEngine):
        return engine.connect().start() if is_quick else _connect_async(engine, left)
    return engine.connect() if is_quick else _connect(engine, left)


def _connects_at_once(engine: Engine | AsyncEngine) -> bool:
    """Whether an idle connection is there, and is not pinged."""
    pool = engine.pool
    return isinstance(pool, QueuePool) and pool.checkedin() > 0 and not getattr(pool, "_pre_ping", True)


def _connect(engine: Engine, seconds: float) -> Any:
    """Connects in another thread, which closes a connection that arrives too late."""
    connecting: Future[Any] = Future()
    run = partial(copy_context().run, _fulfil, connecting, engine)
    threading.Thread(target=run, name="pgqueue-connecting", daemon=True).start()
    is_abandoned = True
    try:
        is_abandoned = not wait([connecting], seconds).done
    finally:
        if is_abandoned:
            connecting.add_done_callback(_close_late)
    if is_abandoned:
        raise OperationTimeoutError(UNANSWERED.format(seconds))
    return connecting.result()


def _fulfil(connecting: Future[Any], engine: Engine) -> None:
    try:
        connecting.set_result(engine.connect())
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        connecting.set_exception(error)


def _close_late(connecting: Future[Any]) -> None:
    if connecting.exception() is None:
        connecting.result().close()


async def _connect_async(engine: AsyncEngine, seconds: float) -> AsyncConnection:
    """Connects in another task: a cancelled statement of psycopg waits for its end."""
    connecting = asyncio.create_task(_started(engine))
    try:
        await asyncio.wait({connecting}, timeout=seconds)
    except asyncio.CancelledError:
        _leave(connecting)
        raise
    if connecting.done():
        return connecting.result()
    _leave(connecting)
    raise OperationTimeoutError(UNANSWERED.format(seconds))


async def _started(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect().start()


def _leave(connecting: asyncio.Task[AsyncConnection]) -> None:
    connecting.add_done_callback(_close)
    connecting.cancel()


def _close(connecting: asyncio.Task[AsyncConnection]) -> None:
    """Close a connection that arrives after its caller has stopped waiting."""
    if not connecting.cancelled() and connecting.exception() is None:
        closing.add(task := asyncio.create_task(connecting.result().close()))
        task.add_done_callback(closing.discard)
