"""What a fork leaves to a child: a copy of every object, one thread, and sockets that it shares with its parent.

All of it is put right when the child begins, so that no call has to ask which process it is in.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import psycopg

C = TypeVar("C", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")


class Forked(Protocol):
    """What has threads, locks or connections."""

    def reset_after_fork(self) -> None:
        """Called in the child: what is not ours any more is forgotten, and never closed."""


_forked: WeakSet[Forked] = WeakSet()
_connections: WeakSet[Any] = WeakSet()


def register_for_reset(thing: Forked) -> None:
    """From now on ``begin_anew`` is called in a child."""
    _forked.add(thing)


def detach_after_fork(connection: C) -> C:
    """A connection that the library has opened: a child lets go of its socket."""
    _connections.add(connection)
    return connection


def _reset_after_fork() -> None:
    try:
        _detach_sockets()
    finally:
        for thing in list(_forked):
            thing.reset_after_fork()


def _detach_sockets() -> None:
    """Puts a socket that leads nowhere in the place of each that is shared.

    Closing a connection would end the parent's session, so nothing may be said on it, by whoever holds it here. Kept
    open, it would keep that session alive, with its locks, when the parent is killed.
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
