"""Processes that receive at the same time, and are killed, never get more than their queue or group may hand out."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
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
GROUPS = 4

#: Locks, renewals and completions are recorded in the transactions that make them, by the database's clock.
HELD = """
create table held (number bigint, token uuid, begun timestamptz, until timestamptz, group_id text, ended timestamptz)
"""

RECEIVER = f"""
import random, sys, time, psycopg
RECEIVE = '''
    insert into held
    select sequence_number, lock_token, locked_until - interval '{LOCKED_FOR}', locked_until, session_id
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


def handed_out(database: Database, **limits: Any) -> dict[str, list[tuple[float, float]]]:
    """By group, the time at which each lock began, and that at which it was over, in their order."""
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(HELD)
        client.create_queue("q", max_delivery_count=1000, **limits)
        client.queue("q").send_batch([Message(n, group_id=f"g{n % GROUPS}") for n in range(MESSAGES)])
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
            "select group_id, extract(epoch from begun)::float8, extract(epoch from coalesce(ended, until))::float8"
            " from held order by 2, 3"
        ).fetchall()
        completed = connection.execute("select count(*), count(distinct number) from held where ended is not null")
        assert completed.fetchone() == (MESSAGES, MESSAGES), "a message was lost, or completed twice"
    groups = defaultdict(list)
    for group, begun, over in times:
        groups[group].append((begun, over))
    return groups


def most_at_a_time(locks: list[tuple[float, float]]) -> int:
    changes = sorted([(begun, 1) for begun, _ in locks] + [(over, -1) for _, over in locks])
    held = [0]
    for _, change in changes:  # at the same time, what is over comes first
        held.append(held[-1] + change)
    return max(held)


def burst(locks: list[tuple[float, float]], rate: float) -> float:
    """How many locks more than the rate allows have begun in any time."""
    times = [begun for begun, _ in locks]
    return max(
        later - earlier + 1 - rate * (times[later] - times[earlier])
        for earlier in range(len(times))
        for later in range(earlier, len(times))
    )


def test_no_more_messages_are_handed_out_at_a_time(database: Database) -> None:
    locks = [lock for group in handed_out(database, max_concurrent=AT_A_TIME).values() for lock in group]
    assert most_at_a_time(locks) == AT_A_TIME


def test_no_more_messages_are_handed_out_in_any_time(database: Database) -> None:
    locks = sorted(lock for group in handed_out(database, max_receive_rate=RATE).values() for lock in group)
    assert burst(locks, RATE) <= RATE + 0.1, "that is more than the burst"


def test_no_more_messages_of_a_group_are_handed_out_at_a_time(database: Database) -> None:
    groups = handed_out(database, max_concurrent_per_group=1)
    assert {group: most_at_a_time(locks) for group, locks in groups.items()} == dict.fromkeys(groups, 1)


def test_no_more_messages_of_a_group_are_handed_out_in_any_time(database: Database) -> None:
    groups = handed_out(database, max_receive_rate_per_group=RATE / GROUPS)
    assert all(burst(locks, RATE / GROUPS) <= RATE / GROUPS + 0.1 for locks in groups.values())
