"""The resources that a round uses: those of its processes, and those of the server."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.chaos.processes import Member
from pgqueue.testing import Database, ThrowawayServer

MEGABYTE = 1024 * 1024
OBSERVER = "soak observer"

#: Dead letters are kept on purpose, and effects are the ledger's.
DATABASE = """
select (select blks_hit + blks_read from pg_stat_database where datname = current_database()),
       (select mxid_age('1')),
       (select count(*) from chaos.effect),
       (select sum(pg_total_relation_size(oid))::bigint
          from pg_class
         where relnamespace = 'pgqueue'::regnamespace and relkind = 'r' and relname <> 'dead_letter'),
       (select sum(n_dead_tup)::bigint from pg_stat_user_tables where schemaname = 'pgqueue'),
       (select count(*) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend'),
       (select coalesce(extract(epoch from pgqueue.clock() - min(enqueued_time)), 0)::float
          from pgqueue.message where locked_until < pgqueue.clock())
"""
#: Each writes the memory that it uses to the server's log.
BACKENDS = """
select count(pg_log_backend_memory_contexts(pid))
  from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and application_name <> %s
"""
ENTRY = re.compile(r"\[(?P<pid>\d+)\] .*?(?:LOG|WARNING|ERROR|FATAL|PANIC):  (?P<text>.*)")
SETTINGS = re.compile(r"GUCMemoryContext: .* (\d+) used")
TOTAL = re.compile(r"Grand total: .* (\d+) used")
OF_MEMORY = ("level: ", "Grand total: ", "logging memory contexts")
#: For how many seconds backends may take to write.
WRITING = 2.0


@dataclass(frozen=True)
class Sample:
    """The resources at a moment; rates and shares are since the sample before."""

    minutes: float
    rate: float
    oldest: float
    processes: float
    threads: int
    files: int
    connections: int
    backend: float
    largest: float
    settings: float
    tables: float
    dead_rows: int
    pages: float
    multixacts: float
    log_lines: float
    client_lines: float


@dataclass(frozen=True)
class Totals:
    """Counts that only rise."""

    at: float
    done: int
    pages: int
    multixacts: int
    log_lines: int
    client_lines: int


@dataclass(frozen=True)
class State:
    """Bytes of the tables, dead rows, connections, and how many seconds old the oldest message is that waits."""

    tables: int
    dead_rows: int
    connections: int
    oldest: float


@dataclass(frozen=True)
class Memory:
    """Bytes that a backend uses: all, and for settings."""

    total: int
    settings: int


class Observer:
    """Looks at a database, and at the processes that use it; ``began`` is on the monotonic clock."""

    def __init__(
        self, database: Database, server: ThrowawayServer, members: Sequence[Member], books: Path, began: float
    ) -> None:
        self._connection = database.connect(autocommit=True, application_name=OBSERVER)
        self._log = ServerLog(server.log)
        self._members = members
        self._books = books
        self._began = began
        self._before = self._look()[0]

    def sample(self) -> Sample:
        memory = self._memory()
        now, state = self._look()
        before, self._before = self._before, now
        minutes, done = (now.at - before.at) / 60, max(now.done - before.done, 1)
        processes = list(self._processes())
        return Sample(
            minutes=(now.at - self._began) / 60,
            rate=(now.done - before.done) / (now.at - before.at),
            oldest=state.oldest,
            processes=sum(each.memory_full_info().uss for each in processes) / MEGABYTE,
            threads=sum(each.num_threads() for each in processes),
            files=sum(each.num_fds() for each in processes),
            connections=state.connections,
            backend=statistics.mean(each.total for each in memory) / MEGABYTE,
            largest=max(each.total for each in memory) / MEGABYTE,
            settings=max(each.settings for each in memory) / 1024,
            tables=state.tables / MEGABYTE,
            dead_rows=state.dead_rows,
            pages=(now.pages - before.pages) / done,
            multixacts=(now.multixacts - before.multixacts) / done,
            log_lines=(now.log_lines - before.log_lines) / minutes,
            client_lines=(now.client_lines - before.client_lines) / minutes,
        )

    def close(self) -> None:
        self._connection.close()

    def _look(self) -> tuple[Totals, State]:
        [[pages, multixacts, done, *state]] = self._connection.execute(DATABASE).fetchall()
        self._log.read()
        client_lines = sum(path.read_bytes().count(b"\n") for path in self._books.glob("*.log"))
        return Totals(time.monotonic(), done, pages, multixacts, self._log.lines, client_lines), State(*state)

    def _memory(self) -> list[Memory]:
        self._log.memory.clear()
        [[expected]] = self._connection.execute(BACKENDS, [OBSERVER]).fetchall()
        deadline = time.monotonic() + WRITING
        while len(self._log.memory) < expected and time.monotonic() < deadline:
            time.sleep(0.05)
            self._log.read()
        return list(self._log.memory.values())

    def _processes(self) -> Iterator[psutil.Process]:
        return (psutil.Process(member.process_id) for member in self._members)


class ServerLog:
    """The server's log, which is emptied as it is read: backends fill it with what they use of memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = ""
        self._settings: dict[int, int] = {}
        #: How many entries it had that are not about memory.
        self.lines = 0
        #: By backend, the last that it has written.
        self.memory: dict[int, Memory] = {}

    def read(self) -> None:
        with self._path.open("r+b") as log:
            text = self._rest + log.read().decode(errors="replace")
            log.truncate(0)
        *lines, self._rest = text.split("\n")
        for line in lines:
            if entry := ENTRY.search(line):
                self._note(int(entry["pid"]), entry["text"])

    def _note(self, pid: int, text: str) -> None:
        if not text.startswith(OF_MEMORY):
            self.lines += 1
        elif settings := SETTINGS.search(text):
            self._settings[pid] = int(settings[1])
        elif total := TOTAL.search(text):
            self.memory[pid] = Memory(int(total[1]), self._settings.get(pid, 0))
