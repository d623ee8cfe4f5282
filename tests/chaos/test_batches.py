"""Senders, closers and consumers that are killed: each batch sends its continuation once, after its last member."""

from __future__ import annotations

import random
import subprocess
import sys
from time import monotonic, sleep

from pgqueue import QueueClient
from pgqueue.testing import Database

PATIENCE = 300
BATCHES = 120
KILLED = 24

TABLES = """
create table opened (batch uuid primary key, members integer not null, is_closed boolean not null default false);
create table settled (batch uuid not null, member text not null, was text not null, primary key (batch, member));
create table continued (batch uuid not null, kind text not null, settled bigint not null)
"""

#: Opens batches, adds to them in several transactions, and closes them in another. A batch that a dead sender has left
#: open is closed by another one.
SENDER = """
import random, sys, time, psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    def ask(statement, *parameters):
        return connection.execute(statement, parameters).fetchone()[0]
    while ask("select count(*) from opened") < int(sys.argv[2]):
        with connection.transaction():
            batch = ask("select pgqueue.create_batch('end', pgqueue.schedule('end', '1', pgqueue.batch_end()),"
                        " pgqueue.schedule('end', '2', pgqueue.batch_end()))")
            connection.execute("insert into opened values (%s, 0)", [batch])
        for _ in range(random.randrange(4)):
            with connection.transaction(force_rollback=random.random() < 0.1):
                n = random.randrange(1, 5)
                ask("select pgqueue.add_to_batch(%s, 'q', array(select pgqueue.send('q', jsonb_build_object("
                    "'batch', %s::text, 'member', gen_random_uuid())) from generate_series(1, %s)))",
                    batch, str(batch), n)
                connection.execute("update opened set members = members + %s where batch = %s", [n, batch])
                time.sleep(random.choice([0, 0, 0.003]))
        with connection.transaction():
            ask("select pgqueue.close_batch(%s)", batch)
            connection.execute("update opened set is_closed = true where batch = %s", [batch])
            time.sleep(random.choice([0, 0, 0.003]))
"""

#: Settles a member in each of several ways, and writes it down in the same transaction. One in ten is rolled back.
CONSUMER = """
import random, sys, time, psycopg
RECEIVE = '''select sequence_number, lock_token, body ->> 'batch', body ->> 'member'
               from pgqueue.receive('q', 5, interval '1 s')'''
ENDED = "select sequence_number, lock_token, body from pgqueue.receive('end', 5, interval '1 s')"
#: In a statement of its own: one that receives may be older than the batch.
CONTINUED = '''insert into continued
               select id, %s, (select count(*) from settled where batch = id)
                 from pgqueue.batches where %s in (sequence_number, on_failure)'''
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while True:
        for number, token, batch, member in connection.execute(RECEIVE).fetchall():
            way = random.choices(["complete", "dead_letter", "cancel"], [20, 1, 1])[0]
            try:
                with connection.transaction(force_rollback=random.random() < 0.1):
                    if way == "cancel":
                        if not connection.execute("select pgqueue.cancel('q', %s)", [number]).fetchone()[0]:
                            continue
                    else:
                        connection.execute(f"select pgqueue.{way}('q', %s, %s{', %s' if way == 'dead_letter' else ''})",
                                           [number, token, *(["Bad"] if way == "dead_letter" else [])])
                    connection.execute("insert into settled values (%s, %s, %s)", [batch, member, way])
                    time.sleep(random.choice([0, 0, 0.003]))
            except psycopg.Error as error:
                if error.sqlstate not in ("PQ001", "40P01"):
                    raise
        for number, token, body in connection.execute(ENDED).fetchall():
            try:
                with connection.transaction():
                    connection.execute("select pgqueue.pin('end', %s, %s)", [number, token])
                    connection.execute(CONTINUED, [str(body), number])
                    connection.execute("select pgqueue.complete('end', %s, %s)", [number, token])
            except psycopg.Error as error:
                if error.sqlstate != "PQ001":
                    raise
"""

WRONG = """
select opened.*, array_agg(kind), array_agg(continued.settled),
       (select count(*) from settled where settled.batch = opened.batch) as settled
  from opened
  left join continued using (batch)
 where is_closed
 group by opened.batch
having count(kind) <> 1 or min(continued.settled) <> members
    or min(kind) <> case when exists (
           select from settled where settled.batch = opened.batch and was = 'dead_letter') then '2' else '1' end
"""


def test_each_batch_continues_once(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        connection.execute(TABLES)
        client.create_queue("q", max_delivery_count=1000)
        client.create_queue("end", max_delivery_count=1000)
        scripts = [SENDER, SENDER, CONSUMER, CONSUMER, CONSUMER]
        running = [_start(database, script) for script in scripts]
        deadline = monotonic() + PATIENCE

        def wait_until(statement: str) -> None:
            while connection.execute(statement.encode()).fetchone() != (True,):
                assert monotonic() < deadline, "they have come to a standstill"
                for process, script in zip(running, scripts, strict=True):
                    assert process.poll() is None or (script is SENDER and process.poll() == 0), "a process has failed"
                sleep(0.01)

        try:
            for nth in range(KILLED):
                wait_until(f"select count(*) >= {nth * BATCHES // KILLED} from opened")
                unlucky = random.randrange(len(running))
                running[unlucky].kill()
                running[unlucky].wait()
                running[unlucky] = _start(database, scripts[unlucky])
            wait_until(f"select count(*) >= {BATCHES} from opened")
            for process in running[:2]:
                assert process.wait(deadline - monotonic()) == 0
            connection.execute(
                "select pgqueue.close_batch(batch) from opened where not is_closed; update opened set is_closed = true"
            )
            wait_until("select count(*) = 0 from pgqueue.batch where finished_at is null")
            wait_until("select count(*) = (select count(*) from opened) from continued")
        finally:
            for process in running:
                process.kill()
                process.wait()
        assert connection.execute(WRONG.encode()).fetchall() == []
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []


def _start(database: Database, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, database.dsn, str(BATCHES)])
