"""A day's schedules, in a database whose clock is fast: each due time has to send one message."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pgqueue
from benchmarks.chaos.processes import die_with_the_conductor
from pgqueue import CatchUp, Message
from pgqueue.testing import Database

QUEUE = "reports"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: For how many seconds the last messages may be awaited.
PATIENCE = 300.0
#: Longer than a step of the clock.
LOCK = 5 * MINUTE
#: Seconds for a minute at least: a client computes 500 due times ahead, and more only when it looks a minute later.
STEP = 0.25
FIRED = "create table fired (name text, due text primary key)"
COUNT = "select count(*) from fired where name = %s"
DEAD = "select count(*) from pgqueue.dead_letters"


@dataclass(frozen=True)
class Schedule:
    """It is due every so often, and so long after midnight."""

    name: str
    cron: str
    every: timedelta
    offset: timedelta = timedelta()

    def due(self, since: datetime, until: datetime) -> int:
        """How many due times are after the one and not after the other."""
        return (until - self.offset - EPOCH) // self.every - (since - self.offset - EPOCH) // self.every


SCHEDULES = (
    Schedule("minutely", "* * * * *", MINUTE),
    Schedule("hourly", "0 * * * *", HOUR),
    Schedule("nightly", "30 2 * * *", DAY, timedelta(hours=2, minutes=30)),
)


class Day:
    """It lasts ``seconds``: six minutes, or more. A worker in a process of its own receives the messages."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._step = max(seconds * (MINUTE / DAY), STEP)
        with database.connect(autocommit=True) as connection:
            connection.execute(FIRED)
        with pgqueue.QueueClient(database.dsn) as client:
            client.create_queue(QUEUE, lock_duration=LOCK)
            self._began = database.clock.now()
            for schedule in SCHEDULES:
                message = Message({"name": schedule.name})
                client.create_schedule(
                    schedule.name, queue=QUEUE, message=message, cron=schedule.cron, catch_up=CatchUp.ALL
                )
        self._moved = time.monotonic()
        self._worker = multiprocessing.get_context("spawn").Process(target=work, args=(database.dsn,), daemon=True)
        self._worker.start()

    def pass_time(self) -> None:
        """Move the clock by the minutes that it is time for."""
        minutes = (time.monotonic() - self._moved) // self._step
        if minutes:
            self._moved += minutes * self._step
            self._database.move_clock(minutes * (MINUTE - timedelta(seconds=self._step)))

    def end(self) -> Iterator[str]:
        """The schedules that have sent too few messages or too many, and what became a dead letter."""
        ended = self._database.clock.now()
        deadline = time.monotonic() + PATIENCE
        due = {schedule.name: schedule.due(self._began, ended) for schedule in SCHEDULES}
        with self._database.connect(autocommit=True) as connection:
            while any(self._count(connection, name) < count for name, count in due.items()):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            found = {name: self._count(connection, name) for name in due}
            [[dead]] = connection.execute(DEAD).fetchall()
        self._worker.terminate()
        self._worker.join()
        late = self._database.clock.now()
        for schedule in SCHEDULES:
            most = schedule.due(self._began, late)
            if not due[schedule.name] <= found[schedule.name] <= most:
                yield f"{schedule.name!r} was due {due[schedule.name]} times, and sent {found[schedule.name]} messages"
        if dead:
            yield f"{dead} messages of schedules are dead letters"

    @staticmethod
    def _count(connection: Any, name: str) -> int:
        [[count]] = connection.execute(COUNT, [name]).fetchall()
        return int(count)


def work(dsn: str) -> None:
    die_with_the_conductor()
    with pgqueue.QueueClient(dsn) as client:
        pgqueue.Worker(client.queue(QUEUE), note, transaction="psycopg", concurrency=1).run()


def note(message: pgqueue.ReceivedMessage[Any], tx: Any) -> None:
    """A message of a due time that was noted before becomes a dead letter."""
    tx.execute("insert into fired (name, due) values (%s, %s)", [message.body["name"], message.message_id])
