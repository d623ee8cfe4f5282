"""The worker processes of a demo, under the parent that ``pgqueue worker --processes`` has; and how one is killed."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from pgqueue.demo import DemoError
from pgqueue.demo.plan import Connection
from pgqueue.worker.child import Work
from pgqueue.worker.processes import Processes

#: In seconds: how long the transaction of a stopped process must not change, so that no statement is on its way; and
#: how long one is looked for.
STILLNESS, SEARCH = 0.005, 0.2

OPEN_TRANSACTION = """
select application_name, state_change, backend_xid::text::bigint
  from pg_stat_activity
 where application_name like 'pgqueue worker %%:' || %s || ' %%' and datname = current_database()
   and state = 'idle in transaction' and backend_xid is not null
 order by backend_start
 limit 1
"""

#: Once the transaction has ended.
NOTE_KILL = """
with killed as (
    select transaction_id, pg_xact_status(transaction_id) as status
      from pgqueue_demo.transaction_id(%s, pg_snapshot_xmax(pg_current_snapshot())) as transaction_id
), noted as (
    insert into pgqueue_demo.kill (worker, transaction_id)
    select %s, transaction_id from killed where status = 'aborted'
)
select status from killed
"""


@contextmanager
def in_background(act: Callable[[], Any], stop: Callable[[], None]) -> Iterator[Future[Any]]:
    """Run a function in a thread during the block, then stop it, and wait for its end."""
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(act)
        finally:
            stop()


def raise_error_of(running: Future[Any], name: str = "") -> None:
    """Raise the error that has ended what runs in the background, if there is one."""
    if running.done() and (error := running.exception()) is not None:
        raise DemoError(name + " ".join(f"{type(error).__name__}: {error}".split()))


@contextmanager
def working(count: int, work: Work, dsn: str) -> Iterator[tuple[Processes, Future[Any]]]:
    """Run so many processes during the block: those that are killed are replaced. At its end each finishes its work."""
    processes = Processes(count, work, dsn)
    logger = logging.getLogger("pgqueue")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # they are killed on purpose
    try:
        with in_background(processes.run, processes.stop) as running:
            yield processes, running
    finally:
        logger.setLevel(level)


def kill_in_transaction(connection: Connection, processes: Processes, chance: Random) -> None:
    """Kill a process in the middle of a transaction; several attempts may be needed to find one."""
    latest = time.monotonic() + SEARCH
    while (pids := processes.pids) and time.monotonic() < latest:
        if _killed(connection, chance.choice(pids)):
            return


def _killed(connection: Connection, pid: int) -> bool:
    """Stop a process and look at its transaction; kill it if the transaction has written, else let it continue.

    Returns whether the transaction was killed.
    """
    with _stopped(pid):
        before = connection.execute(OPEN_TRANSACTION, [str(pid)]).fetchone()
        if before is None:
            return False
        time.sleep(STILLNESS)
        if connection.execute(OPEN_TRANSACTION, [str(pid)]).fetchone() != before:
            return False
        os.kill(pid, signal.SIGKILL)
    worker, _, transaction_id = before
    return note_kill(connection, worker, transaction_id)


def note_kill(connection: Connection, worker: str, transaction_id: int) -> bool:
    """Note that a transaction was killed, if it was: a busy server may read the COMMIT of a dead process later."""
    while (ended := connection.execute(NOTE_KILL, [transaction_id, worker]).fetchone()) == ("in progress",):
        time.sleep(STILLNESS)
    return ended == ("aborted",)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
