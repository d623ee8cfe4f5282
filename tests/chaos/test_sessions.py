"""Workers on sessions that are killed again and again: no session is ever out of order, nor in two hands."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgqueue
from pgqueue import Message
from pgqueue.testing import Database
from tests.patience import eventually

LIBRARY = str(Path(pgqueue.__file__).parents[1])
WORKERS = 8
SENDERS = 2
SESSIONS = 12
#: Of each sender, to each session.
MANY = 15
KILLS = 10

#: The steps of handlers with their times by the server's clock, and each acceptance of a session whose lock had
#: neither expired nor been released.
NOTES = """
create table step (
    session text not null, sender int not null, number int not null, holder int not null,
    began_at timestamptz not null, ended_at timestamptz not null, total int not null,
    primary key (session, sender, number));
create table robbed (session text not null, held_until timestamptz not null);
create function note_robbed() returns trigger language plpgsql as $$
begin
    insert into robbed values (old.session_id, old.locked_until);
    return null;
end
$$;
create trigger note_robbed after update on pgqueue.session
    for each row when (old.lock_token <> new.lock_token and old.locked_until > pgqueue.clock())
    execute function note_robbed()"""

#: A handler has the session to itself: it holds an advisory lock for the whole transaction, and another one would find
#: it taken. Some handlers fail.
HANDLERS = """
import os, pathlib, random, time

def step(message, tx):
    body, session = message.body, message.session_id
    ((is_alone, began_at),) = tx.execute(
        "select pg_try_advisory_xact_lock(hashtext(%s)), clock_timestamp()", [session]).fetchall()
    if not is_alone:
        pathlib.Path("overlapping").touch()
    total = (message.get_session_state(transaction=tx) or 0) + 1
    time.sleep(random.random() / 100)
    message.set_session_state(total, transaction=tx)
    tx.execute("insert into step values (%s, %s, %s, %s, %s, clock_timestamp(), %s)",
               [session, body["sender"], body["number"], os.getpid(), began_at, total])
    if random.random() < 0.03:
        raise ValueError("now and then a handler fails")
"""

pytestmark = pytest.mark.chaos


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


@contextmanager
def worker(database: Database, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    options = ["--concurrency", "3", "--first-delay", "10ms", "--max-messages-per-session", "5"]
    with subprocess.Popen(
        [sys.executable, "-m", "pgqueue", "worker", "handlers:step", "steps", "--dsn", database.dsn, *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": LIBRARY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def send(queue: pgqueue.Queue[Any], sender: int, luck: random.Random) -> None:
    """To each session in order; one message, or several at once."""
    sent = dict.fromkeys((f"s{number}" for number in range(SESSIONS)), 0)
    while sent:
        session = luck.choice(list(sent))
        upto = min(sent[session] + luck.choice([1, 1, 3]), MANY)
        queue.send_batch(
            [Message({"sender": sender, "number": n}, session_id=session) for n in range(sent[session], upto)]
        )
        sent[session] = upto
        if upto == MANY:
            del sent[session]
        time.sleep(luck.random() / 50)


def test_killed_workers_break_no_order_and_lose_and_double_nothing(database: Database, directory: Path) -> None:
    luck = random.Random(11)
    in_all = SENDERS * SESSIONS * MANY
    with (
        pgqueue.QueueClient(database.dsn) as client,
        database.connect(autocommit=True) as control,
        ExitStack() as stack,
    ):
        control.execute(NOTES)
        client.create_queue(
            "steps", requires_session=True, lock_duration=timedelta(seconds=1), max_delivery_count=1_000
        )
        queue = client.queue("steps")
        crew = [stack.enter_context(worker(database, directory)) for _ in range(WORKERS)]
        senders = [threading.Thread(target=send, args=(queue, n, random.Random(n))) for n in range(SENDERS)]
        for sender in senders:
            sender.start()
        for kill in range(KILLS):
            until(control, in_all * (kill + 1) // (KILLS + 1))
            victim = crew.pop(luck.randrange(len(crew)))
            victim.kill()
            victim.wait()
            crew.append(stack.enter_context(worker(database, directory)))
        for sender in senders:
            sender.join()
        until(control, in_all)
        assert queue.peek() == []
        assert not (directory / "overlapping").exists()
        check(control, in_all)
        for session in {f"s{number}" for number in range(SESSIONS)}:
            ((state, _),) = control.execute("select * from pgqueue.get_session_state('steps', %s)", [session])
            assert state == SENDERS * MANY, "the state does not agree with the completions"
        assert control.execute("select pgqueue.broken_invariants()").fetchall() == []


def until(control: psycopg.Connection[Any], done: int) -> None:
    eventually(lambda: control.execute("select count(*) from step").fetchall() >= [(done,)])


def check(control: psycopg.Connection[Any], in_all: int) -> None:
    """Each message once; those of a sender in order; and the intervals of a session one after the other."""
    assert control.execute("select count(*) from step").fetchall() == [(in_all,)]
    out_of_order = """
        select * from (select *, row_number() over (partition by session, sender order by total) - 1 as place
                         from step) as placed
         where number <> place"""
    assert control.execute(out_of_order).fetchall() == []
    overlapping = """
        select * from (select *, lag(ended_at) over (partition by session order by began_at) as before from step) as one
         where began_at < before"""
    assert control.execute(overlapping).fetchall() == []
    assert control.execute("select * from robbed").fetchall() == []
    gaps = "select session from step group by session having count(distinct total) <> max(total) or min(total) <> 1"
    assert control.execute(gaps).fetchall() == []
