"""Whoever calls pgqueue calls nothing that strangers have put into a schema of the search_path.

See ADR 25. Every function pins its search_path or is bound to what it calls when it is created, but for a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue import Message, Queue, QueueClient, schema
from pgqueue.testing import Clock, Database
from pgqueue.testing.database import created
from pgqueue.testing.plugin import SharedServer
from tests.sql import shadows, stage

# Called for every message, they would be slower by more than they may: what they call is exact, or named in pg_catalog.
UNPINNED = {"send", "send_batch", "receive", "_move_scan", "_is_transaction_over", "complete", "complete_batch"}
UNPINNED |= {"pin", "renew_lock", "abandon", "_find_queue", "_pin", "_check_locks", "_delete_messages"}

HIJACK = """
create function public.nextval(text) returns bigint language plpgsql as $$
begin
    execute pg_catalog.format('alter role %I superuser', '{role}');
    return pg_catalog.nextval($1::pg_catalog.regclass);
end
$$
"""

# Types and tables of pg_temp come before those of pg_catalog, unless pg_temp is named last.
IN_PG_TEMP = """
create function public.noticed() returns boolean language plpgsql as $$
begin
    perform pg_catalog.nextval('shadow.calls');
    raise exception 'a type or a table of pg_temp was used';
end
$$;
create temporary view pg_attribute as
select attrelid, attname, attnum, attisdropped from pg_catalog.pg_attribute where public.noticed();
"""
NAMED_LIKE_TYPES = ["text", "jsonb", "bytea", "uuid", "xid8", "tid", "timestamptz", "regclass", "int8range"]

VERBS = """
select proname from pg_catalog.pg_proc where pronamespace = 'pgqueue'::regnamespace::oid and proname !~ '^_'::text
"""
VIEWS = """
select relname from pg_catalog.pg_class where relnamespace = 'pgqueue'::regnamespace::oid and relkind = 'v'
"""
NOT_PINNED = """
select proname
  from pg_proc
 where pronamespace = 'pgqueue'::regnamespace and prosqlbody is null
   and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)
