"""A proxy between a client and PostgreSQL that loses the connection at the worst moment.

It reads the frames of the protocol, forwards them, and cuts the connection at a given statement: before the server
has seen it, while the server is at it, or when the server has answered and the client has not heard.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

QUERY, PARSE, READY = b"Q", b"P", b"Z"

#: By itself, and after other statements in one text.
COMMITS = (b"COMMIT", b"; commit")


class Cut(Enum):
    """When the connection breaks, seen from the statement."""

    BEFORE = "the server never sees it"
    DURING = "the server goes on with it, and the client is gone"
    AFTER = "the server is done with it, and the client never hears"


class Proxy:
    """Listens on a port of its own; ``dsn`` leads through it."""

    def __init__(self, dsn: str) -> None:
        self._server = conninfo_to_dict(dsn)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self._thawed = threading.Event()
        self._thawed.set()
        self._cut: tuple[tuple[bytes, ...], Cut] | None = None
        self._awaited: tuple[bytes, threading.Event] | None = None
        self._refusals: tuple[bytes, int] | None = None
        self._to_refuse = 0
        port = self._listening.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for open_socket in self._sockets:
            _close(open_socket)
        for thread in self._threads:
            thread.join()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing comes through, either way; connections stay open."""
        self._thawed.clear()
        try:
            yield
        finally:
            self._thawed.set()

    def cut(self, how: Cut, *at: bytes) -> None:
        """Loses the connection that sends the next statement with one of these in it, or a COMMIT; once."""
        self._cut = (at or COMMITS, how)

    def refuse(self, connections: int, after: bytes) -> None:
        """Refuses so many new connections once a statement with this in it was sent."""
        self._refusals = (after, connections)

    @property
    def has_cut(self) -> bool:
        """Whether the connection was lost that was to be."""
        return self._cut is None

    def answered(self, text: bytes) -> threading.Event:
        """An event that is set when the server has sent an answer with this in it."""
        event = threading.Event()
        self._awaited = (text, event)
        return event

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._to_refuse:
                    self._to_refuse -= 1
                    _close(client)
                    continue
                link = _Link(self, client, _connect(self._server))
                self._sockets += [link.client, link.server]
                self._run(link.carry_questions)
                self._run(link.carry_answers)

    def _run(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def take_cut(self, kind: bytes, frame: bytes) -> Cut | None:
        if self._refusals is not None and self._refusals[0] in frame:
            (_, self._to_refuse), self._refusals = self._refusals, None
        if self._cut is None or kind not in (QUERY, PARSE) or not any(each in frame for each in self._cut[0]):
            return None
        (_, how), self._cut = self._cut, None
        return how

    def listen(self, frame: bytes) -> None:
        self._thawed.wait()
        if self._awaited is not None and self._awaited[0] in frame:
            self._awaited[1].set()


class _Link:
    """One connection of a client, and ours to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self.client = client
        self.server = server
        self._muted = False

    def carry_questions(self) -> None:
        for kind, frame in _frames(self.client, begins_untyped=True):
            how = self._proxy.take_cut(kind, frame)
            if how is Cut.BEFORE:
                break
            if how is not None:
                self._muted = True
            with suppress(OSError):
                self.server.sendall(frame)
            if how is Cut.DURING:
                _close(self.client)
                return
        if not self._muted:
            _close(self.server)
            _close(self.client)

    def carry_answers(self) -> None:
        for kind, frame in _frames(self.server):
            self._proxy.listen(frame)
            if self._muted and kind == READY:
                break
            if not self._muted:
                with suppress(OSError):
                    self.client.sendall(frame)
        _close(self.client)
        _close(self.server)


def _frames(source: socket.socket, *, begins_untyped: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """The frames that arrive, whole, each with its type; a client's first has none."""
    with suppress(OSError), source.makefile("rb") as stream:
        while True:
            kind = b"" if begins_untyped else stream.read(1)
            length = stream.read(4)
            if len(length) < 4:
                return
            rest = stream.read(struct.unpack("!i", length)[0] - 4)
            begins_untyped = False
            yield kind, kind + length + rest


def _connect(server: Mapping[str, object]) -> socket.socket:
    host, port = str(server.get("host") or "localhost"), str(server.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, int(port)))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(Path(host) / f".s.PGSQL.{port}"))
    return connection


def _close(open_socket: socket.socket) -> None:
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()
