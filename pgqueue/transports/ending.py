"""Statements that were left running on one of our connections by an exception."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from pgqueue.errors import logger
from pgqueue.flows import Flow

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any

#: In seconds: how long, and at what intervals, to ask the server to end a statement. A request that arrives before the
#: statement has no effect.
PATIENCE = 5.0
INTERVAL = 0.5

COPIES = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)


def end_statement(connection: AnyConnection) -> Flow[None]:
    """Cancel the statement that is running, if any, and wait until the server has ended it.

    Otherwise the server may carry it out after it was asked for the outcome. psycopg does the same, but only for
    KeyboardInterrupt, SystemExit and CancelledError. If the server does not answer, the connection is closed; so it is
    when a COPY is open, which only its own cursor can end.
    """
    until = time.monotonic() + PATIENCE
    try:
        while _is_active(connection) and time.monotonic() < until:
            yield from _cancel(connection)
            if (yield partial(connection.wait, _rest(connection, time.monotonic() + INTERVAL))):
                break
    except psycopg.Error as failure:
        logger.debug("the connection broke while a statement was ended on it: %s", failure)
    if _is_active(connection):
        yield connection.close


def end_pipeline(connection: AnyConnection) -> Flow[None]:
    """As :func:`end_statement`, for all statements of a pipeline. The connection is closed then."""
    try:
        with suppress(psycopg.Error):  # it is broken
            connection.pgconn.pipeline_sync()
            yield from end_statement(connection)
    finally:
        connection.pgconn.finish()


def _cancel(connection: AnyConnection) -> Flow[None]:
    try:
        yield partial(connection.cancel_safe, timeout=PATIENCE)
    except psycopg.Error as failure:
        logger.debug("a statement could not be cancelled, it may end by itself: %s", failure)


def _rest(connection: AnyConnection, until: float) -> Generator[Wait, Ready, bool]:
    """Send the rest of the statement and discard its results; return whether it is a COPY.

    A generator for psycopg to wait on.
    """
    while _is_active(connection) and time.monotonic() < until:
        if not connection.pgconn.is_busy():
            result = connection.pgconn.get_result()
            if result is not None and result.status in COPIES:
                return True
        elif (yield Wait.RW if connection.pgconn.flush() else Wait.R):
            connection.pgconn.consume_input()
    return False


def _is_active(connection: AnyConnection) -> bool:
    return bool(connection.info.transaction_status == TransactionStatus.ACTIVE)
