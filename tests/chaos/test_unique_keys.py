"""Senders and handlers that are killed: an ignored message never leaves anything undone."""

from __future__ import annotations

import random
import subprocess
import sys
from time import monotonic, sleep

from pgqueue import QueueClient
from pgqueue.testing import Database

PATIENCE = 300
KEYS = 8
KILLED = 20
#: How many sends are committed between two kills.
SENDS = 40

#: Once nothing waits, the index must have the version of the subject.
TABLES = f"""
create table subject (key integer primary key, version integer not null);
create table indexed (key integer primary key, version integer not null);
insert into subject select n, 0 from generate_series(1, {KEYS}) as n;
insert into indexed select * from subject
"""
VERSIONS = "select sum(version) from subject"
STALE = """
select key, subject.version, indexed.version
  from subject join indexed using (key)
 where subject.version <> indexed.version
"""

SENDER = f"""
import random, sys, time, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    while True:
        key = random.randint(1, {KEYS})
        connection.execute("update subject set version = version + 1 where key = %s", [key])
        time.sleep(random.choice([0, 0, 0.002]))
        connection.execute(
            "select pgqueue.send('q', to_jsonb(%s::integer), unique_key => %s::text, on_conflict => %s)",
            [key, key, random.choice(["ignore", "ignore", "replace"])])
        time.sleep(random.choice([0, 0, 0.002]))
        connection.commit() if random.random() < 0.9 else connection.rollback()
"""

HANDLER = """
import random, sys, time, psycopg
RECEIVE = "select sequence_number, lock_token, body::integer from pgqueue.receive('q', 2, interval '0.4 s')"
INDEX = "update indexed set version = greatest(version, %s) where key = %s"
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while True:
        for number, token, key in connection.execute(RECEIVE).fetchall():
            ((version,),) = connection.execute("select version from subject where key = %s", [key]).fetchall()
            time.sleep(random.choice([0, 0, 0.003]))
            try:
                with connection.transaction():
                    connection.execute(INDEX, [version, key])
                    connection.execute("select pgqueue.complete('q', %s, %s)", [number, token])
            except psycopg.Error as error:
                if error.sqlstate != "PQ001":
                    raise
"""


def test_the_last_version_is_indexed_though_processes_are_killed(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(TABLES)
        client.create_queue("q", max_delivery_count=1000)
        roles = {"sender": SENDER, "handler": HANDLER}
        running = [(role, _start(database, roles[role])) for role in ("sender", "sender", "handler", "handler")]
        deadline = monotonic() + PATIENCE
        try:
            for nth in range(KILLED):
                while connection.execute(VERSIONS).fetchall() < [(nth * SENDS,)]:
                    assert monotonic() < deadline, "they have come to a standstill"
                    sleep(0.01)
                unlucky = random.randrange(len(running))
                role, process = running[unlucky]
                _kill(process)
                running[unlucky] = role, _start(database, roles[role])
            for _ in range(2):
                _kill(running.pop(0)[1])  # the senders
            while client.queue("q").peek():
                assert monotonic() < deadline, "they have come to a standstill"
                sleep(0.05)
        finally:
            for _, process in running:
                _kill(process)
        assert connection.execute(STALE).fetchall() == []
        assert connection.execute("select count(*) from pgqueue.unique_keys").fetchall() == [(KEYS,)]


def _start(database: Database, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, database.dsn])


def _kill(process: subprocess.Popen[bytes]) -> None:
    assert process.poll() is None, "a process has failed"
    process.kill()
    process.wait()
