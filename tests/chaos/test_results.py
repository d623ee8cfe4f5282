"""Consumers and waiters that are killed: each outcome agrees with what its transaction has written."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import timedelta
from time import monotonic, sleep

from pgqueue import Message, QueueClient
from pgqueue.testing import Database

PATIENCE = 300
MESSAGES = 600
KILLED = 20

TABLES = """
create table effect (body integer not null, run uuid not null);
create table waited (body integer primary key, state text not null, run uuid)
"""

#: Writes an effect in the transaction that completes the message, with the effect as the result; or dead-letters it.
CONSUMER = """
import random, sys, time, uuid, psycopg
from psycopg.types.json import Jsonb
RECEIVE = "select sequence_number, lock_token, body::integer from pgqueue.receive('q', 3, interval '0.5 s')"
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while True:
        for number, token, body in connection.execute(RECEIVE).fetchall():
            run = uuid.uuid4()
            try:
                with connection.transaction(force_rollback=random.random() < 0.1):
                    connection.execute("insert into effect values (%s, %s)", [body, run])
                    time.sleep(random.choice([0, 0, 0.003]))
                    if body % 10 == 0:
                        connection.execute("select pgqueue.dead_letter('q', %s, %s, 'Tenth')", [number, token])
                    else:
                        connection.execute(
                            "select pgqueue.complete('q', %s, %s, %s)", [number, token, Jsonb(str(run))])
                    time.sleep(random.choice([0, 0, 0.003]))
            except psycopg.Error as error:
                if error.sqlstate != "PQ001":
                    raise
"""

#: Waits for all messages at once, whatever it has got before, and writes down what it gets.
WAITER = """
import asyncio, sys, psycopg, pgqueue.aio
async def main():
    async with pgqueue.aio.QueueClient(sys.argv[1]) as client:
        queue = client.queue("q")
        async with await psycopg.AsyncConnection.connect(sys.argv[1], autocommit=True) as connection:
            async def wait(message):
                outcome = await queue.wait_for(message)
                await connection.execute(
                    "insert into waited select %(body)s, %(state)s, %(run)s::uuid on conflict (body) do update"
                    " set state = excluded.state, run = excluded.run",
                    {"body": bodies[message], "state": outcome.state, "run": outcome.result})
            found = await connection.execute("select number, body from sent")
            bodies = dict(await found.fetchall())
            await asyncio.gather(*map(wait, bodies))
asyncio.run(main())
"""

WRONG = """
select body, state, waited.run, array_agg(effect.run)
  from sent left join waited using (body) left join effect using (body)
 group by body, state, waited.run
having count(*) <> 1 or state is distinct from case when body % 10 = 0 then 'DEAD_LETTERED' else 'COMPLETED' end
    or (body % 10 <> 0 and waited.run is distinct from (array_agg(effect.run))[1])
"""
STORED = """
select count(*)
  from sent
  join effect using (body)
 cross join lateral pgqueue.result('q', number) as kept
 where (state, result #>> '{}') is not distinct from
       (case when body % 10 = 0 then 'DEAD_LETTERED' else 'COMPLETED' end, case when body % 10 <> 0 then run::text end)
"""


def test_an_outcome_is_that_of_the_transaction_that_was_committed(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(TABLES)
        client.create_queue("q", max_delivery_count=1000, result_retention=timedelta(days=1))
        numbers = client.queue("q").send_batch([Message(body) for body in range(MESSAGES)])
        connection.execute(
            "create table sent as select * from unnest(%s::bigint[], %s::integer[]) as sent (number, body)",
            [numbers, list(range(MESSAGES))],
        )
        scripts = [CONSUMER, CONSUMER, WAITER]
        running = [_start(database, script) for script in scripts]
        deadline = monotonic() + PATIENCE
        try:
            for nth in range(KILLED):
                while connection.execute("select count(*) from effect").fetchall() < [(nth * MESSAGES // KILLED // 2,)]:
                    assert monotonic() < deadline, "they have come to a standstill"
                    sleep(0.01)
                unlucky = random.randrange(len(running))
                _kill(running[unlucky])
                running[unlucky] = _start(database, scripts[unlucky])
            assert running[-1].wait(deadline - monotonic()) == 0, "the waiter has failed"
        finally:
            for process in running:
                process.kill()
                process.wait()
        assert connection.execute(WRONG).fetchall() == []
        assert connection.execute(STORED).fetchall() == [(MESSAGES,)]


def _start(database: Database, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, database.dsn])


def _kill(process: subprocess.Popen[bytes]) -> None:
    assert process.poll() is None, "a process has failed"
    process.kill()
    process.wait()
