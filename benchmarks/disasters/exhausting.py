"""No memory: the kernel kills a backend, or refuses what backends ask for."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress

import psutil
import psycopg

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import NAME, Disaster, Fate

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

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        while server.logged(REFUSAL) < REFUSALS:
            limit(server.clients(NAME))
            fate.work(0.05)
        for number in server.clients(NAME):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(number).rlimit(psutil.RLIMIT_AS, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))


def limit(backends: Sequence[int]) -> None:
    """Leave each backend the memory that it has, and a little more; those that are limited stay so."""
    for number in backends:
        with suppress(psutil.NoSuchProcess):
            backend = psutil.Process(number)
            if backend.rlimit(psutil.RLIMIT_AS)[0] == psutil.RLIM_INFINITY:
                backend.rlimit(psutil.RLIMIT_AS, (backend.memory_info().vms + SPARE, psutil.RLIM_INFINITY))


DISASTERS: Sequence[type[Disaster]] = (KilledBackend, NoMemory)
