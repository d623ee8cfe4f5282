"""Connections that break at every byte of the exchange of a COMMIT."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate
from pgqueue.embedded.server import SOCKET

#: A simple query; the answer is CommandComplete and ReadyForQuery.
COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
ANSWER = len(b"C\x00\x00\x00\x0bCOMMIT\x00") + len(b"Z\x00\x00\x00\x05I")
#: One in so many commits is torn, and each place this often at least.
EVERY, TIMES = 4, 2


class Torn(Disaster):
    """All connections lead through a proxy."""

    name = "torn commits"
    fault = f"connections cut after each of the {len(COMMIT) + ANSWER + 1} bytes of the exchange of a COMMIT"
    person = "nothing"

    def make(self) -> Sequence[Cluster]:
        self.proxy = Proxy()
        return [Cluster()]

    def start(self) -> None:
        super().start()
        self.proxy.start(self.servers[0].sockets / SOCKET)

    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{NAME}?sslmode=disable&gssencmode=disable"

    def strike(self, fate: Fate) -> None:
        self.proxy.is_cutting = True
        while len(self.proxy.cuts) <= len(COMMIT) + ANSWER or min(self.proxy.cuts.values()) < TIMES:
            fate.work(0.1)
        self.proxy.is_cutting = False

    def remove(self) -> None:
        self.proxy.stop()
        super().remove()


class Proxy:
    """Forwards to a server; ``cuts`` counts how often a connection was cut, by the number of bytes that passed."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listening.getsockname()[1]
        self.is_cutting = False
        self.cuts: Counter[int] = Counter()
        self._commits = itertools.count()
        self._lock = threading.Lock()

    def start(self, server: Path) -> None:
        threading.Thread(target=self._accept, args=(str(server),), daemon=True).start()

    def stop(self) -> None:
        _close(self._listening)

    def place(self) -> int | None:
        """After how many bytes this commit is cut, if it is."""
        with self._lock:
            if not self.is_cutting or next(self._commits) % EVERY:
                return None
            place = self.cuts.total() % (len(COMMIT) + ANSWER + 1)
            self.cuts[place] += 1
            return place

    def _accept(self, server: str) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                behind = socket.socket(socket.AF_UNIX)
                link = _Link(self, client, behind)
                try:
                    behind.connect(server)
                except OSError:
                    link.close()
                    continue
                for carry in (link.ask, link.answer):
                    threading.Thread(target=carry, daemon=True).start()


class _Link:
    """One connection; ``left`` is how many more bytes of answers the client gets, if it is cut."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._left: int | None = None

    def ask(self) -> None:
        with suppress(OSError):
            while asked := self._client.recv(65536):
                place = self._proxy.place() if asked == COMMIT else None
                if place is not None and place < len(COMMIT):
                    self._server.sendall(asked[:place])
                    break
                if place is not None:
                    self._left = place - len(COMMIT)
                self._server.sendall(asked)
        if self._left is None:
            self.close()

    def answer(self) -> None:
        """The client's end is closed when the server has answered."""
        with suppress(OSError):
            while answered := self._server.recv(65536):
                self._client.sendall(answered if self._left is None else answered[: self._left])
                if self._left is not None:
                    break
        self.close()

    def close(self) -> None:
        _close(self._client)
        _close(self._server)


def _close(open_socket: socket.socket) -> None:
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()


DISASTERS: Sequence[type[Disaster]] = (Torn,)
