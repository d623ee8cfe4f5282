"""A database in which much has died, behind a held snapshot, and what is left alive there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.sql.stage import LOCK_DURATION, SECOND, Session, Stage

#: Of each table and kind. PGQUEUE_TEST_DEAD_ROWS=200000 makes the differences larger, and the tests take minutes.
DEAD_ROWS = int(os.environ.get("PGQUEUE_TEST_DEAD_ROWS", "20000"))

TURN_OFF = """
do $$
declare
    kept regclass;
begin
    for kept in select oid from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'r' loop
        execute format('alter table %s set (autovacuum_enabled = off)', kept);
    end loop;
end
$$
"""

SEND = """
select count(*) from pgqueue.send_batch('{queue}', array_fill('1'::jsonb, array[{n}]){options})
"""
#: Of all messages that a receive returns, in one statement.
SETTLE = """
with received as materialized (select * from pgqueue.{receive})
select count(*) from pgqueue.{verb}('{queue}', (select array_agg(sequence_number) from received),
                                    (select array_agg(lock_token) from received){options})
"""


@dataclass(frozen=True)
class Wear:
    """Makes dead rows in a queue, by the verbs that make them in production."""

    stage: Stage
    session: Session
    queue: str

    def run(self, statement: str, **options: str) -> None:
        self.session.rows(statement.format(queue=self.queue, n=DEAD_ROWS, **options))

    def send(self, options: str = "") -> None:
        self.run(SEND, options=options)

    def settle(self, verb: str, options: str = "", receive: str = "receive('{queue}', {n})") -> None:
        text = receive.format(queue=self.queue, n=DEAD_ROWS)
        self.run(SETTLE, verb=verb, options=options, receive=text)

    def turns(self, times: int) -> None:
        for _ in range(times):
            self.stage.passes(2 * SECOND)
            self.session.call("take_turn", queue=self.queue)

    def consume(self) -> None:
        self.send()
        self.settle("complete_batch")

    def redeliver(self) -> None:
        self.send()
        self.settle("abandon_batch")
        self.settle("complete_batch")

    def defer(self) -> None:
        self.send()
        self.settle("defer_batch")
        numbers = "select array_agg(sequence_number) from pgqueue.message where lane between 800 and 1200"
        deferred = f"receive_deferred('{{queue}}', ({numbers}))"
        self.settle("complete_batch", receive=deferred)

    def schedule(self) -> None:
        at = "array_agg(pgqueue.clock() + interval '1 minute' + n * interval '1 ms')"
        self.send(f", scheduled_enqueue_times => (select {at} from generate_series(1, {DEAD_ROWS}) n)")
        self.stage.passes(timedelta(hours=1))
        self.turns(DEAD_ROWS // 1000 + 1)
        self.settle("complete_batch")

    def expire(self) -> None:
        self.send(f", times_to_live => array_fill(interval '1 minute', array[{DEAD_ROWS}])")
        self.stage.passes(timedelta(hours=1))
        self.run("select from pgqueue.receive('{queue}')")

    def watch(self) -> None:
        self.send()
        self.settle("pin_batch")
        self.turns(DEAD_ROWS // 5000 + 3)
        self.stage.passes(2 * LOCK_DURATION)
        self.turns(DEAD_ROWS // 1000 + 1)
        self.settle("complete_batch")

    def dead_letter(self) -> None:
        self.send()
        self.settle("dead_letter_batch", ", reason => 'r'")
        self.run("select pgqueue.purge_queue('{queue}/$deadletterqueue')")

    def purge(self) -> None:
        self.send()
        self.run("select pgqueue.purge_queue('{queue}')")


#: Records that no verb makes in such numbers, by table.
RECORDS = {
    "sent_message_id": "select {id}, 'id ' || n, n, pgqueue.clock() from generate_series(1, {n}) n",
    "unique_key": "select {id}, 'key ' || n, n from generate_series(1, {n}) n",
    "outcome": "select {id}, n, 'COMPLETED', null, null, now() - '9 years'::interval from generate_series(1, {n}) n",
    "waiting_for_outcome": "select {id}, pgqueue.clock() - n * interval '5 s' from generate_series(1, {n}) n",
    "batch": "(queue_id, sequence_number, created_at, finished_at)"
    " select {id}, n, now(), now() - '9 years'::interval from generate_series(1, {n}) n",
    "batch_stripe": "select gen_random_uuid(), n % 16, true from generate_series(1, {n}) n",
    "batch_member": "select {id}, n, gen_random_uuid(), n % 16 from generate_series(1, {n}) n",
    "batch_change": "(batch_id, stripe) select gen_random_uuid(), n % 16 from generate_series(1, {n}) n",
    "recorded_effect": "select {id}, 'id ' || n, '', null, now(), now() from generate_series(1, {n}) n",
    "failed_message": "select {id}, n, null, null, null from generate_series(1, {n}) n",
    "scheduled_on_topic": "select (select min(id) from pgqueue.topic), n, 0, null, pgqueue.clock()"
    " from generate_series(1, {n}) n",
    "published_batch": "select {id}, 'p', n, 1, 0, pgqueue.clock(), pgqueue.clock() from generate_series(1, {n}) n",
}
SESSIONS = """
insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
select {id}, 'gone ' || n, pgqueue.clock() from generate_series(1, {n}) n;
insert into pgqueue.waiting_session select {id}, 'gone ' || n, pgqueue.clock() from generate_series(1, {n}) n;
delete from pgqueue.session where session_id like 'gone%';
delete from pgqueue.waiting_session where session_id like 'gone%';
"""
GROUPS = """
insert into pgqueue.group_limit select {id}, 'gone ' || n, 1 from generate_series(1, {n}) n;
insert into pgqueue.message_group select {id}, 'long', -n, pgqueue.clock() from generate_series(1, {n}) n;
delete from pgqueue.group_limit;
delete from pgqueue.message_group;
"""


ACCEPT_AND_RELEASE = """
select pgqueue.release_session('sessions', session_id, lock_token) from pgqueue.accept_session('sessions')
"""
#: The rows that are rewritten every few seconds, for days.
REWRITE = """
do $$
begin
    for nth in 1 .. {n} loop
        perform pgqueue.heartbeat('{worker}', 'host', 1, '1', '{{q}}', 1, handled => nth);
        update pgqueue.scheduled_progress
           set turn = turn + 1
         where queue_id = {id} and kind = 'MESSAGE'
           and turn = (select max(turn) from pgqueue.scheduled_progress where queue_id = {id} and kind = 'MESSAGE');
    end loop;
