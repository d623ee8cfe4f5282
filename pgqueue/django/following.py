"""Clients that follow ``DATABASES``: a test runner renames databases after the clients were made, and drops them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

from django.db import connections
from django.db.backends.base.base import NO_DB_ALIAS

from pgqueue import QueueClient, transports
from pgqueue.django.placing import schema
from pgqueue.flows import Begun, Flow, Interceptors, Line, LossSignal, Source, Waiters, WakeSignal
from pgqueue.statements import Statement
from pgqueue.transports import drive, forking
from pgqueue.transports.cursors import PIPELINES

T = TypeVar("T")

#: The settings that name a database and how to connect to it.
NAMING = ("NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")

_sources: WeakSet[FollowingSource] = WeakSet()


class ClientOfSource(QueueClient):
    """A client whose statements run where a source of ours runs them."""

    def __init__(self, source: Source) -> None:
        self._source = source


class FollowingSource:
    """A pool of a database in ``DATABASES``: another one once its settings have changed."""

    timeout = transports.DEFAULT
    is_one_connection = False
    pipelines = PIPELINES
    interceptors: Interceptors | None = None

    def __init__(self, using: str, dsn: Callable[[str], str]) -> None:
        self.using = using
        self.schema = schema()
        self._dsn = dsn
        self._named: dict[str, Any] = {}
        self._open: Source | None = None
        self.reset_after_fork()
        forking.register_for_reset(self)
        _sources.add(self)

    def reset_after_fork(self) -> None:
        """Forget a lock that another thread of the parent may hold."""
        self._lock = threading.Lock()

    @property
    def conninfo(self) -> str:
        """The DSN of the database."""
        return self._pool().conninfo

    def execute(self, statement: Statement[T]) -> Flow[T]:
        """Run a statement on a connection of the pool."""
        return self._pool().execute(statement)

    def begin(self) -> Flow[Begun]:
        """Begin a transaction on a connection of the pool."""
        return self._pool().begin()

    def line(self) -> Flow[Line]:
        """Keep a connection of the pool for a while."""
        return self._pool().line()

    def wake_signal(self, queue: str) -> WakeSignal | None:
        """The signal that is set when messages arrive in a queue."""
        return self._pool().wake_signal(queue)

    def loss_signal(self, queue: str) -> LossSignal | None:
        """A signal that is called when a lock of the queue is taken away."""
        return self._pool().loss_signal(queue)

    def waiters(self, queue: str) -> Waiters:
        """The callers that wait for outcomes of a queue."""
        return self._pool().waiters(queue)

    def close(self) -> Flow[None]:
        """Close the pool. The next statement opens another."""
        with self._lock:
            pool, self._open = self._open, None
        if pool is not None:
            yield from pool.close()

    def _pool(self) -> Source:
        settings = connections[self.using].settings_dict
        named = {name: settings[name] for name in NAMING}
        with self._lock:
            former = self._open
            if former is not None and self._named == named:
                return former
            self._named = named | {"OPTIONS": dict(named["OPTIONS"])}
            pool = self._open = transports.source_of(self._dsn(self.using), asynchronous=False, schema=self.schema)
        if former is not None:
            drive(former.close())
        return pool


def close_before_databases_change(connection: Any, **_: object) -> None:
    """Close all pools before Django creates, copies or drops a database: none that is in use can be copied or dropped.

    For these commands Django connects without a database of the project.
    """
    if connection.alias == NO_DB_ALIAS:
        for source in list(_sources):
            drive(source.close())
