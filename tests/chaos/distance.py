"""Distance between a client and PostgreSQL: everything sent arrives later, and round trips are counted."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.chaos.proxy import _close, _connect

Parcel = tuple[float, bytes]


class Distance:
    """Listens on a port of its own; ``dsn`` leads to the server, and a round trip takes ``latency`` longer there.

    ``round_trips`` counts how often the client sent after a reply of the server: a pipeline is one round trip.
    """

    def __init__(self, dsn: str, latency: timedelta) -> None:
        self._server = conninfo_to_dict(dsn)
        self._one_way = latency.total_seconds() / 2
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self._server_spoke_last = True
        self.round_trips = 0
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

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = _connect(self._server)
                for end in (client, server):
                    self._sockets.append(end)
                    if end.family == socket.AF_INET:
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(client, server, self._client_speaks)
                self._carry(server, client, self._server_speaks)

    def _carry(self, source: socket.socket, target: socket.socket, spoken: Callable[[], None]) -> None:
        road: queue.SimpleQueue[Parcel | None] = queue.SimpleQueue()
        self._run(lambda: _depart(source, road, self._one_way, spoken))
        self._run(lambda: _arrive(target, road))

    def _client_speaks(self) -> None:
        self.round_trips += self._server_spoke_last
        self._server_spoke_last = False

    def _server_speaks(self) -> None:
        self._server_spoke_last = True

    def _run(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()


def _depart(
    source: socket.socket, road: queue.SimpleQueue[Parcel | None], seconds: float, spoken: Callable[[], None]
) -> None:
    for heard in _heard(source):
        spoken()
        road.put((time.monotonic() + seconds, heard))
    road.put(None)


def _arrive(target: socket.socket, road: queue.SimpleQueue[Parcel | None]) -> None:
    with suppress(OSError):
        while (parcel := road.get()) is not None:
            due, heard = parcel
            time.sleep(max(0.0, due - time.monotonic()))
            target.sendall(heard)
    _close(target)


def _heard(source: socket.socket) -> Iterator[bytes]:
    with suppress(OSError):
        while heard := source.recv(65536):
            yield heard
