"""A forked child has a copy of every object, one thread, and sockets shared with its parent.

All of it is reset when the child starts, so that no call has to check which process it is in.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import psycopg

C = TypeVar("C", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")


class Forked(Protocol):
    """An object with threads, locks or connections."""

    def reset_after_fork(self) -> None:
        """Called in the child: forget what belongs to the parent, without closing it."""


_forked: WeakSet[Forked] = WeakSet()
_connections: WeakSet[Any] = WeakSet()


def register_for_reset(thing: Forked) -> None:
    """Have ``reset_after_fork`` called in every child from now on."""
    _forked.add(thing)


def detach_after_fork(connection: C) -> C:
    """Register a connection that the library opened: a child detaches from its socket."""
    _connections.add(connection)
    return connection


def _reset_after_fork() -> None:
    try:
        _detach_sockets()
    finally:
        for thing in list(_forked):
            thing.reset_after_fork()


def _detach_sockets() -> None:
    """Replace each shared socket by one that is not connected to anything.

    Closing a connection would end the parent's session, so nothing may be sent on it in the child. If the socket stayed
    open, it would keep that session alive, with its locks, after the parent was killed.
    """
    nowhere, other_end = socket.socketpair()
    other_end.close()
    with nowhere:
        for connection in list(_connections):
            try:
                os.dup2(nowhere.fileno(), connection.fileno(), inheritable=False)
            except psycopg.Error:
                continue  # it is closed, or broken
    _connections.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
