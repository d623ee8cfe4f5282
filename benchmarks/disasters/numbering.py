"""Transaction ids and multixacts at their end: the server refuses to write until old rows are frozen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg.errors import ProgramLimitExceeded

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import Disaster, Fate

#: The server refuses to give out the last three million ids.
REFUSED = 2**31 - 1 - 3_000_000
#: The size of a file of their states, and how many ids it has: four to a byte, or four bytes for each multixact.
SEGMENT = 256 * 1024
IDS_OF_SEGMENT = 4 * SEGMENT
MULTIXACTS_OF_SEGMENT = SEGMENT // 4

HOLDER = "a forgotten session"
END_THE_HOLDER = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
SHARE = "select from shared for share"
IS_FROZEN = "select bool_and(greatest(age(datfrozenxid), mxid_age(datminmxid)) < 1e9) from pg_database"


class UsedUp(Disaster):
    """A session that locks a table of another database keeps vacuum from freezing it."""

    person = "end the session that holds the lock, `vacuumdb --all --freeze`"
    found = frozenset({"wraparound"})
    #: The name that ``pg_controldata`` gives to the oldest id.
    oldest: str
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
        oldest = next(int(line.split()[-1]) for line in controlled.splitlines() if f"{self.oldest}:" in line)
        self.advance(oldest, oldest + REFUSED - self.left)
        server.start()
        self.holder = psycopg.connect(server.dsn(), application_name=HOLDER)
        self.holder.execute("lock table held in share mode")

    @abstractmethod
    def advance(self, oldest: int, target: int) -> None:
        """Let the stopped server continue with this id."""

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        with closing(self.holder):
            while not self.is_refusing():
                fate.work(0.1)
            fate.work(2)
            fate.examine()
            server.execute(END_THE_HOLDER, HOLDER)
        server.tool("vacuumdb", "--all", "--freeze", "--quiet", "--maintenance-db", server.dsn())
        server.wait_until(IS_FROZEN)  # template0 takes no connections: autovacuum freezes it

    def is_refusing(self) -> bool:
        """Use up some, and return whether the server has no more."""
        try:
            self.use()
        except ProgramLimitExceeded:
            return True
        return False

    @abstractmethod
    def use(self) -> None: ...

    def reset(self, directory: str, segment: int, *options: str) -> None:
        """Run ``pg_resetwal``; the file that holds the state of the id has to exist."""
        server = self.servers[0]
        file = server.data / directory / f"{segment:04X}"
        server.account.run(["truncate", "--size", str(SEGMENT), str(file)], server.directory)
        server.tool("pg_resetwal", *options, "-D", server.data)


class TransactionIds(UsedUp):
    """The load uses them up."""

    name = "transaction ids"
    fault = "transaction ids used up (`pg_resetwal -x`), vacuum kept from freezing by a lock in another database"
    oldest = "oldestXID"

    def advance(self, oldest: int, target: int) -> None:
        self.reset("pg_xact", target // IDS_OF_SEGMENT, "-x", f"{target}")

    def use(self) -> None:
        self.servers[0].execute("select pg_current_xact_id()")


class Multixacts(UsedUp):
    """An application uses them up: each transaction that locks a row which another one has locked takes one."""

    name = "multixacts"
    fault = "multixacts used up (`pg_resetwal -m`) by an application, vacuum kept from freezing as before"
    oldest = "oldestMultiXid"
    at_once = 50

    def prepare(self) -> None:
        self.servers[0].execute("create table shared as select 1")
        super().prepare()

    def advance(self, oldest: int, target: int) -> None:
        self.reset("pg_multixact/offsets", target // MULTIXACTS_OF_SEGMENT, "-m", f"{target},{oldest}")

    def use(self) -> None:
        with closing(self.connect()) as holder, closing(self.connect()) as other:
            holder.execute(SHARE)
            for _ in range(self.at_once):
                other.execute(SHARE)
                other.rollback()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.servers[0].dsn())


DISASTERS: Sequence[type[Disaster]] = (TransactionIds, Multixacts)
