"""Processes that receive at the same time, and are killed, never get more than their queue may hand out."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from pgqueue import Message, QueueClient
from pgqueue.testing import Database

PATIENCE = 300
PROCESSES = 5
MESSAGES = 400
KILLED = 10
LOCKED_FOR = 0.4
RATE = 150
AT_A_TIME = 3

#: Locks, renewals and completions are recorded in the transactions that make them, by the database's clock.
HELD = """
create table held (number bigint, token uuid, begun timestamptz, until timestamptz, ended timestamptz)
"""

RECEIVER = f"""
import random, sys, time, psycopg
RECEIVE = '''
    insert into held
    select sequence_number, lock_token, locked_until - interval '{LOCKED_FOR}', locked_until
      from pgqueue.receive('q', %s, interval '{LOCKED_FOR}')
    returning number, token
'''
RENEW = '''
    update held set until = pgqueue.renew_lock('q', number, token, interval '{LOCKED_FOR}')
     where token = %s and number = %s
'''
COMPLETE = '''
    update held set ended = pgqueue.clock()
     where token = %s and number = %s and pgqueue.complete('q', number, token) is not null
'''
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while True:
        for number, token in connection.execute(RECEIVE, [random.randint(1, 4)]).fetchall():
            try:
                time.sleep(random.choice([0, 0, 0, 0.01, 0.02, {LOCKED_FOR}]))
                if random.random() < 0.2:
                    connection.execute(RENEW, [token, number])
                    time.sleep(random.random() * {LOCKED_FOR})
                connection.execute(COMPLETE, [token, number])
            except psycopg.Error as error:
                if error.sqlstate != "PQ001":
                    raise
"""


@contextmanager
def receivers(database: Database) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [_start(database) for _ in range(PROCESSES)]
    try:
        yield running
    finally:
        for process in running:
            _kill(process)


def _start(database: Database) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RECEIVER, database.dsn])


def _kill(process: subprocess.Popen[bytes]) -> None:
    assert process.poll() is None, "a receiver has failed"
    process.kill()
    process.wait()


def handed_out(database: Database, **limits: Any) -> list[tuple[float, float]]:
    """The time at which each lock began, and that at which it was over, in their order."""
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(HELD)
        client.create_queue("q", max_delivery_count=1000, **limits)
        client.queue("q").send_batch([Message(n) for n in range(MESSAGES)])
        deadline = monotonic() + PATIENCE
        with receivers(database) as running:
            for _ in range(KILLED):
                sleep(0.1)  # so that they are killed in the middle of something
                unlucky = random.randrange(PROCESSES)
                _kill(running[unlucky])
                running[unlucky] = _start(database)
            while client.queue("q").peek():
                assert monotonic() < deadline, "they have come to a standstill"
                sleep(0.05)
        times = connection.execute(
            "select extract(epoch from begun)::float8, extract(epoch from coalesce(ended, until))::float8 from held"
        ).fetchall()
        return sorted((begun, over) for begun, over in times)


def test_no_more_messages_are_handed_out_at_a_time(database: Database) -> None:
    locks = handed_out(database, max_concurrent=AT_A_TIME)
    assert len(locks) >= MESSAGES
    changes = sorted([(begun, 1) for begun, _ in locks] + [(over, -1) for _, over in locks])
    held = [0]
    for _, change in changes:  # at the same time, what is over comes first
        held.append(held[-1] + change)
    assert max(held) == AT_A_TIME


def test_no_more_messages_are_handed_out_in_any_time(database: Database) -> None:
    times = [begun for begun, _ in handed_out(database, max_receive_rate=RATE)]
    assert len(times) >= MESSAGES
    most = [
        later - earlier + 1 - RATE * (times[later] - times[earlier])
        for earlier in range(len(times))
        for later in range(earlier, len(times))
    ]
    assert max(most) <= RATE + 0.1, "that is more than the burst"
