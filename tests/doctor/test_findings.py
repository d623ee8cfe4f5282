"""Every finding, provoked on a real database: its text, its age, and that its remedy works."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine

from pgqueue import Message, schema
from pgqueue.doctor import Finding, examine, thresholds
from pgqueue.doctor.checks import schema as schema_checks
from pgqueue.doctor.checks import server
from pgqueue.doctor.registry import CHECKS, INVARIANTS, NOT_INSTALLED
from pgqueue.schema import files, revisions
from pgqueue.testing import Database, ThrowawayServer
from pgqueue.testing.database import create
from pgqueue.testing.hosts import binaries
from tests.doctor.scene import MINUTE, Scene, findings_of
from tests.patience import eventually
from tests.quiet import QuietServer
from tests.schema.test_script import run as run_script

NO_TIME = timedelta(0)
DAY = timedelta(days=1)

Provoke = Callable[[Scene], None]

#: The function that provokes each check, and part of the finding's text.
PROVOKED: list[tuple[str, Provoke, str]] = []


def provokes(check: str, said: str) -> Callable[[Provoke], Provoke]:
    def add(provoke: Provoke) -> Provoke:
        PROVOKED.append((check, provoke, said))
        return provoke

    return add


@provokes("schema-version", "needs 00")
def an_older_schema(scene: Scene) -> None:
    scene.run("drop schema pgqueue cascade", "drop schema pgqueue_history cascade")
    engine = create_engine(scene.database.url)
    with engine.begin() as connection:
        revisions.upgrade(connection, files.revisions()[-2])
    engine.dispose()


@provokes("sequence-behind", "The sequence of pgqueue.queue is behind")
def a_switch_to_a_logical_replica(scene: Scene) -> None:
    scene.run("alter table pgqueue.queue alter id restart with 1")


@provokes("schema-version", "at revision 9999_future; this version of pgqueue knows")
def a_newer_schema(scene: Scene) -> None:
    scene.run("update pgqueue.alembic_version set version_num = '9999_future'")


@provokes("schema-version", "functions in the database are those of another version")
def functions_of_another_version(scene: Scene) -> None:
    scene.run("update pgqueue.installation set definitions_digest = 'another'")


@provokes("changed-functions", "receive has been changed")
def a_function_with_other_settings(scene: Scene) -> None:
    scene.run("alter function pgqueue.receive reset enable_sort")


@provokes("changed-functions", "sweep has been changed")
def a_function_with_another_body(scene: Scene) -> None:
    scene.run("update pg_proc set prosrc = replace(prosrc, 'begin', 'begin null;') where proname = 'sweep'")


@provokes("changed-functions", "unlock is missing")
def a_function_that_is_gone(scene: Scene) -> None:
    scene.run("drop function pgqueue.unlock")


@provokes("missing-index", "index message_expiry is not built")
def an_index_that_is_gone(scene: Scene) -> None:
    scene.run("drop index pgqueue.message_expiry")


@provokes("missing-index", "index message_expiry is not built")
def an_index_whose_build_was_broken_off(scene: Scene) -> None:
    scene.run("update pg_index set indisvalid = false where indexrelid = 'pgqueue.message_expiry'::regclass")


@provokes("claim-plan", "but run: ")
def a_primary_key_that_cannot_be_used(scene: Scene) -> None:
    scene.run("update pg_index set indisvalid = false where indexrelid = 'pgqueue.message_pkey'::regclass")


@provokes("missing-rights", "Not every role may use the schema pgqueue.")
def a_schema_that_is_closed(scene: Scene) -> None:
    scene.run("revoke usage on schema pgqueue from public")


@provokes("missing-rights", "Not every role may call pgqueue.send.")
def a_verb_that_is_closed(scene: Scene) -> None:
    scene.run("revoke execute on function pgqueue.send from public")


@provokes("missing-rights", "Not every role may read pgqueue.queues.")
def a_view_that_is_closed(scene: Scene) -> None:
    scene.run("revoke select on pgqueue.queues from public")


@provokes("missing-rights", "pgqueue.message belongs to postgres, not to pgqueue_owner as its schema does.")
def a_table_of_somebody_else(scene: Scene) -> None:
    scene.run("alter table pgqueue.message owner to postgres")


@provokes("lost-role", "may SEND for queue orders, but there is no such role any more")
def a_role_that_was_dropped(scene: Scene) -> None:
    role = f"test_{uuid4().hex[:12]}"
    scene.run(f"create role {role}", f"select pgqueue.grant_send('orders', '{role}')", f"drop role {role}")


@provokes("no-receivers", "Queue orders has no receivers.")
def messages_that_nobody_receives(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.passes(6 * MINUTE)


@provokes("no-receivers", "Queue orders has no receivers.")
def scheduled_messages_whose_time_has_come(scene: Scene) -> None:
    scene.orders.schedule(Message(1), at=scene.database.clock.now() + MINUTE)
    scene.passes(7 * MINUTE)


@provokes("no-receivers", "Queue orders has the status RECEIVE_DISABLED.")
def a_queue_that_was_closed(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.client.update_queue("orders", status="RECEIVE_DISABLED")
    scene.passes(6 * MINUTE)


@provokes("no-receivers", "Queue orders is paused.")
def a_queue_that_was_paused(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.client.pause_queue("orders")
    scene.passes(6 * MINUTE)


@provokes("no-receivers", "Queue orders forwards to queue parcels, which has no receivers.")
def a_queue_that_forwards_what_it_had(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.client.create_queue("parcels")
    scene.client.update_queue("orders", forward_to="parcels")
    scene.passes(6 * MINUTE)


@provokes("no-receivers", "Queue steps has no receivers.")
def a_session_that_nobody_accepts(scene: Scene) -> None:
    scene.client.create_queue("steps", requires_session=True)
    scene.client.queue("steps").send(Message(1, session_id="a"))
    scene.passes(6 * MINUTE)


@provokes("expired-locks", "In queue orders locks have expired")
def locks_of_a_dead_consumer(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.orders.receive(lock_duration=MINUTE)
    scene.passes(7 * MINUTE)


@provokes("missing-worker", "The worker host:7 of orders is missing: it was killed")
def a_worker_that_was_killed(scene: Scene) -> None:
    scene.run("select pgqueue.heartbeat(gen_random_uuid(), 'host', 7, '1.0', '{orders}', 8)")
    scene.passes(6 * MINUTE)


def test_a_missing_worker_whose_queues_others_serve_is_only_removed(scene: Scene) -> None:
    scene.client.create_queue("parcels")
    scene.run("select pgqueue.heartbeat(gen_random_uuid(), 'host', 7, '1.0', '{orders,parcels}', 8)")
    scene.passes(6 * MINUTE)
    scene.run("select pgqueue.heartbeat(gen_random_uuid(), 'host', 8, '1.0', '{orders}', 8)")
    (finding,) = findings_of(scene.database, "missing-worker")
    assert (finding.cost, finding.mend) == (
        "No other worker serves parcels.",
        "pgqueue worker MODULE:HANDLER parcels",
    )
    scene.run("select pgqueue.heartbeat(gen_random_uuid(), 'host', 9, '1.0', '{parcels}', 8)")
    (finding,) = findings_of(scene.database, "missing-worker")
    assert finding.cost == "Others serve its queues."
    scene.run(finding.mend)
    assert findings_of(scene.database, "missing-worker") == []


@provokes("full-queue", "Queue orders is full: it holds 3 messages, and 3 are allowed.")
def a_queue_at_its_bound(scene: Scene) -> None:
    scene.client.update_queue("orders", max_queue_length=3)
    scene.orders.send_batch([Message(number) for number in range(2)])
    assert findings_of(scene.database, "full-queue") == []
    scene.orders.schedule(Message(3), at=datetime.now(UTC) + DAY)


@provokes("dead-letters", "has 12 new dead letters within an hour")
def many_dead_letters(scene: Scene) -> None:
    dead_letter(scene, 12)


@provokes("dead-letters", "has 100 or more new dead letters within an hour")
def very_many_dead_letters(scene: Scene) -> None:
    dead_letter(scene, 120)


def dead_letter(scene: Scene, count: int) -> None:
    scene.orders.send_batch([Message(number) for number in range(count)])
    for received in scene.orders.receive(max_messages=count):
        received.dead_letter("Unreadable")


@provokes(
    "old-transaction",
    "nightly) has a transaction open, idle in transaction: `insert into pgqueue_testing.x values (1)`.",
)
def a_transaction_that_was_left_open(scene: Scene) -> None:
    scene.run("create table pgqueue_testing.x (n integer)")
    scene.session(application_name="nightly").execute("insert into   pgqueue_testing.x\nvalues (1)")
    scene.allow(OLD_TRANSACTION=NO_TIME)


@provokes("old-transaction", "idle in transaction: `select 1`.")
def a_snapshot_that_was_left_open(scene: Scene) -> None:
    session = scene.session()
    session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    session.execute("select 1")
    scene.allow(OLD_TRANSACTION=NO_TIME)


def test_the_remedy_for_a_transaction_does_not_end_the_next_one_of_its_session(scene: Scene) -> None:
    a_snapshot_that_was_left_open(scene)
    (finding,) = findings_of(scene.database, "old-transaction")
    assert "at work" not in finding.cost
    session = scene.session()
    session.execute("create table pgqueue_testing.x (n integer)")
    (_, finding) = findings_of(scene.database, "old-transaction")
    session.rollback()
    session.execute("create table pgqueue_testing.x (n integer)")
    scene.run(finding.mend)
    session.commit()


def test_a_session_at_work_may_be_a_backup(scene: Scene) -> None:
    scene.run("create table pgqueue_testing.x (n integer)")
    scene.session().execute("lock table pgqueue_testing.x")
    scene.session().pgconn.send_query(b"create table pgqueue_testing.y (n integer); lock table pgqueue_testing.x")
    scene.allow(OLD_TRANSACTION=NO_TIME)
    eventually(
        lambda: [
            each for each in findings_of(scene.database, "old-transaction") if "wait if it is a backup" in each.cost
        ]
    )


@provokes("prepared-transaction", 'has prepared the transaction "it\'s me"')
def a_prepared_transaction(scene: Scene) -> None:
    prepare(scene, "it's me")
    scene.allow(OLD_TRANSACTION=NO_TIME)


def prepare(scene: Scene, name: str) -> None:
    quoted = name.replace("'", "''")
    scene.run(
        "begin; set local pgqueue.notify = off; select pgqueue.send('orders', '1'); prepare transaction '"
        + quoted
        + "'"
    )
    scene.open.callback(roll_back, scene, quoted)


def roll_back(scene: Scene, quoted: str) -> None:
    with suppress(psycopg.errors.UndefinedObject):
        scene.run(f"rollback prepared '{quoted}'")


def pass_an_open_transaction(scene: Scene) -> psycopg.Connection[object]:
    slow = scene.session()
    slow.execute("select pgqueue.send('orders', '\"late\"')")
    take_turns(scene)
    return slow


def take_turns(scene: Scene) -> None:
    scene.orders.send(Message("in between"))
    for _ in range(3):
        scene.passes(timedelta(seconds=2))
        scene.orders.receive(max_messages=9)


@provokes("awaited-transaction", "Queue orders awaits the end of transaction")
def a_sender_that_does_not_commit(scene: Scene) -> None:
    pass_an_open_transaction(scene)
    scene.allow(OLD_TRANSACTION=NO_TIME)


@provokes("no-receivers", "Queue orders has no receivers.")
def a_sender_that_has_committed_when_nobody_received_any_more(scene: Scene) -> None:
    pass_an_open_transaction(scene).commit()
    scene.passes(6 * MINUTE)


@provokes("awaited-transaction", "prepared as 'two'")
def a_sender_that_was_prepared(scene: Scene) -> None:
    prepare(scene, "two")
    take_turns(scene)
    scene.allow(OLD_TRANSACTION=NO_TIME)


@provokes("autovacuum-off", "pgqueue.message has autovacuum_enabled = off")
def a_table_without_autovacuum(scene: Scene) -> None:
    scene.run("alter table pgqueue.message set (autovacuum_enabled = off)")


@provokes("wraparound", "transaction ids that are")
def old_transaction_ids(scene: Scene) -> None:
    scene.allow(OLDEST_ID=1)


def test_a_database_that_refuses_connections_has_to_be_opened_to_freeze_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "OLDEST_ID", 1)
    mends = {
        finding.what.split()[1]: finding.mend
        for result in examine(database.direct).results
        for finding in result.findings
        if result.check == "wraparound"
    }
    assert mends["template0"].startswith("alter database template0 with allow_connections true;")
    assert mends["postgres"].startswith("vacuum (freeze);")


@provokes("connections", "of the 1 connections of database")
def a_database_that_is_full(scene: Scene) -> None:
    scene.run(f"alter database {scene.database.name} connection limit 1")


@provokes("connections", "of the server are taken")
def a_server_that_is_full(scene: Scene) -> None:
    scene.allow(CONNECTIONS=0.001)


@provokes("connections", "of the 1 connections of role")
def a_role_without_connections_left(scene: Scene) -> None:
    role = f"test_{uuid4().hex[:12]}"
    scene.run(f"create role {role} login connection limit 1")
    session = scene.session(user=role)
    scene.open.callback(scene.run, f"drop role {role}")
    scene.open.callback(session.close)


@provokes("read-only", "Transactions are read-only by default.")
def a_database_that_is_read_only(scene: Scene) -> None:
    scene.run(f"alter database {scene.database.name} set default_transaction_read_only = on")


@provokes("clock", "This machine's clock is 60 s behind the database's.")
def a_clock_that_is_behind(scene: Scene) -> None:
    scene.passes(MINUTE)


@provokes("clock", "This machine's clock is 60 s ahead of the database's.")
def a_clock_that_is_ahead(scene: Scene) -> None:
    scene.passes(-MINUTE)


def recur(scene: Scene) -> None:
    scene.client.create_schedule(
        "nightly", queue="orders", message=Message(1), cron="30 2 * * *", timezone="Europe/Zurich"
    )


@provokes("time-zone", "does not know the time zone Mars/Olympus, in which schedules of orders recur.")
def a_time_zone_that_is_not_known_here(scene: Scene) -> None:
    recur(scene)
    scene.run("update pgqueue.schedule set timezone = 'Mars/Olympus'")


@provokes("time-zone", "The time zone Europe/Zurich is 0:00:00 from UTC here")
def a_time_zone_with_other_rules_here(scene: Scene) -> None:
    recur(scene)
    scene.thresholds.setattr(server, "zone", lambda _: UTC)


@provokes("late-schedule", "A schedule of queue orders was due")
def a_schedule_that_nobody_fires(scene: Scene) -> None:
    scene.run("select pgqueue.create_schedule('often', 'orders', every => '1 minute', body => '1')")
    scene.passes(10 * MINUTE)


@provokes("late-schedule", "A schedule of queue orders was due, or its due times were to be computed")
def a_schedule_that_nobody_has_planned(scene: Scene) -> None:
    scene.run("select pgqueue.create_schedule('often', 'orders', cron => '* * * * *', body => '1')")
    scene.passes(10 * MINUTE)


@provokes("open-batch", "was never closed.")
def a_sender_that_closes_no_batch(scene: Scene) -> None:
    scene.client.create_batch(then=Message("then"), to="orders")
    scene.passes(2 * DAY)


@provokes("failing-schedule", "Schedule often of queue orders fails: queue orders has the status SEND_DISABLED.")
def a_schedule_that_its_queue_refuses(scene: Scene) -> None:
    scene.run("select pgqueue.create_schedule('often', 'orders', every => '1 minute', body => '1')")
    scene.client.update_queue("orders", status="SEND_DISABLED")
    scene.passes(2 * MINUTE)
    scene.client.sweep()


@provokes("unswept-records", "1 queue, orders for one, should have forgotten message ids or effects")
def message_ids_that_nobody_has_swept(scene: Scene) -> None:
    scene.client.update_queue("orders", requires_duplicate_detection=True)
    scene.orders.send(Message(1, message_id="one"))
    scene.passes(2 * DAY)


@provokes("unswept-records", "1 queue, orders for one, should have forgotten message ids or effects")
def effects_that_nobody_has_swept(scene: Scene) -> None:
    scene.run("select pgqueue.record_effect('orders', 'key', 'effect')")
    scene.passes(100 * DAY)


@provokes("unswept-history", "1 day of history, 0.0 MB, that no queue retains")
def history_that_nobody_has_swept(scene: Scene) -> None:
    scene.client.update_queue("orders", retain_history=MINUTE)
    scene.orders.send(Message(1))
    scene.orders.receive()[0].complete()
    scene.passes(5 * DAY)


@provokes("broken-invariants", "of queue orders has a holder without a token.")
def a_rule_that_somebody_has_broken(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.run("update pgqueue.message set locked_by = 'x'")


def test_the_remedy_for_expired_locks_of_a_paused_queue_is_to_resume_it(scene: Scene) -> None:
    locks_of_a_dead_consumer(scene)
    scene.client.pause_queue("orders")
    (finding,) = findings_of(scene.database, "expired-locks")
    assert finding.mend == "pgqueue queue resume orders"


@pytest.mark.parametrize(
    ("check", "provoke", "said"), PROVOKED, ids=[f"{check}: {provoke.__name__}" for check, provoke, _ in PROVOKED]
)
def test_a_provoked_fault_is_found(request: pytest.FixtureRequest, check: str, provoke: Provoke, said: str) -> None:
    scene: Scene = request.getfixturevalue("quiet_scene" if check in OF_THE_WHOLE_SERVER else "scene")
    invariants = check == INVARIANTS.name
    assert findings_of(scene.database, check, invariants=invariants) == []
    provoke(scene)
    findings = findings_of(scene.database, check, invariants=invariants)
    assert said in " ".join(finding.what for finding in findings)
    if mend(scene, check, findings):
        assert findings_of(scene.database, check, invariants=invariants) == []


#: Checks that find what other tests do, too, and whose remedy would end it.
OF_THE_WHOLE_SERVER = {"awaited-transaction"}

#: Commands in SQL that bring no remedy by themselves: they show who it is, or take effect later, or concern others.
NO_REMEDY = {"connections", "read-only", "wraparound", "broken-invariants"}


def mend(scene: Scene, check: str, findings: list[Finding]) -> bool:
    """Apply the remedies of the findings, where a test can."""
    for command in {finding.mend for finding in findings}:
        match command:
            case _ if check in NO_REMEDY:
                return False
            case "pgqueue migrate":
                schema.migrate(scene.database.direct)
            case "pgqueue sweep":
                scene.client.sweep()
            case schema_checks.INSTALL_AGAIN:
                run_script(scene.database, schema.script(scene.database.direct))
            case _ if command.startswith(("pgqueue ", "pip ", "timedatectl ")):
                return False
            case _:
                scene.run(command)
    return True


@pytest.mark.core
def test_every_check_is_provoked() -> None:
    here = {check for check, _, _ in PROVOKED} | PROVOKED_BELOW
    assert here == {check.name for check in (NOT_INSTALLED, *CHECKS, INVARIANTS)}


#: Checks that need a server of their own, or none: `pgbouncer` is in tests/pgbouncer.
PROVOKED_BELOW = {"not-installed", "bloat", "autovacuum-behind", "replication-slot", "pgbouncer"}


def test_a_database_without_pgqueue(empty_database: Database) -> None:
    (result,) = examine(empty_database.direct).results
    assert [finding.what for finding in result.findings] == [
        f"pgqueue is not installed in database {empty_database.name}."
    ]


def fill_and_empty(scene: Scene) -> None:
    body = "to_jsonb(repeat('x', 500))"
    scene.run(
        f"select pgqueue.send_batch('orders', array_fill({body}, array[500])) from generate_series(1, 10)",
        "delete from pgqueue.message",
    )


def test_a_transaction_of_another_database_is_awaited_in_vain(quiet_scene: Scene, quiet_server: QuietServer) -> None:
    with quiet_server.database() as elsewhere, elsewhere.connect() as slow:
        slow.execute("create table held (n integer)")
        take_turns(quiet_scene)
        quiet_scene.allow(OLD_TRANSACTION=NO_TIME)
        (finding,) = findings_of(quiet_scene.database, "awaited-transaction")
        assert f"in database {elsewhere.name})" in finding.what
        assert finding.cost.startswith("It can have sent nothing,")
        assert f"where pid = {slow.info.backend_pid} and backend_xid = '" in finding.mend


def test_a_transaction_that_was_prepared_in_another_database_is_ended_there(
    quiet_scene: Scene, quiet_server: QuietServer
) -> None:
    with quiet_server.database() as elsewhere, elsewhere.connect(autocommit=True) as other:
        other.execute("begin; create table held (n integer); prepare transaction 'it''s theirs'")
        try:
            take_turns(quiet_scene)
            quiet_scene.allow(OLD_TRANSACTION=NO_TIME)
            (finding,) = findings_of(quiet_scene.database, "awaited-transaction")
            program, option, database, command, statement = shlex.split(finding.mend)
            assert (program, option, database, command) == ("psql", "-d", elsewhere.name, "-c")
            other.execute(statement.encode())
            assert findings_of(quiet_scene.database, "awaited-transaction") == []
        finally:
            with suppress(psycopg.errors.UndefinedObject):
                other.execute("rollback prepared 'it''s theirs'")


def test_bloat(quiet_scene: Scene) -> None:
    quiet_scene.allow(BLOATED_SIZE=100_000, BLOATED_ENTRY=100)
    fill_and_empty(quiet_scene)
    quiet_scene.run("analyze pgqueue.message")
    findings = findings_of(quiet_scene.database, "bloat")
    assert {finding.what.split()[0] for finding in findings} == {"pgqueue.message", "pgqueue.message_pkey"}
    mend(quiet_scene, "bloat", findings)
    assert findings_of(quiet_scene.database, "bloat") == []


def test_tables_that_autovacuum_does_not_reach_are_found(quiet_scene: Scene) -> None:
    quiet_scene.allow(DEAD_ROWS=1, UNVACUUMED=timedelta(days=1))  # the server has run for a while
    fill_and_empty(quiet_scene)
    assert findings_of(quiet_scene.database, "autovacuum-behind") == [], "it may come yet"
    quiet_scene.allow(UNVACUUMED=NO_TIME)
    eventually(
        lambda: bool(findings_of(quiet_scene.database, "autovacuum-behind"))
    )  # sessions report what they did late
    (finding,) = findings_of(quiet_scene.database, "autovacuum-behind")
    assert finding.what == "pgqueue.message has 5,000 dead rows; autovacuum was to begin at 2,000."
    mend(quiet_scene, "autovacuum-behind", [finding])
    eventually(lambda: findings_of(quiet_scene.database, "autovacuum-behind") == [])


def test_a_server_without_autovacuum(quiet_scene: Scene) -> None:
    (finding,) = findings_of(quiet_scene.database, "autovacuum-off")
    assert (finding.what, finding.mend) == (
        "Autovacuum is off: autovacuum = off.",
        "alter system set autovacuum = on; select pg_reload_conf();",
    )


def test_an_unread_replication_slot_is_found(
    throwaway_server: ThrowawayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(throwaway_server.dsn(), autocommit=True) as connection:
        connection.execute("alter system set wal_level = logical")
        connection.execute("alter system set max_wal_senders = 2")
    throwaway_server.restart()
    database = create(throwaway_server.dsn())
    schema.migrate(database.dsn)
    scene = Scene(database, monkeypatch)
    with scene.open:
        scene.run("select pg_create_logical_replication_slot('analytics', 'pgoutput')")
        assert findings_of(database, "replication-slot") == []
        scene.allow(OLD_SLOT=-1)
        (finding,) = findings_of(database, "replication-slot")
        assert "The replication slot 'analytics', without a reader, is" in finding.what
        mend(scene, "replication-slot", [finding])
        assert findings_of(database, "replication-slot") == []


@pytest.mark.parametrize("slot", ["standby", ""])
def test_no_remedy_drops_the_slot_of_a_standby_that_reads_it(
    throwaway_server: ThrowawayServer, monkeypatch: pytest.MonkeyPatch, slot: str
) -> None:
    with psycopg.connect(throwaway_server.dsn(), autocommit=True) as connection:
        connection.execute("alter system set wal_level = replica")
        connection.execute("alter system set max_wal_senders = 4")
    throwaway_server.restart()
    database = create(throwaway_server.dsn())
    schema.migrate(database.dsn)
    scene = Scene(database, monkeypatch)
    scene.allow(OLD_SLOT=-1)
    with scene.open, standby_of(throwaway_server, slot):
        eventually(lambda: findings_of(database, "replication-slot") != [])
        (finding,) = findings_of(database, "replication-slot")
        begins = (
            f"The replication slot '{slot}', active, is" if slot else "The standby 'walreceiver', without a slot, is"
        )
        assert finding.what.startswith(begins)
        assert "pg_drop" not in finding.mend
        assert "pg_terminate" not in finding.mend
        assert "end what is open there, or wait" in finding.mend
        mend(scene, "replication-slot", [finding])


@contextmanager
def standby_of(primary: ThrowawayServer, slot: str) -> Iterator[None]:
    """A standby that sends feedback, and reads a slot of this name, or none."""
    standby = ThrowawayServer(binaries())
    feedback = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s", "primary_slot_name": slot}
    try:
        if slot:
            with psycopg.connect(primary.dsn(), autocommit=True) as connection:
                connection.execute("select pg_create_physical_replication_slot(%s)", [slot])
        standby.receive_from(primary.dsn())
        with (standby.data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in feedback.items())
        standby.start()
        yield
    finally:
        standby.remove()


def test_a_standby_is_found(throwaway_server: ThrowawayServer) -> None:
    database = create(throwaway_server.dsn())
    schema.migrate(database.dsn)
    with psycopg.connect(throwaway_server.dsn(), autocommit=True) as connection:
        connection.execute("alter system set wal_level = replica")
    throwaway_server.restart()
    throwaway_server.account.run(["touch", str(throwaway_server.data / "standby.signal")], throwaway_server.data)
    throwaway_server.restart()
    [finding] = findings_of(database, "read-only")
    assert finding.what == "The server is a standby."
    assert finding.mend.startswith("pgqueue doctor --dsn DSN ")


def test_a_database_whose_migration_could_not_create_roles(throwaway_server: ThrowawayServer) -> None:
    database = create(throwaway_server.dsn())
    with psycopg.connect(throwaway_server.dsn(), autocommit=True) as connection:
        connection.execute("create role app login")
        connection.execute(f"alter database {database.name} owner to app".encode())
    schema.migrate(make_conninfo(database.dsn, user="app"))
    findings = findings_of(database, "missing-rights")
    assert [finding.what for finding in findings] == [
        f"The role pgqueue_{name} does not exist." for name in ("owner", "admin", "sender", "receiver", "monitor")
    ]
