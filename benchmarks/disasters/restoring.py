"""Dump and restore: into another server, whose transaction ids are lower."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate

#: The name of the database while no client may reach it.
APART = "apart"
LAST_NUMBER = "select last_value from pgqueue.sequence_number"


class Dump(Disaster):
    """Clients are shut out, then all is dumped and restored."""

    name = "dump"
    fault = "`pg_dump` after clients are shut out, `pg_restore` into another server"
    person = "shut clients out, dump, restore, point clients at the new server"
    dumps: Sequence[Sequence[str]] = ((),)

    def make(self) -> Sequence[Cluster]:
        return [Cluster(), Cluster()]

    def prepare(self) -> None:
        self.servers[1].create()
        self.servers[1].start()

    def strike(self, fate: Fate) -> None:
        old, new = self.servers
        old.rename(NAME, APART)
        self.copy(APART)
        old.stop()
        fate.look(new, APART)
        new.rename(APART, NAME)

    def copy(self, source: str) -> None:
        """Dump a database of the old server, and restore it on the new one, under the name that hides it."""
        old, new = self.servers
        script, archive = new.directory / "roles", new.directory / "archive"
        new.tool("pg_dumpall", "--roles-only", "--dbname", old.dsn(), "--file", script)
        new.tool("psql", "--quiet", "--dbname", new.dsn(), "--file", script)
        new.execute(f"create database {APART}")
        for options in self.dumps:
            new.tool("pg_dump", "--format=custom", *options, "--dbname", old.dsn(source), "--file", archive)
            new.tool("pg_restore", "--exit-on-error", "--dbname", new.dsn(APART), archive)


class DumpInParts(Dump):
    """The schema, then the data."""

    name = "dump in parts"
    fault = "`pg_dump --schema-only`, then `--data-only`, after clients are shut out"
    dumps = (["--schema-only"], ["--data-only"])


class StaleDump(Dump):
    """The server has gone on since the dump: its numbers are given to other messages, while receivers hold the old."""

    name = "stale dump"
    fault = "a dump under load, restored when the server has gone on, is killed, and senders have sent again"
    person = "restore, send again what was sent after the dump, point clients at the new server"

    def strike(self, fate: Fate) -> None:
        old, new = self.servers
        with fate.forgetting():
            self.copy(NAME)
            fate.work(1)
            last = old.execute(LAST_NUMBER, database=NAME)
            old.kill()
        fate.look(new, APART)
        fate.send(new, APART, last - new.execute(LAST_NUMBER, database=APART))
        new.rename(APART, NAME)


DISASTERS = (Dump, DumpInParts, StaleDump)
