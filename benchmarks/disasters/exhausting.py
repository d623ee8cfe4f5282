"""No memory: the kernel kills a backend, or refuses what backends ask for."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from benchmarks.disasters.clocking import make_movable, set_right
from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate
from pgqueue.embedded.account import Account

IS_BUSY = "state <> 'idle'"
RECOVERY = "all server processes terminated; reinitializing"
REFUSAL = "ERROR:  out of memory"
#: How often a backend is killed, and memory refused, at least.
KILLS, REFUSALS = 3, 50
#: So much more may a backend take, in bytes, so that its stack can grow.
SPARE = 256 * 1024


class KilledBackend(Disaster):
    """The server ends all sessions, because the killed one may have left shared memory in disorder."""

    name = "killed backend"
    fault = (
        f"a backend killed while it works, as by the kernel that has no memory left, {KILLS} times: the server recovers"
    )
    person = "nothing; give the machine memory, or `vm.overcommit_memory = 2`"

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        for count in range(KILLS):
            while not (busy := server.clients(NAME, IS_BUSY)):
                fate.work(0.01)
            with suppress(ProcessLookupError):
                os.kill(random.choice(busy), signal.SIGKILL)
            while server.logged(RECOVERY) <= count:
                fate.work(0.1)
            self.await_recovery(fate)
            fate.work(1)

    def await_recovery(self, fate: Fate) -> None:
        while True:
            with suppress(psycopg.OperationalError):
                self.servers[0].execute("select 1")
                return
            fate.work(0.1)


class NoMemory(Disaster):
    """Allocations fail in all backends, as in a container at its limit."""

    name = "out of memory"
    fault = f"backends get no more memory (`prlimit --as`), until {REFUSALS} statements or more have failed by that"
    person = "give the server memory, as the error of each call advises; the doctor does not see it"

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    @classmethod
    def can_happen(cls) -> bool:
        return shutil.which("prlimit") is not None

    def prepare(self) -> None:
        """A message that has failed several times is abandoned for several seconds."""
        make_movable(self.servers[0])

    def tidy_up(self) -> None:
        set_right(self.servers[0])

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        limited: set[int] = set()
        while server.logged(REFUSAL) < REFUSALS:
            for backend in set(server.clients(NAME)) - limited:
                limit(server.account, backend)
                limited.add(backend)
            fate.work(0.1)
        for backend in limited & set(server.clients(NAME)):
            change_limit(server.account, backend, "unlimited")


def limit(account: Account, process: int) -> None:
    """Leave a process of the account the memory that it has, and a little more."""
    with suppress(psutil.NoSuchProcess):
        change_limit(account, process, f"{psutil.Process(process).memory_info().vms + SPARE}")


def change_limit(account: Account, process: int, size: str) -> None:
    """Set the limit of its address space, if it still runs; another account may not do so, not even root everywhere."""
    account.run(["prlimit", "--pid", f"{process}", f"--as={size}:"], Path("/"))


DISASTERS: Sequence[type[Disaster]] = (KilledBackend, NoMemory)
