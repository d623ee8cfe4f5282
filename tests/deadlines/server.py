"""A server of these tests' own, which does not answer: its processes are suspended, or a COMMIT waits for a standby."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psutil
import psycopg

from pgqueue.testing.database import create_template, created
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer
from tests.contract.sources import Sources
from tests.patience import eventually

#: In seconds: a call may end so long after its deadline, on a busy machine. Without a deadline it would not end.
LATE = 25.0


class Silenced:
    """A server, and the ways in which it gives no answer."""

    def __init__(self, server: ThrowawayServer) -> None:
        self.server = server
        self.template = create_template(server.dsn())

    @contextmanager
    def sources(self, face: type[Sources]) -> Iterator[Sources]:
        with created(self.server.dsn(), self.template) as database:
            sources = face(database)
            try:
                yield sources
            finally:
                sources.close()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All processes are suspended; the kernel goes on accepting connections and bytes for them."""
        postmaster = psutil.Process(self.server.process_id())
        postmaster.suspend()
        family = [postmaster, *postmaster.children(recursive=True)]
        try:
            for process in family:
                with suppress(psutil.NoSuchProcess):  # it was ending
                    process.suspend()
            yield
        finally:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    @contextmanager
    def without_standby(self) -> Iterator[None]:
        """Each COMMIT waits for a synchronous standby that does not exist; it has been done all the same."""
        with self._observer() as observer:
            self._set(observer, "nobody")
            self._wait_until_commits_wait(observer)
            try:
                yield
            finally:
                self._set(observer, "")

    @contextmanager
    def _observer(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.server.dsn(), autocommit=True) as observer:
            observer.execute("set synchronous_commit = off")
            yield observer

    def _set(self, observer: psycopg.Connection[Any], names: str) -> None:
        observer.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
        observer.execute("select pg_reload_conf()")

    def _wait_until_commits_wait(self, observer: psycopg.Connection[Any]) -> None:
        """A process of the server reads the setting for all others, at some time after the reload."""
        probes = b"do $$ begin loop perform pg_logical_emit_message(true, 'probe', ''); commit; end loop; end $$"
        waits = "select wait_event = 'SyncRep' from pg_stat_activity where pid = %s"
        with closing(psycopg.connect(self.server.dsn(), autocommit=True)) as probe:
            probe.pgconn.send_query(probes)
            eventually(lambda: observer.execute(waits, [probe.info.backend_pid]).fetchone() == (True,))
            observer.execute("select pg_terminate_backend(%s)", [probe.info.backend_pid])


@contextmanager
def silenced() -> Iterator[Silenced]:
    server = ThrowawayServer(binaries())
    server.settings.update({"wal_level": "replica", "max_wal_senders": "4"})
    try:
        server.create()
        server.start()
        yield Silenced(server)
    finally:
        server.remove()


@contextmanager
def silent_host() -> Iterator[int]:
    """The port of a host that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepted: list[socket.socket] = []
        threading.Thread(target=_accept, args=(listening, accepted), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        for each in accepted:
            each.close()


def _accept(listening: socket.socket, accepted: list[socket.socket]) -> None:
    while True:
        try:
            accepted.append(listening.accept()[0])
        except OSError:
            return