end
$$
"""
WORKER = "6f1c9a52-34c5-4d8e-9d58-2f6a3f0b8a11"


@dataclass(frozen=True)
class Worn:
    """A database in which much has died, and what is left there."""

    stage: Stage
    names: dict[str, Any]

    def statement(self, text: str, session: Session) -> str:
        """The statement, with messages and a session that this session of the database has locked."""
        names = dict(self.names)
        if "{number}" in text:
            (message,) = session.receive(take_turn=False)
            names |= {"number": message.sequence_number, "token": message.lock_token}
        if "{kept}" in text:
            (kept,) = session.receive(take_turn=False, queue="distinct")
            names |= {"kept": kept.sequence_number, "kept_token": kept.lock_token}
        if "{numbers}" in text:
            messages = session.receive(6, take_turn=False)
            names["numbers"] = "{" + ",".join(str(message.sequence_number) for message in messages) + "}"
            names["tokens"] = "{" + ",".join(str(message.lock_token) for message in messages) + "}"
        if "{session_token}" in text:
            names["session_token"] = session.value("select lock_token from pgqueue.accept_session('sessions', 'long')")
        return text.format(**names)


def fill(stage: Stage) -> dict[str, Any]:
    ann = stage.session("ann")
    ann.rows("set statement_timeout = 0")
    settings: dict[str, dict[str, Any]] = {
        "empty": {},
        "bounded": {"max_queue_length": DEAD_ROWS * 2},
        "limited": {"max_receive_rate": 10_000},
        "watched": {},
        "returned": {},
        "distinct": {"requires_duplicate_detection": True, "result_retention": timedelta(days=1)},
        "sessions": {"requires_session": True},
        "fair": {"fair": True},
        "grouped": {"max_concurrent_per_group": 1000},
    }
    for queue, given in settings.items():
        ann.call("create_queue", queue=queue, **given)
    ann.rows("select pgqueue.create_topic('topic'); select pgqueue.create_subscription('topic', 'all')")
    ann.rows("select pgqueue.create_schedule('hourly', 'q', every => '1 hour', body => '1')")

    q, empty, bounded = (Wear(stage, ann, queue) for queue in ("q", "empty", "bounded"))
    for wear in (q.consume, q.redeliver, q.defer, q.schedule, q.expire, q.dead_letter, q.purge):
        wear()
    for wear in (empty.consume, empty.schedule, empty.dead_letter, empty.expire, empty.purge):
        wear()
    returned = Wear(stage, ann, "returned")
    for wear in (bounded.consume, bounded.schedule, returned.redeliver, returned.schedule):
        wear()
    Wear(stage, ann, "limited").purge()
    Wear(stage, ann, "watched").watch()
    for queue in ("sessions", "fair", "grouped"):
        Wear(stage, ann, queue).send(f", session_ids => array_fill('long'::text, array[{DEAD_ROWS}])")
    Wear(stage, ann, "fair").settle("complete_batch")
    for queue in ("sessions", "grouped"):
        ann.rows(f"select pgqueue.purge_queue('{queue}')")
    ids = dict(ann.rows("select name, id from pgqueue.queue"))
    ann.rows(SESSIONS.format(id=ids["sessions"], n=DEAD_ROWS))
    ann.rows(GROUPS.format(id=ids["grouped"], n=DEAD_ROWS))
    ann.rows(REWRITE.format(id=ids["q"], n=DEAD_ROWS, worker=WORKER))
    for table, rows in RECORDS.items():
        ann.rows(f"insert into pgqueue.{table} {rows.format(id=ids['distinct'], n=DEAD_ROWS)}")
        ann.rows(f"delete from pgqueue.{table}")
    return left_over(stage, ann)


def left_over(stage: Stage, ann: Session) -> dict[str, Any]:
    """The live rows among the dead ones, after every queue was polled and a sweep has searched everything."""
    sources = ("q", "empty", "bounded", "limited", "watched", "returned", "fair", "grouped")
    for queue in ("sessions", "fair", "grouped"):
        ann.send(*range(9), queue=queue, session_id="long")
        ann.send("first", queue=queue, session_id="another")
    for _ in range(5):
        stage.passes(2 * SECOND)
        for queue in sources:
            ann.receive(queue=queue)
            ann.call("purge_queue", queue=f"{queue}/$deadletterqueue", max_messages=1)
        for _ in range(2):
            ann.rows(ACCEPT_AND_RELEASE)
    stage.passes(timedelta(minutes=2))
    ann.rows("select from pgqueue.sweep(null)")
    scheduled = ann.value("select pgqueue.schedule('q', '1', pgqueue.clock() + interval '10 days')")
    ann.send("deferred", "dead", "also dead")
    deferred, *dead = ann.receive(3)
    ann.settle("defer", deferred)
    ann.settle_batch("dead_letter_batch", dead, reason="r")
    ann.send_many(20)
    ann.send("limited", queue="limited")
    ann.send("kept", queue="distinct")
    ann.send_many(6, queue="returned")
    for message in ann.receive(3, queue="returned"):
        ann.abandon(message, queue="returned")
    ((_, epoch),) = ann.table("attach_consumer", consumer="c", queue="q")
    ((_, spare_epoch),) = ann.table("attach_consumer", consumer="spare", queue="q")
    ann.rows("select pg_advisory_unlock_all()")
    ann.call("claim_batch", consumer="c", after=0, max_messages=2, epoch=epoch)
    held = "pgqueue.schedule('q', '1', pgqueue.batch_end())"
    return {
        "held": ann.value(f"select {held}"),
        "batch": ann.value(f"select pgqueue.create_batch('q', {held})"),
        "scheduled": scheduled,
        "deferred": deferred.sequence_number,
        "epoch": epoch,
        "spare_epoch": spare_epoch,
        "worker": WORKER,
    }
