"""A proxy of TCP between the load and a server, which can be led to another server, and can lose all packets."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster
from pgqueue.embedded.server import SOCKET

#: A program for the kernel (BPF: ``ret 0``) that drops each packet that arrives at a socket, before TCP confirms it.
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
PORT = 5432

Address = str | tuple[str, int]


class Proxy:
    """Forwards each new connection to the server that ``server`` is the address of."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listening.getsockname()[1]
        self.server: Address = ""
        self._drops = False
        self._links: list[Link] = []

    def start(self, server: Address) -> None:
        self.server = server
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        _close(self._listening)
        for link in self._links:
            link.close()

    def dsn(self, database: str) -> str:
        """The DSN of a database behind it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    @contextmanager
    def hole(self, *, for_good: bool) -> Iterator[None]:
        """Packets are dropped in both directions: of new connections in this block, and of those that there are, too.

        After the block the latter go on, unless they are lost ``for_good``.
        """
        _drop_packets(self._listening)
        self._drops = True
        for link in self._links:
            link.drop_packets()
        yield
        lost = self._links
        self._drops = False
        _pass_packets(self._listening)
        for link in () if for_good else lost:
            link.pass_packets()

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return Link(client, server)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = self.link(client, socket.socket(_family(self.server)))
                try:
                    link.server.connect(self.server)
                except OSError:
                    link.close()
                    continue
                self._links = [*(each for each in self._links if each.is_open), link]
                if self._drops:
                    link.drop_packets()
                for carry in (link.ask, link.answer):
                    threading.Thread(target=carry, daemon=True).start()


class Link:
    """A connection of a client, and its continuation to the server; each end is closed with the other."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server

    @property
    def is_open(self) -> bool:
        return self.client.fileno() >= 0

    def ask(self) -> None:
        self._carry(self.client, self.server)

    def answer(self) -> None:
        self._carry(self.server, self.client)

    def close(self) -> None:
        _close(self.client)
        _close(self.server)

    def drop_packets(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                _drop_packets(end)

    def pass_packets(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                _pass_packets(end)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while carried := source.recv(65536):
                target.sendall(carried)
        self.close()


class Proxied(Disaster):
    """The load reaches the first server through a proxy."""

    def __init__(self) -> None:
        self.proxy = self.make_proxy()
        super().__init__()

    def make_proxy(self) -> Proxy:
        return Proxy()

    def start(self) -> None:
        super().start()
        self.proxy.start(address(self.servers[0]))

    def dsn(self) -> str:
        return self.proxy.dsn(NAME)

    def remove(self) -> None:
        self.proxy.stop()
        super().remove()


def address(server: Cluster) -> Address:
    """Where a server listens: at an address of TCP if it has one."""
    return (server.listen_addresses, PORT) if server.listen_addresses else str(server.sockets / SOCKET)


def _family(server: Address) -> int:
    return socket.AF_UNIX if isinstance(server, str) else socket.AF_INET


def _drop_packets(end: socket.socket) -> None:
    program = ctypes.create_string_buffer(DROP_ALL)
    end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def _pass_packets(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
