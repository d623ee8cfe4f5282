"""The worker processes of a demo, under the parent that ``pgqueue worker --processes`` has; and how one is killed."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random

from pgqueue.demo import RunFailed
from pgqueue.demo.business import Connection
from pgqueue.worker.child import Work
from pgqueue.worker.processes import Processes

#: In seconds: how long the transaction of a stopped process must not change, so that no statement is on its way.
STILLNESS = 0.005

OPEN_TRANSACTION = """
select application_name, state_change, backend_xid::text::bigint
  from pg_stat_activity
 where application_name like 'pgqueue worker %%:' || %s || ' %%' and datname = current_database()
   and state = 'idle in transaction' and backend_xid is not null
 order by backend_start
 limit 1
"""

NOTE_KILL = """
insert into pgqueue_demo.kill (worker, transaction_id)
select %s, pgqueue_demo.transaction_id(%s, pg_snapshot_xmax(pg_current_snapshot()))
"""


class Workers:
    """As many processes as were asked for, while the ``with`` block lasts: those that are killed are replaced."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._thread = ThreadPoolExecutor(1)
        self._run = self._thread.submit(processes.run)

    @classmethod
    @contextmanager
    def working(cls, count: int, work: Work, dsn: str) -> Iterator[Workers]:
        """Start processes; let each finish its current work at the end."""
        logger = logging.getLogger("pgqueue")
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # they are killed on purpose
        workers = cls(Processes(count, work, dsn))
        try:
            yield workers
        finally:
            workers._processes.stop()
            workers._thread.shutdown()
            logger.setLevel(level)

    def check(self) -> None:
        """Raise the error of a process that could not do its work, if there is one."""
        if self._run.done() and (error := self._run.exception()) is not None:
            raise RunFailed(" ".join(f"{type(error).__name__}: {error}".split()))

    def kill(self) -> bool:
        """Kill the first process, wherever it is; whether there was one."""
        for pid in self._processes.pids[:1]:
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def kill_in_transaction(self, connection: Connection, chance: Random) -> bool:
        """Stop a process and look at its transaction; kill it if the transaction has written, else let it continue."""
        pids = self._processes.pids
        return bool(pids) and _strike(connection, chance.choice(pids))


def _strike(connection: Connection, pid: int) -> bool:
    with _frozen(pid):
        before = connection.execute(OPEN_TRANSACTION, [str(pid)]).fetchone()
        if before is None:
            return False
        time.sleep(STILLNESS)
        if connection.execute(OPEN_TRANSACTION, [str(pid)]).fetchone() != before:
            return False
        os.kill(pid, signal.SIGKILL)
    worker, _, transaction_id = before
    connection.execute(NOTE_KILL, [worker, transaction_id])
    return True


@contextmanager
def _frozen(pid: int) -> Iterator[None]:
    """Stop the process for the duration of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
