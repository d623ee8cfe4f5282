"""Workers on two queues of sessions, and the rules that the database watches while they are killed and frozen."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

import pgqueue
from pgqueue import Message
from pgqueue.testing import Database
from tests.patience import eventually

HOUSE = Path(pgqueue.__file__).parents[1]

#: The handlers of one share the transaction of the completion; those of the other take none.
STEPS, LOOKS = "steps", "looks"
SESSIONS = {STEPS: ["s1", "s2", "s3", "s4", "s5", "s6"], LOOKS: ["s11", "s12", "s13", "s14", "s15", "s16"]}
SENDERS = 2
#: Senders pause while so many messages wait.
ENOUGH = 200
#: How many workers are frozen at most, until one is found that keeps what it holds.
ATTEMPTS = 20

#: ``step`` is written with a completion, ``look`` by each handler that takes no transaction. The rules are checked when
#: a session is accepted, when a completion is committed, and when a handler begins.
EVIDENCE = """
create table violation (rule text not null, session text not null);
create table step (session text not null, sender int not null, number int not null, total int not null);
create table look (session text not null, sender int not null, number int not null);
create index on look (session, sender, number);

-- An advisory lock marks the transaction of a handler, until its end: its process, and the number of the session.
create function is_in_transaction(session text) returns boolean
language sql as $$
    select exists (
        select from pg_locks as held
          join pg_locks as running using (virtualtransaction)
         where held.locktype = 'advisory' and held.objsubid = 2 and held.objid = substr(session, 2)::oid
           and held.database = (select oid from pg_database where datname = current_database())
           and held.pid <> pg_backend_pid()
           and running.locktype = 'transactionid' and running.mode = 'ExclusiveLock'
           and pg_xact_status(running.transactionid::text::xid8) = 'in progress')
$$;

create function watch_acceptance() returns trigger
language plpgsql security definer set search_path = public as $$
begin
    insert into violation
    values (case when old.locked_until > pgqueue.clock() then 'accepted while another holds it'
                 when is_in_transaction(new.session_id) then 'accepted while a transaction settles a message of it'
                 else 'not released' end, new.session_id);
    return null;
end
$$;
create trigger watch_acceptance after update on pgqueue.session
    for each row when (old.lock_token <> new.lock_token) execute function watch_acceptance();

create function watch_release() returns trigger
language plpgsql security definer set search_path = public as $$
begin
    insert into violation
    select 'released, and not offered again', new.session_id
      from (select lock_token is null and coalesce(locked_until > pgqueue.clock(), false) as is_put_off
              from pgqueue.message
             where queue_id = new.queue_id and session_id = new.session_id
             order by position
             limit 1) as next
     where not is_put_off
       and not exists (select from pgqueue.waiting_session
                        where queue_id = new.queue_id and session_id = new.session_id
                          and available_at <= pgqueue.clock() + interval '1 second');
    return null;
end
$$;
create constraint trigger watch_release after update on pgqueue.session
    deferrable initially deferred for each row when (old.lock_token is not null and new.lock_token is null)
    execute function watch_release();

-- Until a settlement is committed, no other worker accepts the session; its holder might release it, but does not.
create function watch_completion() returns trigger
language plpgsql security definer set search_path = public as $$
begin
    insert into violation
    select 'completed before its predecessor', old.session_id
     where exists (select from pgqueue.message
                    where queue_id = old.queue_id and session_id = old.session_id
                      and body->'sender' = old.body->'sender' and (body->'number')::int < (old.body->'number')::int)
    union all
    select 'completed without the lock of its session', old.session_id
     where not exists (select from pgqueue.session
                        where queue_id = old.queue_id and session_id = old.session_id and lock_token = old.lock_token);
    return null;
end
$$;
create constraint trigger watch_completion after delete on pgqueue.message
    deferrable initially deferred for each row execute function watch_completion()"""

#: The slow ones leave a process that was frozen the time to go on with what it had received.
HANDLERS = """
import os, random, threading, time

import psycopg

from pgqueue import Handlers

own = threading.local()
quick, slow = Handlers(), Handlers()

def note(text, *arguments):
    if not hasattr(own, "connection"):
        own.connection = psycopg.connect(os.environ["EVIDENCE"], autocommit=True)
    own.connection.execute(text, arguments)

def place(message):
    return message.session_id, message.body["sender"], message.body["number"]

def fail_sometimes():
    if random.random() < 0.04:
        raise ValueError("now and then a handler fails")

@quick.handler("steps")
def step(message, tx):
    session, sender, number = place(message)
    tx.execute("select pg_advisory_xact_lock_shared(%s, %s)", [os.getpid(), int(session[1:])])
    if tx.execute("select is_in_transaction(%s)", [session]).fetchone() == (True,):
        note("insert into violation values ('in two hands', %s)", session)
    total = (message.get_session_state(transaction=tx) or 0) + 1
    time.sleep(random.random() / 100)
    message.set_session_state(total, transaction=tx)
    tx.execute("insert into step values (%s, %s, %s, %s)", [session, sender, number, total])
    fail_sometimes()

