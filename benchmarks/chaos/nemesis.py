"""Carries out the faults of a plan, and undoes them when it is their time, or at the end."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import psycopg

import pgqueue
from benchmarks.chaos.history import Book
from benchmarks.chaos.pair import Pair
from benchmarks.chaos.plan import BESIDE, FAILOVERS, LOCK_SECONDS, Fault
from benchmarks.chaos.processes import Member
from pgqueue import Message, PGQueueError
from pgqueue.embedded.server import ServerError
from pgqueue.testing import Database, ThrowawayServer

SESSIONS = """
select pid
  from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
 order by backend_start"""

SEND = "select pgqueue.send(%s, jsonb_build_object('id', %s::text))"
TAKE = "select from pgqueue.receive_and_delete(%s, %s)"

REWIND = "select setval('pgqueue.sequence_number', greatest(last_value - %s, 1)) from pgqueue.sequence_number"
RECEIVED = "select coalesce(pg_last_wal_receive_lsn() >= %s::pg_lsn, false)"
LEFT = "select count(*) from pgqueue.message where queue_id = (select id from pgqueue.queue where name = %s)"

#: So many messages at once; and how long, in seconds, a flood is waited for to sink, which a frozen receiver keeps up.
FLOOD, PATIENCE = 600, 1.0

FAILURES = (psycopg.Error, PGQueueError, ServerError)

Undo = Callable[[], None]


class Nemesis:
    """Its faults are operations, too: the checker has to know when the clock was moved, and what was wiped away."""

    def __init__(
        self,
        database: Database,
        server: ThrowawayServer,
        book: Book,
        queues: Sequence[str],
        members: Sequence[Member],
        pair: Pair | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._client = pgqueue.QueueClient(database.direct)  # only for its names: connections are our own
        self._database = database
        self._server = server
        self._pair = pair
        self._book = book
        self._queues = queues
        self._members = members
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Undo]] = []
        self._acts: dict[str, Callable[[Fault], None]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "terminate": self._terminate,
            "crash": lambda _: self._server.restart("immediate"),
            "power": self._cut_power,
            "restart": lambda _: self._server.restart("fast"),
            "exhaust": self._exhaust,
            "clock": self._move_clock,
            "snapshot": self._hold_snapshot,
            "open send": self._send_and_hold,
            "open claim": self._take_and_hold,
            "flood": lambda fault: self.flood(self._queue(fault)),
            "rewind": self._rewind,
            "wipe": self._wipe,
            "sweep": self._sweep,
            "failover": self._fail_over,
            "lossy failover": self._fail_over_with_loss,
        }

    def strike(self, fault: Fault) -> None:
        """Carries it out. One that comes to nothing because of another is none, but a failover has to happen."""
        try:
            self._acts[fault.name](fault)
            self.counts[fault.name] += 1
        except FAILURES:
            if fault.name in FAILOVERS:
                raise

    def undo_what_is_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def rest(self) -> None:
        """Undoes all that is left."""
        self.undo_what_is_due(float("inf"))

    def _kill(self, fault: Fault) -> None:
        self._victim(fault).replace()

    def _freeze(self, fault: Fault) -> None:
        victim = self._victim(fault)
        victim.freeze()
        self._later(LOCK_SECONDS * (0.5 + 2 * fault.size), victim.thaw)

    def _terminate(self, fault: Fault) -> None:
        chance = random.Random(fault.draw)
        with self._database.connect(autocommit=True) as connection:
            sessions = [number for (number,) in connection.execute(SESSIONS)]
            for number in chance.sample(sessions, k=int(len(sessions) * (0.1 + fault.size / 2))):
                connection.execute("select pg_terminate_backend(%s)", [number])

    def _cut_power(self, fault: Fault) -> None:
        self._server.kill()
        self._server.start()

    def _exhaust(self, fault: Fault) -> None:
        taken: list[psycopg.Connection[Any]] = []
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(self._database.connect())
        self._later(1 + 2 * fault.size, lambda: _close(taken))

    def _move_clock(self, fault: Fault) -> None:
        by = timedelta(seconds=(2 * fault.draw - 1) * 3600 * fault.size)
        with self._operation("clock", "all", doubt=True, by=by.total_seconds()):
            self._database.move_clock(by)

    def _hold_snapshot(self, fault: Fault) -> None:
        connection = self._database.connect()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from pgqueue.message")
        self._later(2 + 3 * fault.size, lambda: _close([connection]))

    def _send_and_hold(self, fault: Fault, queue: str | None = None) -> None:
        """Its outcome is known when it commits, in a while."""
        queue, message = queue or self._queue(fault), f"nemesis-{next(self._numbers)}"
        operation = ExitStack()
        under_way = operation.enter_context(self._operation("send", queue, ids=[message]))
        try:
            connection = self._database.connect()
            connection.execute(SEND, [queue, message])
        except FAILURES:
            with operation:
                raise

        def commit() -> None:
            with suppress(*FAILURES), operation, connection:
                under_way.doubt = True
                connection.commit()

        self._later(2 + 4 * fault.size, commit)

    def _take_and_hold(self, fault: Fault) -> None:
        """Some of every queue; rolled back in any case, so nothing is written down of it."""
        connection = self._database.connect()
        for queue in self._queues:
            connection.execute(TAKE, [queue, 1 + int(10 * fault.size)])
        self._later(2 + 4 * fault.size, lambda: _close([connection]))

    def flood(self, queue: str) -> None:
        """Receivers are busy all the while in which another transaction takes some out, and puts them back."""
        messages = [f"nemesis-{next(self._numbers)}" for _ in range(FLOOD)]
        with self._operation("send", queue, ids=messages) as operation, self._database.connect() as connection:
            self._client.queue(queue).send_batch((Message({"id": each}) for each in messages), transaction=connection)
            operation.doubt = True
        with self._database.connect(autocommit=True) as watching, self._database.connect() as connection:
            _wait_until_left(watching, queue, 0.6 * FLOOD)
            connection.execute(TAKE, [queue, 5])
            _wait_until_left(watching, queue, 0.2 * FLOOD)
            connection.rollback()

    def _rewind(self, fault: Fault) -> None:
        with self._operation("rewind", "all", doubt=True), self._database.connect(autocommit=True) as connection:
            connection.execute(REWIND, [int(1000 * fault.size)])

    def _wipe(self, fault: Fault) -> None:
        """Half of the time while a transaction is open that has sent to that queue."""
        if fault.draw < 0.5:
            self._send_and_hold(fault, BESIDE)
        with self._database.connect(autocommit=True) as connection:
            connection.execute("set lock_timeout = '1s'")
            if fault.size < 0.3:
                with self._operation("purge", BESIDE, doubt=True):
                    connection.execute("select pgqueue.purge_queue(%s)", [BESIDE])
            else:
                with self._operation("drop", BESIDE, doubt=True):
                    connection.execute("select pgqueue.drop_queue(%s)", [BESIDE])
                connection.execute("select pgqueue.create_queue(%s)", [BESIDE])

    def _sweep(self, fault: Fault) -> None:
        with self._database.connect(autocommit=True) as connection:
            connection.execute("select pgqueue.sweep()")

    def _fail_over(self, fault: Fault) -> None:
        pair = self._standing_pair()
        if fault.draw < 0.5:
            pair.primary.kill()
        else:
            pair.primary.freeze()
        pair.standby.start()
        pair.standby.promote()
        self._server = pair.standby
        if pair.primary.is_running():
            time.sleep(1 + 2 * fault.size)  # clients of the frozen server wait so long
            pair.primary.kill()

    def _fail_over_with_loss(self, fault: Fault) -> None:
        """Commits after the standby has stopped are forgotten; it has all that was committed before this."""
        pair = self._standing_pair()
        with self._operation("forget", "all", doubt=True) as operation:
            began = time.time()
            _wait_until_received(pair)
            pair.standby.stop()
            time.sleep(0.2 + 0.5 * fault.size)
            self._fail_over(fault)
            operation.facts["locked_between"] = [began, time.time()]

    def _standing_pair(self) -> Pair:
        assert self._pair is not None, "the round has a standby"
        return self._pair

    def _victim(self, fault: Fault) -> Member:
        return self._members[int(fault.draw * len(self._members))]

    def _queue(self, fault: Fault) -> str:
        return self._queues[int(fault.draw * len(self._queues))]

    def _operation(self, verb: str, queue: str, *, doubt: bool = False, **facts: Any) -> Any:
        return self._book.operation(verb, "nemesis", queue, doubt=doubt, **facts)

    def _later(self, seconds: float, undo: Undo) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), undo))


def _wait_until_received(pair: Pair) -> None:
    with psycopg.connect(pair.primary.dsn()) as connection:
        [written] = connection.execute("select pg_current_wal_flush_lsn()").fetchone() or [None]
    with psycopg.connect(pair.standby.dsn(), autocommit=True) as connection:
        while connection.execute(RECEIVED, [written]).fetchone() != (True,):
            time.sleep(0.005)


def _wait_until_left(connection: psycopg.Connection[Any], queue: str, few: float) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        [left] = connection.execute(LEFT, [queue]).fetchone() or [0]
        if left <= few:
            return
        time.sleep(0.005)


def _close(connections: Sequence[psycopg.Connection[Any]]) -> None:
    for connection in connections:
        with suppress(psycopg.Error):
            connection.close()
