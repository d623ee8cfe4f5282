"""Transaction ids at their end: the server refuses to write until old rows are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import psycopg
from psycopg.errors import ProgramLimitExceeded

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import Disaster, Fate

#: The server refuses to give out the last three million ids.
REFUSED = 2**31 - 1 - 3_000_000
#: The size of a file of their states, and how many ids it has: four to a byte.
SEGMENT = 256 * 1024
IDS_OF_SEGMENT = 4 * SEGMENT

HOLDER = "a forgotten session"
END_THE_HOLDER = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"


class TransactionIds(Disaster):
    """A session that locks a table of another database keeps vacuum from freezing it."""

    name = "transaction ids"
    fault = "transaction ids used up (`pg_resetwal -x`), vacuum kept from freezing by a lock in another database"
    person = "end the session that holds the lock, `vacuumdb --all --freeze`"
    found = frozenset({"wraparound"})
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
        oldest = next(int(line.split()[-1]) for line in controlled.splitlines() if "oldestXID:" in line)
        advance(server, oldest + REFUSED - self.left)
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


def advance(server: Cluster, target: int) -> None:
    """Let a stopped server continue with this id; the file that holds its state has to exist."""
    segment = server.data / "pg_xact" / f"{target // IDS_OF_SEGMENT:04X}"
    server.account.run(["truncate", "--size", str(SEGMENT), str(segment)], server.directory)
    server.tool("pg_resetwal", "-x", f"{target}", "-D", server.data)


DISASTERS: Sequence[type[Disaster]] = (TransactionIds,)
