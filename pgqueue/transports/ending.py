"""Statements that an exception has left under way on a connection of ours."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready, Wait

from pgqueue.errors import logger
from pgqueue.flows import Flow

#: A psycopg Connection or AsyncConnection: the methods used here have the same names in both.
AnyConnection = Any

#: In seconds, for how long the server is asked to end a statement, and how often: a request that comes before the
#: statement has no effect.
PATIENCE = 5.0
INTERVAL = 0.5


def end_statement(connection: AnyConnection) -> Flow[None]:
    """Cancels the statement that is under way, if one is, and waits until the server is done with it.

    Else the server may carry it out after it was asked what became of it. psycopg does the same, but for
    KeyboardInterrupt, SystemExit and CancelledError only. Where the server does not answer, the connection is closed.
    """
    until = time.monotonic() + PATIENCE
    try:
        while _is_active(connection) and time.monotonic() < until:
            yield from _cancel(connection)
            yield partial(connection.wait, _rest(connection, time.monotonic() + INTERVAL))
    except psycopg.Error as failure:
        logger.debug("the connection broke while a statement was ended on it: %s", failure)
    if _is_active(connection):
        yield connection.close


def _cancel(connection: AnyConnection) -> Flow[None]:
    try:
        yield partial(connection.cancel_safe, timeout=PATIENCE)
    except psycopg.Error as failure:
        logger.debug("a statement could not be cancelled, it may end by itself: %s", failure)


def _rest(connection: AnyConnection, until: float) -> Generator[Wait, Ready, None]:
    """Sends what is left of the statement and drops its results, as a generator that psycopg waits for."""
    while _is_active(connection) and time.monotonic() < until:
        if not connection.pgconn.is_busy():
            connection.pgconn.get_result()
        elif (yield Wait.RW if connection.pgconn.flush() else Wait.R):
            connection.pgconn.consume_input()


def _is_active(connection: AnyConnection) -> bool:
    return bool(connection.info.transaction_status == TransactionStatus.ACTIVE)
