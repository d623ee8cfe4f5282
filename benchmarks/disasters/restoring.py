"""Dump and restore: into another server, whose transaction ids are lower."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.chaos import evidence
from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, UNREACHABLE, Disaster, Fate
from pgqueue.embedded.server import ServerError
from pgqueue.schema import migrate

#: The name of the database while no client may reach it.
APART = "apart"
#: The tables whose rows `pgqueue migrate` writes; and the sequences of rates, which receives create again.
OF_MIGRATE = "pgqueue.(alembic_version|installation|forwarding_change|publishing_lock|secret|full_at_*)"
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
        script = new.directory / "roles"
        new.tool("pg_dumpall", "--roles-only", "--dbname", old.dsn(), "--file", script)
        new.tool("psql", "--quiet", "--dbname", new.dsn(), "--file", script)
        new.execute(f"create database {APART}")
        self.fill(source)

    def fill(self, source: str) -> None:
        """Restore the database's contents into the empty one."""
        for options in self.dumps:
            self.transfer(source, *options)

    def transfer(self, source: str, *options: str) -> None:
        """Dump with these options, and restore, in one transaction."""
        old, new = self.servers
        archive = new.directory / "archive"
        new.tool("pg_dump", "--format=custom", *options, "--dbname", old.dsn(source), "--file", archive)
        new.tool("pg_restore", "--single-transaction", "--dbname", new.dsn(APART), archive)


class DumpInParts(Dump):
    """The schema, then the data."""

    name = "dump in parts"
    fault = "`pg_dump --schema-only`, then `--data-only`, after clients are shut out"
    dumps = (["--schema-only"], ["--data-only"])


class DataAlone(Dump):
    """The new database was migrated before: what that wrote is in the dump, too."""

    name = "data alone"
    fault = "`pg_dump --data-only`, restored where `pgqueue migrate` has been: refused; then without its rows"
    person = (
        "shut clients out, `pgqueue migrate` the new database with the same version, dump"
        " [without its rows](deploying.md#backups), restore, point clients at the new server"
    )

    def fill(self, source: str) -> None:
        migrate(self.servers[1].dsn(APART))
        self.servers[1].execute(evidence.INSTALL, database=APART)
        self.be_refused(source)
        self.transfer(source, "--data-only", f"--exclude-table-data={OF_MIGRATE}")

    def be_refused(self, source: str) -> None:
        """Restore all rows, in vain."""
        try:
            self.transfer(source, "--data-only")
        except ServerError as error:
            if "duplicate key" in str(error):
                return
            raise
        raise RuntimeError("rows of `pgqueue migrate` were restored beside its own")


class StaleDump(Dump):
    """The server has gone on since the dump: its numbers are given to other messages, while receivers hold the old."""

    name = "stale dump"
    fault = "a dump under load, restored when the server has gone on, is killed, and senders have sent again"
    person = "restore, send again what was sent after the dump, point clients at the new server"
    found = frozenset({UNREACHABLE})

    def strike(self, fate: Fate) -> None:
        old, new = self.servers
        with fate.forgetting():
            self.copy(NAME)
            fate.work(1)
            last = old.execute(LAST_NUMBER, database=NAME)
            old.kill()
        fate.examine(old.dsn(NAME))
        fate.look(new, APART)
        fate.send(new, APART, last - new.execute(LAST_NUMBER, database=APART))
        new.rename(APART, NAME)


DISASTERS = (Dump, DumpInParts, DataAlone, StaleDump)
