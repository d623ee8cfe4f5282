"""A full disk: where the WAL is, and where the tables are. It takes the right to mount file systems."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, UNREACHABLE, Disaster, Fate
from pgqueue.errors import OutOfResourcesError

#: Room for the WAL of a round, and the tables.
MEGABYTES = 128
MANY = 500
#: The server's advice, which the error of each send repeats.
ADVICE = "Check free disk space."


class FullVolume(Disaster):
    """A small volume, and a file that fills it."""

    volume: Path

    def make(self) -> Sequence[Cluster]:
        server = Cluster(max_wal_size="64MB")
        self.volume = server.directory / "volume"
        return [server]

    @classmethod
    def can_happen(cls) -> bool:
        return os.geteuid() == 0

    def start(self) -> None:
        server = self.servers[0]
        server.account.make_directory(self.volume)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "none", self.volume], check=True)
        server.account.make_directory(self.volume)
        super().start()

    def fill(self) -> None:
        with suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    def clear(self) -> None:
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.volume / "ballast"

    def remove(self) -> None:
        server = self.servers[0]
        if server.directory.exists() and server.is_running():
            server.kill()
        subprocess.run(["umount", "--lazy", self.volume], check=False)
        super().remove()


class FullTables(FullVolume):
    """The tablespace of the database: the server goes on, and refuses what needs room."""

    name = "disk full"
    fault = "no room for tables (a tablespace of 128 MB, filled)"
    person = "make room, as the error of each send advises; the doctor does not see disks"

    def prepare(self) -> None:
        server, place = self.servers[0], self.volume / "tables"
        server.account.make_directory(place)
        server.execute(sql.SQL("create tablespace small location {}").format(sql.Literal(str(place))))
        server.execute(sql.SQL("alter database {} set tablespace small").format(sql.Identifier(NAME)))

    def strike(self, fate: Fate) -> None:
        self.fill()
        self.be_advised(fate)
        fate.work(2)
        fate.examine()
        self.clear()

    def be_advised(self, fate: Fate) -> None:
        """Send until there is no room left for more."""
        try:
            while True:
                fate.send(self.servers[0], NAME, MANY)
        except OutOfResourcesError as error:
            if ADVICE not in str(error):
                raise RuntimeError("the error of a send lacks the server's advice") from error


class FullWAL(FullVolume):
    """The server stops with a panic, and cannot start until there is room."""

    name = "WAL full"
    fault = "no room for the WAL (a volume of 128 MB, filled): the server panics, and does not start again"
    person = "make room, start the server"
    found = frozenset({UNREACHABLE})

    def prepare(self) -> None:
        server = self.servers[0]
        server.stop()
        place = self.volume / "pg_wal"
        for command in (
            ["mv", str(server.data / "pg_wal"), str(place)],
            ["ln", "-s", str(place), str(server.data / "pg_wal")],
        ):
            server.account.run(command, server.directory)
        server.start()

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        self.fill()
        with suppress(psycopg.Error):
            while True:
                server.execute("select pg_switch_wal()")
                fate.work(0.1)
        while server.is_running():
            fate.work(0.1)
        fate.examine()
        self.clear()
        server.start()


DISASTERS: Sequence[type[Disaster]] = (FullTables, FullWAL)