"""

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NEVER = datetime(2099, 1, 1, tzinfo=UTC)

EARLY = "alter schema public rename to early; create schema public"


@pytest.fixture(scope="module")
def shadowed_template(database_server: SharedServer) -> Iterator[str]:
    with (
        shadows.stranger(database_server.dsn) as role,
        created(database_server.dsn, database_server.template) as template,
    ):
        shadows.cast(template, role)
        yield template.name


@pytest.fixture
def shadowed(database_server: SharedServer, shadowed_template: str) -> Iterator[Database]:
    """A database in which a stranger has shadowed every built-in that fits a call of ours."""
    with database_server.database(shadowed_template) as database:
        yield database


class Superuser:
    """Calls verbs, each in a transaction of its own, and remembers which."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.called: set[str] = set()

    def call(self, verb: str, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
        self.called.add(verb)
        given = ", ".join(["%s"] * len(arguments) + [f"{name} => %s" for name in named])
        statement = f"select * from pgqueue.{verb}({given})"
        return self.connection.execute(statement.encode(), [*arguments, *named.values()]).fetchall()

    def refused(self, sqlstate: str, verb: str, *arguments: Any, **named: Any) -> None:
        with pytest.raises(psycopg.Error) as refusal:
            self.call(verb, *arguments, **named)
        assert refusal.value.sqlstate == sqlstate, str(refusal.value)

    def locks(self, verb: str, *arguments: Any) -> tuple[list[int], list[Any]]:
        """What a verb has received: the sequence numbers, and the tokens of the locks."""
        rows = self.call(verb, *arguments)
        assert rows
        return [row[0] for row in rows], [row[7] for row in rows]

    def lock(self, queue: str = "q") -> tuple[str, int, Any]:
        """Of one that was sent just now."""
        self.call("send", queue, Jsonb({}))
        numbers, tokens = self.locks("receive", queue)
        return queue, numbers[0], tokens[0]


def call_every_verb(by: Superuser, clock: Clock) -> None:
    keep_queues(by)
    send_messages(by)
    settle_messages(by)
    settle_batches(by)
    bring_back_dead_letters(by)
    work_off_claims(by)
    keep_going(by, clock)
    by.call("drop_queue", "q")


def keep_queues(by: Superuser) -> None:
    by.call("create_queue", "q", requires_duplicate_detection=True, max_queue_length=1000, max_message_size=1000)
    by.call("create_queue", "plain")
    by.refused(stage.QUEUE_EXISTS, "create_queue", "plain")
    by.call("alter_queue", "q", timedelta(minutes=1), 2, retain_history=timedelta(days=1))


def send_messages(by: Superuser) -> None:
    for queue in ("q", "plain"):
        by.call("send", queue, Jsonb({}), message_id="id", application_properties=Jsonb({"is": 1}))
        by.call("send", queue, Jsonb({}), message_id="id", time_to_live=timedelta(days=1), priority=-3)
        by.call("send_batch", queue, [Jsonb(1), Jsonb(2)])
        by.call("send_batch", queue, [Jsonb(1), Jsonb(2)], message_ids=["id", "another"])
        ((number,),) = by.call("schedule", queue, Jsonb({}), NEVER)
        by.call("peek", queue, 100)
        by.call("cancel_scheduled", queue, [number])
        by.call("receive_and_delete", queue, 3)
        by.call("purge_queue", queue)
    by.refused(stage.UNKNOWN_QUEUE, "send", "none", Jsonb({}))
    by.refused(stage.UNKNOWN_QUEUE, "send_batch", "none", [Jsonb({})])
    by.refused(stage.TOO_LARGE, "send", "q", Jsonb("x" * 2000))


def settle_messages(by: Superuser) -> None:
    by.call("renew_lock", *(held := by.lock()))
    by.call("pin", *held)
    ((transaction_id,),) = by.call("complete", *held)
    assert by.call("resolve", *held, transaction_id) == [("committed",)]
    by.refused(stage.LOCK_LOST, "complete", *held)
    by.call("complete", *by.lock("plain"))
    by.call("abandon", *by.lock("plain"), properties=Jsonb({"tried": True}))
    by.call("abandon", *by.lock(), timedelta(seconds=1))
    by.call("postpone", *by.lock(), timedelta(0), Jsonb("later"))
    by.call("defer", *(deferred := by.lock()))
    by.call("receive_deferred", "q", [deferred[1]])
    by.call("dead_letter", *by.lock(), "reason", "description", Jsonb("last"))
    by.call("record_effect", "q", "id", "mail")
    by.call("recorded_effects", "q", "id")


def settle_batches(by: Superuser) -> None:
    for verb in ("renew_lock_batch", "pin_batch", "release_batch", "complete_batch", "abandon_batch", "defer_batch"):
        _, number, token = by.lock("plain")
        assert by.call(verb, "plain", [number, 0], [token, token])[1][1] == stage.LOCK_LOST
        by.refused(stage.INVALID_ARGUMENT, verb, "plain", [number], [])
    _, number, token = by.lock("plain")
    by.call("complete_batch", "plain", [number], [token])
    _, number, token = by.lock("plain")
    by.call("dead_letter_batch", "plain", [number], [token], "reason")


def bring_back_dead_letters(by: Superuser) -> None:
    by.call("peek_dead_letters", "q")
    by.locks("receive_dead_letters", "plain")
    dead = "q/$deadletterqueue"
    numbers, tokens = by.locks("receive", dead)
    by.call("renew_lock_batch", dead, numbers, tokens)
    by.call("abandon_batch", dead, numbers, tokens)
    by.call("resubmit", "q")
    by.call("purge_queue", dead)


def work_off_claims(by: Superuser) -> None:
    ((staged,),) = by.call("stage", "q", "job", "part", ["body", "message_id", "priority"])
    by.connection.execute(f"insert into pgqueue.{staged} values ('{{}}', 'staged', 2), ('{{}}', 'too', 0)".encode())
    by.call("check_staged", "q", staged)
    by.call("publish", "q", [staged], 2, "job", 1)
    by.call("discard_staged", "job")
    ((_, epoch),) = by.call("attach_consumer", "c", "q")
    ((claim,),) = by.call("claim_batch", "c", 0, 1, epoch=epoch)
    by.call("begin_claim", "c", claim, epoch=epoch)
    by.call("check_claim", "c", claim, epoch=epoch)
    by.call("renew_claim", "c", claim=claim, epoch=epoch)
    by.call("complete_claim", "c", claim, epoch=epoch)
    ((claim,),) = by.call("claim_batch", "c", claim, 1, epoch=epoch)
    by.call("release_claim", "c", claim, epoch=epoch)
    by.call("drop_consumer", "c", epoch=epoch)


def keep_going(by: Superuser, clock: Clock) -> None:
    """What is done once a second, and when the sequence has gone back."""
    by.call("_subscribe", ["q"], timedelta(hours=1))
    for _ in range(3):
        by.call("send_batch", "q", [Jsonb(number) for number in range(200)])
        by.call("receive", "q", 150)
        clock.move(timedelta(minutes=2))
        by.call("take_turn", "q")
        by.call("sweep", 50)
        by.call("sweep", None, True)
    by.connection.execute("select pg_catalog.setval('pgqueue.sequence_number', 1)")
    for _ in range(3):
        clock.move(timedelta(days=3))
        by.call("receive", "q")
        by.call("sweep", None)
    by.call("broken_invariants")
    by.call("clock")


def names(connection: psycopg.Connection[Any], query: LiteralString) -> set[str]:
    return {name for (name,) in connection.execute(query).fetchall()}


def look_through_every_view(connection: psycopg.Connection[Any]) -> None:
    for view in names(connection, VIEWS):
        connection.execute(f"select * from pgqueue.{view}".encode()).fetchall()


def every_function_is_pinned(database: Database) -> None:
    with database.connect() as connection:
        assert names(connection, NOT_PINNED) == UNPINNED


def a_send_makes_nobody_a_superuser(database: Database) -> None:
    with shadows.stranger(database.direct) as role, database.connect(autocommit=True) as connection:
        connection.execute(f"grant create on schema public to {role}; set role {role}".encode())
        connection.execute(HIJACK.replace("{role}", role).encode())
        connection.execute("reset role")
        connection.execute("select pgqueue.create_queue('q')")
        connection.execute("select pgqueue.send('q', '1'), pgqueue.send('q', '1', priority => 7)")
        connection.execute("select pgqueue.send_batch('q', array['1', '2']::jsonb[])")
        is_superuser = connection.execute("select rolsuper from pg_roles where rolname = %s", [role]).fetchone()
        assert is_superuser == (False,)


def test_every_function_pins_its_search_path_or_is_bound_to_what_it_calls(empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    every_function_is_pinned(empty_database)


def test_a_superusers_send_makes_nobody_else_one(database: Database) -> None:
    a_send_makes_nobody_a_superuser(database)


@pytest.mark.parametrize("path", ["public", "early, public"])
def test_no_verb_and_no_view_calls_a_shadow(shadowed: Database, path: str) -> None:
    with shadowed.connect(autocommit=True) as connection:
        if path != "public":
            connection.execute(EARLY)
        connection.execute(f"set search_path = {path}".encode())
        superuser = Superuser(connection)
        call_every_verb(superuser, shadowed.clock)
        look_through_every_view(connection)
        assert superuser.called >= names(connection, VERBS)
        assert not shadows.were_called(connection)


def test_nothing_of_pg_temp_is_taken_for_a_built_in(shadowed: Database) -> None:
    with shadowed.connect(autocommit=True) as connection:
        connection.execute(IN_PG_TEMP)
        for name in NAMED_LIKE_TYPES:
            connection.execute(f"create domain pg_temp.{name} as pg_catalog.{name} check (public.noticed())".encode())
        call_every_verb(Superuser(connection), shadowed.clock)
        look_through_every_view(connection)
        assert not shadows.were_called(connection)


def test_no_statement_of_the_library_calls_a_shadow(shadowed: Database) -> None:
    with QueueClient(shadowed.dsn) as client:
        client.create_queue("q", retain_history=timedelta(days=1))
        queue = client.queue("q")
        queue.send(Message({}, message_id="id", time_to_live=timedelta(days=1)))
        queue.send_batch([Message({}), Message(b"", priority=7, application_properties={"is": 1})] * 5)
        queue.cancel_scheduled([queue.schedule(Message({}), at=NEVER)])
        with queue.sender() as sender:
            sender.send(Message({}))
        settle_in_every_way(queue)
        queue.peek(max_messages=100)
        queue.history(
            since=datetime.now(UTC) - timedelta(days=1), outcome="COMPLETED", message_id="id", sequence_number=1
        )
        queue.dead_letters.resubmit(reason="reason")
        queue.dead_letters.peek()
        client.sweep()
        client.get_queue_runtime_properties("q")
        client.update_queue("q", max_delivery_count=7)
        client.list_queues()
        client.purge_queue("q")
        client.delete_queue("q")
    with shadowed.connect() as connection:
        assert not shadows.were_called(connection)


def settle_in_every_way(queue: Queue) -> None:
    first, second, third, fourth, fifth, *others = queue.receive(max_messages=10, lock_duration=timedelta(minutes=1))
    with first.transaction() as transaction:
        first.record_effect("mail", transaction=transaction)
    first.resolve()
    first.recorded_effects()
    second.renew_lock()
    second.abandon(properties={"tried": True})
    third.dead_letter("reason")
    fourth.defer()
    fifth.postpone(timedelta(0), body="later")
    queue.receive_deferred([fourth.sequence_number])[0].complete()
    queue.renew_lock_batch(others)
    queue.complete_batch(others)
    queue.abandon_batch(queue.receive())
    queue.dead_letter_batch(queue.receive(), reason="reason")
    queue.defer_batch(queue.receive())
    queue.receive_and_delete()


def test_a_migration_calls_no_shadow(empty_database: Database) -> None:
    with shadows.stranger(empty_database.direct) as role:
        shadows.cast(empty_database, role)
        schema.migrate(empty_database.dsn)
        with empty_database.connect() as connection:
            connection.execute("update pgqueue.installation set definitions_digest = 'of an older version'")
            connection.execute("drop index pgqueue.message_expiry")
        schema.migrate(empty_database.dsn)
        with empty_database.connect() as connection:
            look_through_every_view(connection)
            assert not shadows.were_called(connection)
