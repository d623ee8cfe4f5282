"""The process that runs the demo: it starts the others, kills some, reads the tables, and computes the verdict."""

from __future__ import annotations

import time
from random import Random
from typing import Self

import psycopg

from pgqueue import QueueClient
from pgqueue.demo import DemoError, business, flights, verdict
from pgqueue.demo.business import NotOurs
from pgqueue.demo.killing import strike
from pgqueue.demo.plan import LOCK_DURATION, MAX_DELIVERY_COUNT, QUEUE, Plan
from pgqueue.demo.processes import Child, start_consumer, start_sender, stop
from pgqueue.demo.progress import Display, Reading, read

MARK = {"made_by": "pgqueue demo"}
ONLY_ONE = 0x666C_6967_6874  # "flight"

#: In seconds: a run without progress for this long ends, and its verdict says what is missing.
PATIENCE = 60.0
TURN = 0.2


class RunFailed(DemoError):
    """A process of the run could not do its work."""


def run(plan: Plan, display: Display) -> verdict.Verdict:
    """Run the whole demo. Its tables and its queue stay for inspection; the next run replaces them."""
    with QueueClient(plan.dsn) as client, psycopg.connect(plan.dsn, autocommit=True) as connection:
        client.migrate()
        set_the_stage(client, connection)
        total = flights.count(plan.source, plan.flights)
        with Conductor(plan, total, client, connection) as conductor:
            while not conductor.is_over():
                display.show(conductor.reading)
                time.sleep(conductor.turn())
            display.show(conductor.reading)
        return verdict.judge(client, connection, flights=total, kills=plan.kills_among(total))


def set_the_stage(client: QueueClient, connection: business.Connection) -> None:
    """Create the tables and the queue; refuse to replace any that are not the demo's own."""
    if connection.execute("select pg_catalog.pg_try_advisory_lock(%s)", [ONLY_ONE]).fetchone() != (True,):
        raise NotOurs("another pgqueue demo is running in this database: wait for it, or name another with --dsn")
    for queue in client.list_queues():
        if queue.name == QUEUE and queue.user_metadata != MARK:
            raise NotOurs(f"the queue {QUEUE} is not the demo's own: delete it, or name another database with --dsn")
        if queue.name == QUEUE:
            client.delete_queue(QUEUE)
    business.open_books(connection)
    client.create_queue(QUEUE, lock_duration=LOCK_DURATION, max_delivery_count=MAX_DELIVERY_COUNT, user_metadata=MARK)


class Conductor:
    """Starts the processes at the beginning of the ``with`` block, and stops them all at its end."""

    def __init__(self, plan: Plan, total: int, client: QueueClient, connection: business.Connection) -> None:
        self.reading = Reading(total=total, kills_planned=plan.kills_among(total))
        self._plan = plan
        self._client = client
        self._connection = connection
        self._chance = Random(plan.seed)
        self._sender: Child | None = None
        self._consumers: list[Child] = []
        self._started = 0
        self._unasked_deaths = 0
        self._is_done = False
        self._moved_at = time.monotonic()

    def __enter__(self) -> Self:
        try:
            self._sender = start_sender(self._plan)
            self._fill_up()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def is_over(self) -> bool:
        """Whether everything was sent and the queue is empty, or there is no progress any more."""
        return self._is_done or time.monotonic() - self._moved_at > PATIENCE

    def turn(self) -> float:
        """Read the tables, replace dead consumers, kill one if it is time; return the seconds until the next turn."""
        self._look()
        self._refuse_a_failed_sender()
        self._bury_the_dead()
        self._fill_up()
        if self.reading.kills < self._kills_due():
            self._kill_one()
        return TURN

    def _look(self) -> None:
        all_was_sent = self._sender is not None and self._sender.process.exitcode == 0  # read before the tables
        before, self.reading = self.reading, read(self._client, self._connection, self.reading)
        self._is_done = all_was_sent and self.reading.is_empty
        if self.reading != before:
            self._moved_at = time.monotonic()

    def _kills_due(self) -> int:
        """The kills due by now: spread over the run, the last early enough for its messages to be redelivered."""
        planned = self.reading.kills_planned
        return min(planned, int(self.reading.posted / self.reading.total * (planned + 1) * 1.2))

    def _kill_one(self) -> None:
        """Kill a consumer in the middle of a transaction; several attempts may be needed to find one."""
        latest = time.monotonic() + TURN
        while not strike(self._connection, self._chance.choice(self._consumers)) and time.monotonic() < latest:
            continue

    def _fill_up(self) -> None:
        while len(self._consumers) < self._plan.consumers:
            self._started += 1
            self._consumers.append(start_consumer(self._plan, f"pgqueue demo consumer {self._started}"))

    def _bury_the_dead(self) -> None:
        """Remove consumers that have ended; raise the error if too many failed by themselves."""
        for consumer in [consumer for consumer in self._consumers if not consumer.process.is_alive()]:
            self._consumers.remove(consumer)
            if consumer.process.exitcode == 1:
                self._unasked_deaths += 1
                if self._unasked_deaths > self._plan.consumers:
                    raise RunFailed(consumer.last_words())

    def _refuse_a_failed_sender(self) -> None:
        if self._sender is not None and self._sender.process.exitcode not in (None, 0):
            raise RunFailed(self._sender.last_words())

    def _stop(self) -> None:
        stop([*self._consumers, *([self._sender] if self._sender else [])])
