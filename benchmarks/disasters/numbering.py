"""Transaction ids and multixacts at their end: the server refuses to write until old rows are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import psycopg
from psycopg.errors import ProgramLimitExceeded

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import Disaster, Fate

#: The server refuses to give out the last three million ids.
REFUSED = 2**31 - 1 - 3_000_000
SEGMENT = 256 * 1024

HOLDER = "a forgotten session"
END_THE_HOLDER = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"


@dataclass(frozen=True)
class Ids:
    """Where the server keeps the state of its ids, and how many are in a file."""

    oldest: str
    directory: str
    per_segment: int
    option: str


class TransactionIds(Disaster):
    """A session that locks a table of another database keeps vacuum from freezing it."""

    name = "transaction ids"
    fault = "transaction ids used up (`pg_resetwal -x`), vacuum kept from freezing by a lock in another database"
    person = "end the session that holds the lock, `vacuumdb --all --freeze`"
    found = frozenset({"wraparound"})
    ids = Ids("oldestXID", "pg_xact", 4 * 8192 * 32, "-x")
    #: The load begins with so many left.
    left = 1_000

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    def prepare(self) -> None:
        """Begin shortly before the end; the table is locked before autovacuum comes to it."""
        server = self.servers[0]
        server.execute("create table held ()")
        server.stop()
        controlled = server.tool("pg_controldata", "-D", server.data)
        oldest = next(int(line.split()[-1]) for line in controlled.splitlines() if f"{self.ids.oldest}:" in line)
        advance(server, self.ids, oldest + REFUSED - self.left)
        server.start()
        self.holder = psycopg.connect(server.dsn(), application_name=HOLDER)
        self.holder.execute("lock table held in share mode")

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        with closing(self.holder):
            while not self.is_refusing(server):
                fate.work(0.1)
            fate.work(2)
            fate.examine()
            server.execute(END_THE_HOLDER, HOLDER)
        server.tool("vacuumdb", "--all", "--freeze", "--quiet", "--maintenance-db", server.dsn())

    def is_refusing(self, server: Cluster) -> bool:
        try:
            server.execute("select pg_current_xact_id()")
        except ProgramLimitExceeded:
            return True
        return False


def advance(server: Cluster, ids: Ids, target: int) -> None:
    """Let a stopped server continue with this id; the file that holds its state has to exist."""
    segment = server.data / ids.directory / f"{target // ids.per_segment:04X}"
    server.account.run(["truncate", "--size", str(SEGMENT), str(segment)], server.directory)
    server.tool("pg_resetwal", ids.option, f"{target}", "-D", server.data)


DISASTERS: Sequence[type[Disaster]] = (TransactionIds,)
