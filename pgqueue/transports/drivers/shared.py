"""A caller's transaction on a connection of any driver."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from pgqueue.flows import Flow
from pgqueue.model.context import ReceiveContext
from pgqueue.statements import Statement
from pgqueue.statements.statement import nothing
from pgqueue.transports.deadlines import Deadlines
from pgqueue.transports.drivers.driver import AnyConnection, Driver

T = TypeVar("T")

#: Allows PREPARE TRANSACTION: PostgreSQL refuses it after a NOTIFY, so this transaction wakes no consumers.
QUIETLY: Statement[None] = Statement("select pg_catalog.set_config('pgqueue.notify', 'off', true)", {}, nothing)


class SharedConnection:
    """A caller's connection, in whose transaction we take part. A deadline closes it: its state is then unknown."""

    quietly = QUIETLY
    pipelines = False

    def __init__(self, driver: Driver, connection: AnyConnection, deadlines: Deadlines) -> None:
        driver.require_transaction(connection)
        self._driver = driver
        self._connection = connection
        self._deadlines = deadlines
        self._process = os.getpid()

    def execute(self, statement: Statement[T]) -> Flow[T]:
        with self._driver.limited(self._deadlines, self._connection, self._deadlines.begin(statement)):
            if self._driver.is_two_phase(self._connection):
                self._driver.require_unprepared(self._connection)
                yield from self._driver.execute(self._connection, self.quietly)
            return (yield from self._driver.execute(self._connection, statement))

    def follow(self, contexts: Sequence[ReceiveContext]) -> Flow[None]:
        """Does nothing: no driver reports how a transaction ended, so the database is asked instead."""
        yield from ()

    @property
    def is_open(self) -> bool:
        # A forked child must not use a connection of its parent.
        return self._process == os.getpid() and self._driver.is_in_transaction(self._connection)
