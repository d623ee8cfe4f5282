"""Connections that break at every byte of the exchange of a COMMIT."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.proxy import Link, Proxied, Proxy
from benchmarks.disasters.round import Disaster, Fate

#: A simple query; the answer is CommandComplete and ReadyForQuery.
COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
ANSWER = len(b"C\x00\x00\x00\x0bCOMMIT\x00") + len(b"Z\x00\x00\x00\x05I")
#: One in so many commits is torn, and each place this often at least.
EVERY, TIMES = 4, 2


class Torn(Proxied):
    """The proxy cuts some of its connections."""

    proxy: CuttingProxy
    name = "torn commits"
    fault = f"connections cut after each of the {len(COMMIT) + ANSWER + 1} bytes of the exchange of a COMMIT"
    person = "nothing"

    def make_proxy(self) -> Proxy:
        return CuttingProxy()

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    def strike(self, fate: Fate) -> None:
        self.proxy.is_cutting = True
        while len(self.proxy.cuts) <= len(COMMIT) + ANSWER or min(self.proxy.cuts.values()) < TIMES:
            fate.work(0.1)
        self.proxy.is_cutting = False


class CuttingProxy(Proxy):
    """``cuts`` counts how often a connection was cut, by the number of bytes that passed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cutting = False
        self.cuts: Counter[int] = Counter()
        self._commits = itertools.count()
        self._lock = threading.Lock()

    def place(self) -> int | None:
        """After how many bytes this commit is cut, if it is."""
        with self._lock:
            if not self.is_cutting or next(self._commits) % EVERY:
                return None
            place = self.cuts.total() % (len(COMMIT) + ANSWER + 1)
            self.cuts[place] += 1
            return place

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return _CutLink(self, client, server)


class _CutLink(Link):
    """``left`` is how many more bytes of answers the client gets, if it is cut."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._proxy = proxy
        self._left: int | None = None

    def ask(self) -> None:
        with suppress(OSError):
            while asked := self.client.recv(65536):
                place = self._proxy.place() if asked == COMMIT else None
                if place is not None and place < len(COMMIT):
                    self.server.sendall(asked[:place])
                    break
                if place is not None:
                    self._left = place - len(COMMIT)
                self.server.sendall(asked)
        if self._left is None:
            self.close()

    def answer(self) -> None:
        """The client's end is closed when the server has answered."""
        with suppress(OSError):
            while answered := self.server.recv(65536):
                self.client.sendall(answered if self._left is None else answered[: self._left])
                if self._left is not None:
                    break
        self.close()


DISASTERS: Sequence[type[Disaster]] = (Torn,)
