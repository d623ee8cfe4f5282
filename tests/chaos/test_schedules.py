"""Each due time of a schedule gets one message, whatever happens to those who send it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from pgqueue.testing.database import create_template, created
from pgqueue.testing.server import ThrowawayServer
from tests.patience import eventually

#: A thousand of them, which is all that is made up for, last longer than any machine takes to restart a server.
EVERY = timedelta(milliseconds=200)
KILLED = 10

#: Receives from a queue that stays empty: each receive takes a turn.
RECEIVER = """
import sys, time, psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while True:
        connection.execute("select from pgqueue.receive('idle')")
        time.sleep(0.002)
"""

DUE_TIMES = "select message_id from pgqueue.messages where queue = 'ticks' order by sequence_number"


@contextmanager
def receivers(database: Database, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [_start(database) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            _kill(process)


def _start(database: Database) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RECEIVER, database.dsn], stderr=subprocess.DEVNULL)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def sent(database: Database) -> list[datetime]:
    with database.connect(autocommit=True) as connection:
        return [datetime.fromisoformat(name.partition("@")[2]) for (name,) in connection.execute(DUE_TIMES)]


def wait_for_more(database: Database) -> None:
    goal = len(sent(database)) + 3
    eventually(lambda: len(sent(database)) >= goal, "nothing is sent any more")


def begin(database: Database, **schedule: Any) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue("idle")
        client.create_queue("ticks")
        client.create_schedule("s", queue="ticks", message=Message(None), catch_up="all", **schedule)


def each_due_time_has_one_message(database: Database, every: timedelta) -> None:
    with database.connect(autocommit=True) as connection:
        connection.execute("select pgqueue.pause_schedule('s')")
    times = sent(database)
    assert len(times) >= 15
    assert sorted(times) == [times[0] + n * every for n in range(len(times))]


def test_receivers_that_are_killed_again_and_again(database: Database) -> None:
    begin(database, every=EVERY)
    with receivers(database, 4) as running:
        for _ in range(KILLED):
            wait_for_more(database)
            victim = random.randrange(len(running))
            _kill(running[victim])
            running[victim] = _start(database)
        wait_for_more(database)
    each_due_time_has_one_message(database, EVERY)


def test_receivers_and_a_planner_that_race_for_the_seconds_of_a_cron_expression(database: Database) -> None:
    begin(database, cron="* * * * * *", timezone="Europe/Zurich")
    with receivers(database, 3) as running, QueueClient(database.dsn) as client:
        for _ in range(KILLED):
            database.move_clock(timedelta(seconds=random.randrange(1, 300)))
            with database.connect(autocommit=True) as connection:
                connection.execute("update pgqueue.schedule set plan_at = passed_until where random() < 0.5")
            client.sweep()
            victim = random.randrange(len(running))
            _kill(running[victim])
            running[victim] = _start(database)
        client.sweep()
    each_due_time_has_one_message(database, timedelta(seconds=1))


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts(throwaway_server: ThrowawayServer, mode: str) -> None:
    dsn = throwaway_server.dsn()
    with created(dsn, create_template(dsn)) as database:
        begin(database, every=EVERY)
        for _ in range(3):
            with receivers(database, 3):
                wait_for_more(database)
                wait_for_more(database)
                throwaway_server.restart(mode)
        with receivers(database, 3):
            wait_for_more(database)
        each_due_time_has_one_message(database, EVERY)


def test_a_session_whose_server_process_is_terminated_in_the_middle_of_a_firing(database: Database) -> None:
    begin(database, every=timedelta(minutes=1))
    database.move_clock(timedelta(minutes=1))
    with database.connect() as doomed, database.connect(autocommit=True) as other:
        doomed.execute("select from pgqueue.take_turn('idle')")
        other.execute("select from pgqueue.take_turn('idle')")
        assert sent(database) == []
        other.execute("select pg_terminate_backend(%s, 20000)", [doomed.info.backend_pid])
        other.execute("select from pgqueue.take_turn('idle')")
        assert len(sent(database)) == 1
        with pytest.raises(psycopg.OperationalError):
            doomed.execute("select 1")