@quick.handler("looks")
def look(message, *, longest=0.002):
    session, sender, number = place(message)
    note(\"\"\"insert into violation
            select 'begun before its predecessor was handled', %s
             where %s > 0 and not exists (select from look where session = %s and sender = %s and number = %s)\"\"\",
         session, number, session, sender, number - 1)
    time.sleep(random.random() * longest)
    fail_sometimes()
    note("insert into look values (%s, %s, %s)", session, sender, number)

@slow.handler("looks")
def look_slowly(message):
    look(message, longest=0.2)
"""

#: The sessions of which a process holds several messages, so that some are left when another has received the first:
#: whether another has accepted the session.
MESSAGES_AHEAD = """
select split_part(message.locked_by, ':', 2)::int as pid, session.session_id,
       bool_or(session.lock_token <> message.lock_token) as is_reached
  from pgqueue.message
  join pgqueue.queue on queue.id = message.queue_id and queue.name = 'looks'
  join pgqueue.session on session.queue_id = message.queue_id and session.session_id = message.session_id
 where message.locked_by is not null
 group by pid, session.session_id
having count(*) > 2"""

#: The transactions of handlers: whether another has tried to accept the session after its lock expired, which puts it
#: off by a second.
TRANSACTIONS = """
select held.classid::int as pid, session.session_id,
       exists (select from pgqueue.waiting_session as waiting
                where waiting.queue_id = session.queue_id and waiting.session_id = session.session_id
                  and available_at - interval '1 second' > session.locked_until) as is_reached
  from pg_locks as held
  join pgqueue.session on session.session_id = 's' || held.objid
 where held.locktype = 'advisory' and held.objsubid = 2
   and held.database = (select oid from pg_database where datname = current_database())"""


@dataclass(frozen=True)
class Defect:
    """A rule that is taken out of a file of the engine or of the worker."""

    #: The rule that it breaks.
    rule: str
    file: str
    text: str
    replacement: str

    def __str__(self) -> str:
        return f"{Path(self.file).stem}: {' '.join(self.text.split())}"

    def commit(self, control: psycopg.Connection[Any], directory: Path) -> Path:
        """Put it into the database, or into a copy of the library; return the directory that workers import from."""
        sound = (HOUSE / self.file).read_text()
        assert sound.count(self.text) == 1, f"{self.file} does not have the text of the defect once: change that, too"
        broken = sound.replace(self.text, self.replacement)
        if self.file.endswith(".sql"):
            control.execute(broken.encode())
            return HOUSE
        shutil.copytree(HOUSE / "pgqueue", directory / "pgqueue", ignore=shutil.ignore_patterns("__pycache__"))
        (directory / self.file).write_text(broken)
        return directory


@dataclass
class Scene:
    """Two queues with their senders and workers. A rule that is broken ends every wait."""

    database: Database
    directory: Path
    control: psycopg.Connection[Any]
    library: Path
    #: The rules that may be broken.
    waived: Sequence[str]
    luck: random.Random = field(default_factory=lambda: random.Random(11))
    #: The messages of each sender to each session, in each queue.
    sent: dict[tuple[str, str, int], int] = field(default_factory=dict)
    crew: list[tuple[subprocess.Popen[bytes], tuple[str, ...]]] = field(default_factory=list)

    def hire(self, *arguments: str) -> None:
        """Start a worker with these handlers and options."""
        command = [sys.executable, "-m", "pgqueue", "worker", *arguments, "--dsn", self.database.dsn]
        with (self.directory / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--concurrency", "3", "--first-delay", "10ms"],
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": str(self.library), "EVIDENCE": self.database.direct},
                stdout=log,
                stderr=log,
            )
        self.crew.append((process, arguments))

    def wait(self, condition: str) -> None:
        """Wait until a condition in SQL holds."""
        eventually(lambda: self._ask(f"select {condition}") == [(True,)], condition)

    def wait_for_work(self) -> None:
        """Wait until each queue has come some messages further."""
        ((steps, looks),) = self._ask("select (select count(*) from step), (select count(*) from look)")
        self.wait(f"(select count(*) from step) > {steps + 20} and (select count(*) from look) > {looks + 20}")

    def kill_worker(self) -> None:
        """Kill one, and start another."""
        process, arguments = self.crew.pop(self.luck.randrange(len(self.crew)))
        process.kill()
        process.wait()
        self.hire(*arguments)

    def dismiss_all(self) -> None:
        """Kill all workers."""
        for process, _ in self.crew:
            process.kill()
            process.wait()

    def freeze_worker_with_messages_ahead(self) -> None:
        """Freeze one that holds several messages of a session, until another has accepted the session."""
        self._freeze(MESSAGES_AHEAD)

    def freeze_worker_in_transaction(self) -> None:
        """Freeze one in a transaction of its handler, until another has tried to accept the session."""
        self._freeze(TRANSACTIONS)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Inside the block, each sender sends to each session in order; one message, or several at once."""
        stopping = threading.Event()
        dsn = make_conninfo(self.database.dsn, application_name="sender")
        with pgqueue.QueueClient(dsn) as client:
            with ThreadPoolExecutor() as senders:
                sending = [
                    senders.submit(self._send, client.queue(queue), sender, stopping)
                    for queue in (STEPS, LOOKS)
                    for sender in range(SENDERS)
                ]
                try:
                    yield
                finally:
                    stopping.set()
            for each in sending:
                each.result()

    def terminate_connections(self) -> None:
        """Terminate half of those of workers, in the midst of whatever they do."""
        self._ask("""
            select count(pg_terminate_backend(pid))
              from pg_stat_activity
             where datname = current_database() and application_name = 'pgqueue' and pid % 2 = 0""")

    def check_all_is_done(self, *, is_calm: bool) -> None:
        """Wait until no message is left; then each was handled, and each step taken once, in the order of the state."""
        self.wait("not exists (select from pgqueue.message)")
        sent = sorted((*place, count) for place, count in self.sent.items())
        done = self._ask(f"""
            select 'looks', session, sender, count({"" if is_calm else "distinct"} number)::int from look group by 2, 3
             union all
            select 'steps', session, sender, count(*)::int from step group by 2, 3""")
        assert sorted(done) == sent
        out_of_order = """
            select session, sender, number
              from (select *, row_number() over (partition by session, sender order by total) - 1 as place
                      from step) as placed
             where number <> place"""
        assert self._ask(out_of_order) == []
        states = "select session, count(*)::int, count(distinct total)::int, max(total) from step group by session"
        for session, count, distinct, last in self._ask(states):
            assert count == distinct == last, "a step was taken on a state that another has replaced"
            assert self._ask(f"select state from pgqueue.get_session_state('steps', '{session}')") == [(last,)]
        assert self._ask("select pgqueue.broken_invariants()") == []

    def _send(self, queue: pgqueue.Queue[Any], sender: int, stopping: threading.Event) -> None:
        luck = random.Random(sender)
        with self.database.connect(autocommit=True) as own:
            while not stopping.wait(luck.random() / 100):
                if own.execute("select count(*) > %s from pgqueue.message", [ENOUGH]).fetchall() == [(True,)]:
                    continue
                session = luck.choice(SESSIONS[queue.name])
                place = queue.name, session, sender
                first, count = self.sent.get(place, 0), luck.choice([1, 1, 3])
                messages = [{"sender": sender, "number": number} for number in range(first, first + count)]
                queue.send_batch([Message(body, session_id=session) for body in messages])
                self.sent[place] = first + count

    def _freeze(self, holdings: str) -> None:
        """Freeze a holder until another has reached for what it holds; if it holds nothing by then, freeze another."""
        crew = ", ".join(str(process.pid) for process, _ in self.crew)
        holders = f"select * from ({holdings}) as held where pid in ({crew})"
        for _ in range(ATTEMPTS):
            self.wait(f"exists ({holders})")
            found = self._ask(holders)
            if found and self._is_reached_while_frozen(holders, *found[0][:2]):
                return
        raise AssertionError(f"none of {ATTEMPTS} workers that were frozen kept what it held")

    def _is_reached_while_frozen(self, holders: str, pid: int, session: str) -> bool:
        its = f"{holders} and pid = {pid} and session_id = '{session}'"
        os.kill(pid, signal.SIGSTOP)
        try:
            self.wait(f"not exists ({its} and not is_reached)")
            return bool(self._ask(its))
        finally:
            os.kill(pid, signal.SIGCONT)

    def _ask(self, question: str) -> list[tuple[Any, ...]]:
        violations = self.control.execute(
            "select * from violation where rule <> all (%s)", [list(self.waived)]
        ).fetchall()
        assert not violations, f"broken: {violations}"
        assert all(process.poll() is None for process, _ in self.crew), "a worker has ended: see workers.log"
        return self.control.execute(question.encode()).fetchall()


@contextmanager
def staged(
    database: Database, directory: Path, lock_duration: timedelta, waived: Sequence[str], defect: Defect | None
) -> Iterator[Scene]:
    """Two queues and their evidence, without workers."""
    (directory / "handlers.py").write_text(HANDLERS)
    with (
        database.connect(autocommit=True) as control,
        pgqueue.QueueClient(database.dsn) as client,
        ExitStack() as stack,
    ):
        control.execute(EVIDENCE)
        for queue in (STEPS, LOOKS):
            client.create_queue(queue, requires_session=True, lock_duration=lock_duration, max_delivery_count=10_000)
        library = defect.commit(control, directory) if defect else HOUSE
        scene = Scene(database, directory, control, library, waived)
        stack.callback(scene.dismiss_all)
        yield scene
