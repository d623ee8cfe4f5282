"""Settings, locks and records that a session makes without a right change nothing for others. See docs/security.md."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue import schema
from pgqueue.schema import files
from pgqueue.testing import Database
from pgqueue.testing.database import create_template, created
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer
from tests.sql import sessions
from tests.sql.sessions import SESSION_HELD, accept, accepted
from tests.sql.stage import (
    CONSUMER_IN_USE,
    INVALID_ARGUMENT,
    MESSAGE_NOT_FOUND,
    QUEUE_FULL,
    SECOND,
    Session,
    Stage,
    refused,
    turns_until,
)
from tests.sql.test_schedules import MINUTE, STATE, create, ids, turn

ACCESS_DENIED = "42501"
STORED = "select count(*) from pgqueue.message"
LENGTH = "select current_setting('pgqueue.length_%s')"

#: The settings of a session that functions read, and the test of each: none is believed where it concerns others.
SETTINGS = {
    "pgqueue.length_": "test_a_note_that_a_session_has_forged_does_not_pass_the_bound",
    "pgqueue.scan_": "test_cursors_that_a_session_has_forged_are_its_own",
    "pgqueue.horizon_": "test_cursors_that_a_session_has_forged_are_its_own",
    "pgqueue.turn_": "test_a_turn_that_a_session_claims_to_have_taken_is_taken_by_others",
    "pgqueue.repairing": "test_a_repair_that_a_session_claims_to_do_is_done_by_others",
    "pgqueue.dead_letters_": "test_a_place_that_a_session_has_forged_hides_no_dead_letter",
    "pgqueue.keys_swept_": "test_a_place_that_a_session_has_forged_hides_no_key_from_others",
    "pgqueue.notify": "test_a_message_without_a_notification_is_received",
}


def sources() -> Iterator[tuple[str, str]]:
    for file in sorted((files.folder("sql") / "functions").rglob("*.sql")):
        yield file.stem, re.sub("--.*", "", file.read_text())


def test_no_other_setting_of_a_session_is_believed() -> None:
    by_queue, single = r"'(pgqueue\.(?!full_at)\w+_)'", r"current_setting\('(pgqueue\.\w+)'"
    read = {name for _, text in sources() for rule in (by_queue, single) for name in re.findall(rule, text)}
    assert read == SETTINGS.keys()
    assert set(SETTINGS.values()) <= globals().keys()


def test_a_place_that_a_session_has_forged_hides_no_key_from_others(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", unique_key="k")
        ann.call("purge_queue", queue="q")
        ann.rows("select set_config('pgqueue.keys_swept_' || id, 'z', false) from pgqueue.queue")
        sweep = "select forgotten from pgqueue.sweep(thorough => true)"
        assert (ann.values(sweep), bob.values(sweep)) == ([], [1])


def test_a_place_that_a_session_has_forged_hides_no_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        for session in (ann, bob):
            session.send("dead")
            (message,) = session.receive()
            session.settle("dead_letter", message, reason="r")
            ann.rows(
                "select set_config('pgqueue.dead_letters_' || id, array[second, 999999999]::text, false)"
                "  from pgqueue.queue cross join (select extract(epoch from pgqueue.clock())::bigint) as now (second)"
            )
            assert len(session.rows("select sequence_number from pgqueue.receive_dead_letters('q', 10)")) == 1


@pytest.mark.parametrize("bound", [10, 2000])
def test_a_note_that_a_session_has_forged_does_not_pass_the_bound(database: Database, bound: int) -> None:
    with Stage(database, max_queue_length=bound) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other", max_queue_length=bound)
        ann.send_many(5)
        ann.send("a", queue="other")
        note = "{-1000000000,0,0,-1000000000}"
        of_another_queue = ann.value(LENGTH % 2)
        unkeyed = hashlib.sha256(f"1 {bound} {note}".encode()).hexdigest()
        for forged in (note, f"{note} ", f"{note} {unkeyed}", of_another_queue, note + of_another_queue[-65:]):
            ann.value("select set_config('pgqueue.length_1', %(forged)s, false)", forged=forged)
            with refused(QUEUE_FULL, forged):
                ann.send_many(bound - 2)
        ann.send_many(bound - 5)


def test_a_note_of_a_higher_bound_does_not_pass_a_lower_one(database: Database) -> None:
    with Stage(database, max_queue_length=1_000_000) as stage:
        ann = stage.session("ann")
        ann.send_many(2)
        ann.call("alter_queue", queue="q", max_queue_length=1500)
        ann.send("a")
        short = ann.value(LENGTH % 1)
        ann.call("alter_queue", queue="q", max_queue_length=1_000_000)
        ann.value("select set_config('pgqueue.length_1', %(short)s, false)", short=short)
        ann.send("a")
        assert ann.value(LENGTH % 1).startswith("{3,")  # counted again


def test_a_send_does_not_count_again_after_its_own_count(database: Database) -> None:
    with Stage(database, max_queue_length=1_000_000) as stage:
        ann = stage.session("ann")
        ann.send("a", "b", "c")
        assert re.fullmatch(r"\{0,\d+,\d+,3\} [0-9a-f]{64}", ann.value(LENGTH % 1))


def test_cursors_that_a_session_has_forged_are_its_own(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send("a", "b")
        forged = """
            select set_config('pgqueue.scan_1', array[extract(epoch from pgqueue.clock())::bigint, 2, 2]::text, false),
                   set_config('pgqueue.horizon_1', '{2,2,3,2,3}', false)"""
        for _ in range(3):
            ann.rows(forged)
            assert ann.receive(take_turn=False) == []
            stage.passes(SECOND)
        assert [message.body for message in bob.receive(2)] == ["a", "b"]


def test_a_turn_that_a_session_claims_to_have_taken_is_taken_by_others(database: Database) -> None:
    with sessions.stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send(
            "a", session_id="s", scheduled_enqueue_time=stage.prompter.value("select pgqueue.clock() + '1 second'")
        )
        stage.passes(2 * SECOND)
        ann.rows("select set_config('pgqueue.turn_1', extract(epoch from pgqueue.clock())::text, false)")
        assert [accept(ann), accept(bob)].count(None) == 1


def test_a_repair_that_a_session_claims_to_do_is_done_by_others(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send_many(20)
        turns = "select pgqueue._is_sequence_behind()"
        ann.rows("select setval('pgqueue.sequence_number', 1)")
        ann.rows("set pgqueue.repairing = yes")
        ann.table("sweep")
        assert ann.value(turns)
        while bob.value(turns):
            bob.table("sweep")


def test_a_message_without_a_notification_is_received(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.rows("set pgqueue.notify = off")
        ann.send("a")
        assert [message.body for message in bob.receive()] == ["a"]


@contextmanager
def lock_of_a_stranger(stage: Stage, key: str) -> Iterator[None]:
    """A role without any right holds an advisory lock."""
    stranger, role = stage.session("stranger"), f"test_{uuid4().hex[:12]}"
    stranger.rows(f"create role {role}")
    stranger.rows(f"set role {role}")
    stranger.rows("select pg_advisory_lock(hashtextextended(%(key)s, 0))", key=key)
    yield
    stranger.rows("reset role")
    stranger.rows(f"drop role {role}")


def test_advisory_locks_are_taken_for_consumers_only() -> None:
    takers = {name for name, text in sources() if re.search(r"pg_(try_)?advisory_(xact_)?lock|'advisory'", text)}
    assert takers == {"attach_consumer", "_is_attached"}


@pytest.mark.parametrize("named", ["s", None])
def test_a_stranger_cannot_block_a_session(database: Database, named: str | None) -> None:
    with sessions.stage_of(database) as stage, lock_of_a_stranger(stage, "pgqueue.session 1 s"):
        ann = stage.session("ann")
        ann.send("a", session_id="s")
        accepted(ann, named)


def test_a_stranger_cannot_block_maintenance(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        ann.send("a")
        ann.receive()
        stage.passes(MINUTE)
        with lock_of_a_stranger(stage, "pgqueue.sweep"):
            assert len(ann.table("sweep")) == 1
        with lock_of_a_stranger(stage, "pgqueue.take_sample"):
            assert ann.call("take_sample") == 1
        ann.rows("select setval('pgqueue.sequence_number', 1, false)")
        with lock_of_a_stranger(stage, "pgqueue._repair_sequence"):
            for _ in range(2):
                ann.table("sweep")
            assert not ann.value("select pgqueue._is_sequence_behind()")


def test_a_stranger_cannot_block_publishing(database: Database) -> None:
    with Stage(database) as stage, lock_of_a_stranger(stage, "pgqueue.publish q job 0"):
        ann = stage.session("ann")
        staged = ann.call("stage", queue="q", job="job", part="0", columns=["body"])
        ann.table("publish", queue="q", staged=[staged], rows=0, publisher="job", part=0)


def test_a_stranger_cannot_block_a_consumer(database: Database) -> None:
    with Stage(database) as stage, lock_of_a_stranger(stage, "pgqueue.consumer ledger"):
        stage.session("ledger").table("attach_consumer", consumer="ledger", queue="q")


def test_of_two_who_attach_at_once_one_works_for_the_consumer(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        ann.table("attach_consumer", consumer="ledger", queue="q")
        attaching = bob.starts(lambda: bob.table("attach_consumer", consumer="ledger", queue="q"))
        ann.commit()
        with refused(CONSUMER_IN_USE):
            attaching.result()


def test_one_takes_samples_at_a_time(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        assert ann.call("take_sample") == 1
        assert bob.call("take_sample") == 0
        ann.commit()


def test_a_stranger_who_takes_over_the_lock_of_a_session_that_ends_is_no_consumer(database: Database) -> None:
    with Stage(database) as stage:
        ledger, stranger, other = stage.sessions("ledger", "stranger", "other")
        ledger.table("attach_consumer", consumer="ledger", queue="q")
        key = stranger.value(
            """select (classid::bigint << 32) | objid::bigint
                 from pg_locks where locktype = 'advisory' and pid = %(pid)s""",
            pid=ledger.connection.info.backend_pid,
        )
        taking_over = stranger.starts(lambda: stranger.rows("select pg_advisory_lock(%(key)s)", key=key))
        with refused(CONSUMER_IN_USE):
            other.table("attach_consumer", consumer="ledger", queue="q")
        ledger.connection.close()
        taking_over.result()
        other.table("attach_consumer", consumer="ledger", queue="q")


def test_locks_on_the_tables_take_a_right(database: Database) -> None:
    with Stage(database) as stage:
        stranger, role = stage.session("stranger"), f"test_{uuid4().hex[:12]}"
        stranger.rows(f"create role {role}")
        for table in ("sweep_lock", "sample_lock", "repair_lock", "publishing_lock", "secret"):
            for attempt in (f"lock table pgqueue.{table} in access share mode", f"select from pgqueue.{table}"):
                stranger.begin()
                stranger.rows(f"set local role {role}")
                with refused(ACCESS_DENIED, attempt):
                    stranger.rows(attempt)
                stranger.rollback()
        stranger.rows(f"drop role {role}")


def test_of_two_who_create_a_session_one_gives_up(database: Database) -> None:
    with sessions.stage_of(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        accepted(ann, "s")
        bob.rows("set lock_timeout = 0; set statement_timeout = '5s'")
        with refused(SESSION_HELD):
            accept(bob, "s")
        ann.commit()


@contextmanager
def as_a_login(session: Session, *grants: str) -> Iterator[str]:
    """The session is one of a role that has logged in, with these rights."""
    role = f"test_{uuid4().hex[:12]}"
    session.rows(f"create role {role}")
    for grant in grants:
        session.rows(grant.format(role=role))
    session.rows(f"set session authorization {role}")
    yield role
    session.rows("reset session authorization")
    session.rows(f"drop owned by {role}")
    session.rows(f"drop role {role}")


SENDER = "select pgqueue.grant_send('q', '{role}')"
RECEIVER = "select pgqueue.grant_receive('q', '{role}')"
MONITOR = "select pgqueue.grant_monitor('{role}')"
RECORDED = "select action from pgqueue.audited_action"


@pytest.mark.parametrize("action", ["send", "resubmit", "purge", "anything"])
def test_a_sender_writes_nothing_into_the_audit_log(database: Database, action: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for grants in ((SENDER,), (SENDER, RECEIVER)):
            with as_a_login(ann, *grants), refused(ACCESS_DENIED, grants):
                ann.call("record_action", action=action, queue="q")
        assert stage.prompter.values(RECORDED) == []


def test_an_action_is_recorded_by_those_who_may_do_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for grants, may in (
            ((MONITOR,), set()),
            ((MONITOR, SENDER), {"send", "cancel", "reschedule"}),
            ((MONITOR, RECEIVER), {"resubmit"}),
        ):
            with as_a_login(ann, *grants):
                for action in ("send", "cancel", "reschedule", "resubmit", "purge", "pause", "anything"):
                    if action in may:
                        ann.call("record_action", action=action, queue="q")
                    else:
                        with refused(ACCESS_DENIED, action):
                            ann.call("record_action", action=action, queue="q")
        ann.call("record_action", action="anything", queue="q")
        recorded = ["send", "cancel", "reschedule", "resubmit", "anything"]
        assert stage.prompter.values(f"{RECORDED} order by id") == recorded


def test_entries_of_the_audit_log_are_short_and_kept_a_year(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(INVALID_ARGUMENT):
            ann.call("record_action", action="send", queue="q", details=Jsonb({"numbers": ["x" * 40_000]}))
        for action in ("x" * 101, "", None):
            with refused(INVALID_ARGUMENT):
                ann.call("record_action", action=action, queue="q")
        ann.call("record_action", action="send", queue="q", details=Jsonb({"numbers": [2**62] * 1000}))
        stage.passes(timedelta(days=200))
        ann.call("record_action", action="pause", queue="q")
        stage.passes(timedelta(days=167))
        assert len(ann.table("sweep", dry_run=True)) == 1
        assert len(ann.values(RECORDED)) == 2
        ann.table("sweep")
        assert ann.values(RECORDED) == ["pause"]


def test_a_sender_cannot_reschedule_or_cancel_a_delivered_message(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        at = stage.prompter.value("select pgqueue.clock() + '1 hour'")
        retries = []
        for verb in ("abandon", "postpone"):
            ann.send(verb)
            (received,) = ann.receive()
            ann.settle(verb, received, delay=MINUTE)
            retries.append(received.sequence_number)
        ann.call("create_queue", queue="ordered", requires_session=True)
        ann.send("moved", session_id="s")
        (received,) = ann.receive()
        ann.abandon(received, delay=MINUTE)
        ann.call("move_messages", queue="q", sequence_numbers=[received.sequence_number], to="ordered")
        sent = [ann.send(1, scheduled_enqueue_time=at)[0] for _ in range(2)]
        with as_a_login(ann, SENDER, SENDER.replace("'q'", "'ordered'")):
            for number in retries:
                with refused(MESSAGE_NOT_FOUND):
                    ann.call("reschedule", queue="q", sequence_number=number, at=at)
                with refused(MESSAGE_NOT_FOUND):
                    ann.call("cancel_scheduled", queue="q", sequence_numbers=[sent[0], number])
            ann.call("reschedule", queue="q", sequence_number=sent[0], at=at)
            assert ann.call("cancel_scheduled", queue="q", sequence_numbers=sent) == 2
            with refused(MESSAGE_NOT_FOUND):
                ann.call("reschedule", queue="ordered", sequence_number=received.sequence_number, at=at)
        with as_a_login(ann, SENDER, RECEIVER):
            ann.call("reschedule", queue="q", sequence_number=retries[0], at=at)
            assert ann.call("cancel_scheduled", queue="q", sequence_numbers=retries) == 2


def test_a_sender_can_cancel_a_scheduled_message_of_a_session(database: Database) -> None:
    with sessions.stage_of(database) as stage:
        ann = stage.session("ann")
        with as_a_login(ann, SENDER):
            (number,) = ann.send("a", session_id="s", scheduled_enqueue_time="2099-01-01")
            assert ann.call("cancel_scheduled", queue="q", sequence_numbers=[number]) == 1


def test_a_view_of_a_stranger_opens_no_function(empty_database: Database) -> None:
    role = f"test_{uuid4().hex[:12]}"
    schema.migrate(empty_database.dsn)
    with empty_database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}; create schema {role} authorization {role}".encode())
        connection.execute(f"set role {role}".encode())
        connection.execute(f"create view {role}.opened as select pgqueue._forget_workers(true) as workers".encode())
        connection.execute("reset role")
        is_open = "select has_function_privilege('public', '{}', 'execute')"
        for _ in range(2):
            connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")
            schema.migrate(empty_database.dsn)
            (internal,) = connection.execute(
                "select oid::regprocedure::text from pg_proc where proname = '_forget_workers'"
            )
            assert connection.execute(is_open.format(internal[0]).encode()).fetchone() == (False,)
            assert connection.execute(is_open.format("pgqueue._may_see_messages(text[])").encode()).fetchone() == (
                True,
            )
        connection.execute(f"drop schema {role} cascade; drop role {role}".encode())


class Narrow(ThrowawayServer):
    """Its queue of notifications has the least room."""

    def __init__(self) -> None:
        super().__init__(binaries())
        self.settings |= {"max_notify_queue_pages": "64"}


@pytest.fixture
def narrow(database: Database) -> Iterator[Database]:
    with database.connect() as connection:
        if connection.info.server_version < 170000:
            pytest.skip("before PostgreSQL 17 it takes 8 GB of notifications to fill their queue")
    server = Narrow()
    server.create()
    server.start()
    try:
        with created(server.dsn(), create_template(server.dsn())) as database_there:
            yield database_there
    finally:
        server.remove()


def fills(session: Session) -> bool:
    """Whether the queue of notifications still had room for these."""
    try:
        session.rows("select pg_notify('x', repeat('x', 7000))")
    except psycopg.errors.OperationalError:
        return False
    return True


def test_a_full_queue_of_notifications_fails_no_send(narrow: Database) -> None:
    with Stage(narrow) as stage:
        ann, idle, stranger = stage.sessions("ann", "idle", "stranger")
        idle.begin()
        idle.rows("listen x")
        idle.commit()
        idle.begin()
        idle.value("select 1")
        ann.table("_subscribe", queues=["q"], lasts=timedelta(hours=1))
        while fills(stranger):
            pass
        with pytest.raises(psycopg.errors.OperationalError, match="too many notifications"):
            stranger.rows("select pg_notify('x', repeat('x', 7000))")
        ann.send("a")
        ann.send_many(3)
        assert len(ann.receive(4)) == 4
        idle.rollback()


RAISES = """
create function public.refuse() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    raise exception 'no message on mondays' using errcode = {state};
end
$$;
create trigger refuse before {event} on pgqueue.{table} for each row execute function public.refuse();
"""


def refuse(stage: Stage, table: str, event: str, state: str) -> None:
    stage.prompter.rows(RAISES.format(table=table, event=event, state=f"'{state}'"))


@pytest.mark.parametrize("state", ["P0001", "23505", "40P01", "53100", "PQ002"])
def test_an_error_while_a_schedule_fires_is_recorded(database: Database, state: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send("a", queue="another")
        create(ann)
        stage.passes(MINUTE)
        refuse(stage, "message", "insert", state)
        assert [message.body for message in ann.receive(queue="another")] == ["a"]
        assert ann.rows(STATE)[0][-1] == "no message on mondays"
        stage.prompter.rows("drop trigger refuse on pgqueue.message")
        assert not turn(ann)
        stage.passes(10 * SECOND)
        assert turn(ann)
        assert ann.values("select message_id from pgqueue.messages where queue = 'q'") == ids(1)


def test_a_schedule_that_cannot_be_updated_stops_no_receive(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send("a", queue="another")
        create(ann)
        stage.passes(MINUTE)
        refuse(stage, "schedule", "update", "P0001")
        assert [message.body for message in ann.receive(queue="another")] == ["a"]
        assert ann.values("select message_id from pgqueue.messages where queue = 'q'") == []


def test_an_error_of_the_sequence_while_a_schedule_fires_is_repaired(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        ann.send_many(5)
        create(ann)
        stage.passes(MINUTE)
        ann.rows("select setval('pgqueue.sequence_number', 2)")
        turns_until(stage, ann, lambda: ann.value(STORED) == 6, queue="another")
        assert not ann.value("select pgqueue._is_sequence_behind()")
        assert ann.rows(STATE)[0][-1] is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_firing_takes_no_multixact(database: Database, fails: bool) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann)
        stage.passes(MINUTE)
        if fails:
            ann.call("alter_queue", queue="q", status="SEND_DISABLED")
        ann.begin()
        assert turn(ann) is not fails
        outdated: Any = bob.value("select xmax::text from pgqueue.schedule")
        assert bob.value("select pg_xact_status(%(outdated)s::xid8)", outdated=outdated) == "in progress"
        ann.commit()
