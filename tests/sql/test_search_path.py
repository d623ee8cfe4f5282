"""Calls of pgqueue run nothing that strangers have put into a schema of the search_path.

See ADR 43. A function that others may call pins its search_path, or is bound to its callees when it is created.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue import CorrelationFilter, JsonPathFilter, Message, Queue, QueueClient, schema
from pgqueue.testing import Clock, Database
from pgqueue.testing.database import created
from pgqueue.testing.plugin import SharedServer
from tests.sql import shadows, stage
from tests.sql.example import EXAMPLES
from tests.sql.house import House

# PostgreSQL lets no procedure commit that pins a setting.
UNPINNED = {"sweep_all"}

HIJACK = """
create function public.nextval(text) returns bigint language plpgsql as $$
begin
    raise exception 'hijacked' using errcode = 'PQ999';
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
# Functions that no other role may call are called by functions that pin the path.
NOT_PINNED = """
select proname
  from pg_proc
 where pronamespace = 'pgqueue'::regnamespace and prosqlbody is null
   and has_function_privilege('public', oid, 'execute')
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

    def procedure(self, verb: str) -> None:
        self.called.add(verb)
        self.connection.execute(f"call pgqueue.{verb}()".encode())

    def refused(self, sqlstate: str, verb: str, *arguments: Any, **named: Any) -> None:
        with pytest.raises(psycopg.Error) as refusal:
            self.call(verb, *arguments, **named)
        assert refusal.value.sqlstate == sqlstate, str(refusal.value)

    def locks(self, verb: str, *arguments: Any) -> tuple[list[int], list[Any]]:
        """The sequence numbers and the lock tokens that a verb has returned."""
        rows = self.call(verb, *arguments)
        assert rows
        return [row[0] for row in rows], [row[1] for row in rows]

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
    keep_results(by)
    bring_back_dead_letters(by)
    work_off_claims(by)
    accept_sessions(by, clock)
    let_groups_take_turns(by)
    keep_keys_of_the_gateway(by)
    send_again_and_again(by, clock)
    send_to_topics(by, clock)
    keep_going(by, clock)
    by.call("drop_queue", "q")


def keep_queues(by: Superuser) -> None:
    by.call("create_queue", "q", requires_duplicate_detection=True, max_queue_length=1000, max_message_size=1000)
    by.call("create_queue", "plain")
    by.refused(stage.QUEUE_EXISTS, "create_queue", "plain")
    by.call("alter_queue", "q", timedelta(minutes=1), 2, retain_history=timedelta(days=1))
    by.call("queue_settings", "q")
    by.call("create_queue", "slow", max_receive_rate=9.0, max_concurrent=9, priority_ageing=timedelta(seconds=9))
    by.call("send_batch", "slow", [Jsonb(1), Jsonb(2)])
    by.locks("receive", "slow")
    by.call("receive_and_delete", "slow")
    by.call("_due_in", "slow")
    by.call("send", "slow", Jsonb({}), priority=3)
    by.call("take_turn", "slow")
    by.call("pause_queue", "slow")
    by.call("resume_queue", "slow")
    by.call("queue_estimates")
    by.call("take_sample")
    by.call("record_action", "pause", "slow", 1, Jsonb({}))
    for worker in (uuid4(), uuid4()):
        for _ in range(2):
            by.call("heartbeat", worker, "host", 1, "1.0", ["slow"], 8)
        by.call("remove_worker", worker)
    for right in ("send", "receive"):
        by.call(f"grant_{right}", "q", "public")
        by.call(f"revoke_{right}", "q", "public")
    for right in ("monitor", "admin"):
        by.refused(stage.INVALID_ARGUMENT, f"grant_{right}", "nobody")
        by.refused(stage.INVALID_ARGUMENT, f"revoke_{right}", "nobody")
    by.call("grants")


def send_messages(by: Superuser) -> None:
    for queue in ("q", "plain"):
        by.call("send", queue, Jsonb({}), message_id="id", application_properties=Jsonb({"is": 1}))
        by.call("send", queue, Jsonb({}), message_id="id", time_to_live=timedelta(days=1), priority=-3)
        by.call("send_batch", queue, [Jsonb(1), Jsonb(2)])
        by.call("send_batch", queue, [Jsonb(1), Jsonb(2)], message_ids=["id", "another"])
        ((number,),) = by.call("schedule", queue, Jsonb({}), NEVER)
        by.call("peek", queue, 100)
        by.call("find_messages", queue, "READY", message_id="id")
        by.call("reschedule", queue, number, LONG_AGO)
        by.call("cancel_scheduled", queue, [number])
        by.call(
            "find_messages", queue, application_properties=Jsonb({"is": 1}), older_than=timedelta(0), session_id="a"
        )
        by.call("delete_matching", queue, "READY", "none", timedelta(0), Jsonb({"is": 1}), "a")
        by.call("delete_messages", queue, [number])
        by.call("cancel", queue, number)
        ((moved,),) = by.call("send", queue, Jsonb({}))
        by.call("move_messages", queue, [moved], "plain" if queue == "q" else "q")
        by.call("cancel", "plain" if queue == "q" else "q", moved, "why")
        by.call("receive_and_delete", queue, 3)
        by.call("queue_counts", queue)
        by.call("queue_estimates", 1)
        by.call("purge_queue", queue)
    by.refused(stage.UNKNOWN_QUEUE, "send", "none", Jsonb({}))
    by.refused(stage.UNKNOWN_QUEUE, "send_batch", "none", [Jsonb({})])
    by.refused(stage.TOO_LARGE, "send", "q", Jsonb("x" * 2000))


def settle_messages(by: Superuser) -> None:
    by.call("renew_lock", *(held := by.lock()))
    by.call("pin", *held)
    ((delivery,),) = by.call("_pin_delivery", *held, True)
    by.refused(stage.PINNED_ELSEWHERE, "_complete_delivery", *held, delivery.split()[0])
    ((transaction_id,),) = by.call("complete", *held)
    with by.connection.transaction():
        ((delivery,),) = by.call("_pin_delivery", *(pinned := by.lock()), False)
        by.call("_complete_delivery", *pinned, delivery.split()[0])
    ((run,),) = by.call("server_run")
    assert by.call("resolve", *held, transaction_id, run) == [("committed",)]
    by.refused(stage.LOCK_LOST, "complete", *held)
    by.call("complete", *by.lock("plain"))
    by.call("abandon", *by.lock("plain"), properties=Jsonb({"tried": True}), error=Jsonb({"type": "T", "text": "t"}))
    _, number, _ = by.lock("plain")
    by.call("explain_message", "plain", number)
    by.call("unlock", "plain", number)
    by.refused(stage.MESSAGE_NOT_FOUND, "unlock", "plain", number)
    by.call("explain_message", "plain", 0)
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
    by.call("purge_dead_letters", "q")


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


def accept_sessions(by: Superuser, clock: Clock) -> None:
    by.call("create_queue", "steps", requires_session=True, max_delivery_count=2, retain_history=timedelta(days=1))
    by.refused(stage.INVALID_ARGUMENT, "send", "steps", Jsonb(0))
    by.refused(stage.INVALID_ARGUMENT, "receive", "steps")
    by.refused(stage.INVALID_ARGUMENT, "accept_session", "q")
    by.refused(stage.INVALID_ARGUMENT, "alter_queue", "steps", requires_session=False)
    by.call("send", "steps", Jsonb(1), session_id="a")
    by.call("send_batch", "steps", [Jsonb(2), Jsonb(3)], session_ids=["a", "b"])
    by.call("schedule", "steps", Jsonb(4), clock.now() + timedelta(seconds=1), session_id="a")
    ((_, token, *_),) = by.call("accept_session", "steps", "a")
    by.refused("PQ021", "accept_session", "steps", "a")
    held = "steps", "a", token
    by.call("set_session_state", *held, Jsonb({"last": 1}))
    by.refused(stage.TOO_LARGE, "set_session_state", *held, Jsonb("x" * 300_000))
    by.call("get_session_state", *held)
    by.call("peek_session", *held, 9)
    clock.move(timedelta(seconds=2))
    numbers, tokens = by.locks("receive_from_session", *held, 3)
    by.call("receive_from_session_batch", "steps", ["a"], [token], [3])
    by.call("renew_session_lock", *held)
    by.call("renew_lock_batch", "steps", numbers, tokens)
    by.call("explain_message", "steps", numbers[0])
    by.call("defer", "steps", numbers[0], token)
    by.call("receive_deferred", "steps", numbers[:1], session_id="a", lock_token=token)
    by.call("abandon", "steps", numbers[1], token, timedelta(seconds=1))
    by.call("release_session", *held)
    by.call("release_session_batch", "steps", ["a"], [token])
    by.refused("PQ020", "complete", "steps", numbers[0], token)
    by.refused("PQ020", "renew_session_lock", *held)
    by.call("accept_session", "steps")
    clock.move(timedelta(hours=2))
    by.call("sweep", None)
    by.call("purge_queue", "steps")
    by.call("drop_queue", "steps")


def keep_keys_of_the_gateway(by: Superuser) -> None:
    by.call("create_gateway_key", "shop", "pgqueue_sender")
    by.refused(stage.INVALID_ARGUMENT, "create_gateway_key", "shop", "pgqueue_sender")
    by.call("gateway_keys")
    by.call("drop_gateway_key", "shop")
    by.refused(stage.INVALID_ARGUMENT, "drop_gateway_key", "shop")


def let_groups_take_turns(by: Superuser) -> None:
    by.call("create_queue", "jobs", max_concurrent_per_group=1, max_receive_rate_per_group=9.0)
    by.call("set_group_limits", "jobs", "a", 2, 0.5)
    by.refused(stage.INVALID_ARGUMENT, "set_group_limits", "jobs", "a", 1001)
    by.call("send_batch", "jobs", [Jsonb(n) for n in range(6)], session_ids=["a", "a", "a", "b", "b", "b"])
    numbers, tokens = by.locks("receive", "jobs", 6)
    by.call("receive", "jobs", 6)
    by.call("abandon", "jobs", numbers[0], tokens[0])
    by.call("complete", "jobs", numbers[1], tokens[1])
    by.call("receive_and_delete", "jobs")
    by.call("drop_queue", "jobs")


def keep_results(by: Superuser) -> None:
    by.call("create_queue", "kept", result_retention=timedelta(days=1), max_message_size=10)
    by.call("_await_outcomes", ["kept"], timedelta(seconds=15))
    lock = by.lock("kept")
    by.refused(stage.TOO_LARGE, "complete", *lock, Jsonb("too large for it"))
    by.call("complete", *lock, Jsonb(1))
    dead = by.lock("kept")
    by.call("dead_letter", *dead, "r")
    by.call("outcomes", "kept", [lock[1], dead[1], 0])
    by.call("result", "kept", lock[1])
    by.call("_await_outcomes", ["kept"], None)
    by.refused(stage.INVALID_ARGUMENT, "complete", *by.lock("plain"), Jsonb(1))


def send_again_and_again(by: Superuser, clock: Clock) -> None:
    body = {"body": Jsonb({}), "application_properties": Jsonb({"is": 1})}
    by.call(
        "create_schedule", "s", "plain", every=timedelta(minutes=1), jitter=timedelta(seconds=1), catch_up="all", **body
    )
    ((number,),) = by.call(
        "create_schedule", "c", "q", cron="* * * * *", timezone="Europe/Zurich", ends_at=NEVER, **body
    )
    by.refused("PQ031", "create_schedule", "s", "plain", every=timedelta(minutes=1), **body)
    by.refused(stage.INVALID_ARGUMENT, "create_schedule", "t", "plain", every=timedelta(0), **body)
    by.call("schedules_to_plan")
    by.call("plan_schedule", number, [clock.now() + timedelta(minutes=n) for n in (1, 2, 3)])
    by.call("plan_schedule", number, [], error="invalid")
    by.call("pause_schedule", "s")
    by.call("resume_schedule", "s")
    by.call("due_times", "s")
    clock.move(timedelta(minutes=2))
    by.call("take_turn", "plain")
    by.call("run_schedule", "s")
    by.call("alter_queue", "plain", status="SEND_DISABLED")
    clock.move(timedelta(minutes=2))
    by.call("take_turn", "q")
    by.call("drop_schedule", "s")
    by.refused("PQ030", "drop_schedule", "s")


def send_to_topics(by: Superuser, clock: Clock) -> None:
    by.call("create_topic", "t", requires_duplicate_detection=True)
    by.refused("PQ041", "create_topic", "t")
    by.call("alter_topic", "t", default_message_time_to_live=timedelta(hours=1), user_metadata=Jsonb({}))
    by.refused("PQ040", "alter_topic", "nope")
    by.call("topic_settings")
    asked = Jsonb({"subject": "s", "application_properties": {"a": 1}})
    by.call("create_subscription", "t", "equal", correlation_filter=asked, set_properties=Jsonb({"b": 2}))
    by.call("create_subscription", "t", "path", json_path_filter="$.body.n > 1", max_queue_length=9)
    by.call("create_subscription", "t", "idle", auto_delete_on_idle=timedelta(hours=1))
    by.refused(stage.INVALID_ARGUMENT, "create_subscription", "t", "wrong", json_path_filter="$")
    by.call("create_rule", "t", "equal", "other", json_path_filter="$.body.n > 7", set_properties=Jsonb({"c": 3}))
    by.refused("PQ044", "create_rule", "t", "equal", "other")
    by.call("alter_rule", "t", "equal", "other", json_path_filter="$.body.n > 8")
    by.call("drop_rule", "t", "path", "$Default")
    by.refused("PQ043", "alter_rule", "t", "path", "$Default")
    by.refused("PQ043", "drop_rule", "t", "path", "$Default")
    by.call("create_rule", "t", "path", "$Default", json_path_filter="$.body.n > 1")
    by.refused(stage.INVALID_ARGUMENT, "create_subscription", "t", "wrong", correlation_filter=Jsonb({"wrong": 1}))
    by.call("publish_to_topic", "t", Jsonb({"n": 2}), subject="s", application_properties=Jsonb({"a": 1}))
    by.call("publish_batch_to_topic", "t", [Jsonb({"n": 2})], priorities=[1])
    by.refused("PQ040", "publish_to_topic", "nope", Jsonb(1))
    later = [clock.now() + timedelta(hours=1)]
    by.call("send_to_topic", "t", [Jsonb({"n": 2})], message_ids=["a"], scheduled_enqueue_times=later)
    by.refused(stage.MESSAGE_NOT_FOUND, "cancel_scheduled", "t", [-1])
    by.call("cancel_scheduled", "t", [])
    by.call("alter_subscription", "t", "path", asked)
    by.call("drop_subscription", "t", "idle")
    by.refused("PQ042", "publish_to_topic", "t", Jsonb(1), require_subscription=True)
    by.refused("PQ002", "drop_subscription", "t", "idle")
    by.call("drop_topic", "t")


def keep_going(by: Superuser, clock: Clock) -> None:
    """Runs the work of every second, and that after the sequence has gone back."""
    by.call("_subscribe", ["q"], timedelta(hours=1))
    for _ in range(3):
        by.call("send_batch", "q", [Jsonb(number) for number in range(200)])
        by.call("receive", "q", 150)
        clock.move(timedelta(minutes=2))
        by.call("take_turn", "q")
        by.call("sweep", 50)
        by.call("sweep", None, True)
        by.call("queues_to_sweep")
        by.procedure("sweep_all")
    by.connection.execute("select pg_catalog.setval('pgqueue.sequence_number', 1)")
    for _ in range(3):
        clock.move(timedelta(days=3))
        by.call("receive", "q")
        by.call("sweep", None)
    by.call("broken_invariants")
    by.call("clock")


def run_the_examples(connection: psycopg.Connection[Any], called: set[str]) -> None:
    """Of verbs that nothing has called."""
    house = House(connection, "pgqueue_owner")
    house.fill("mine")
    for verb in EXAMPLES.keys() - called:
        with connection.transaction(force_rollback=True):
            connection.execute(EXAMPLES[verb].statement.encode(), house.arguments["mine"])
        called.add(verb)


def names(connection: psycopg.Connection[Any], query: LiteralString) -> set[str]:
    return {name for (name,) in connection.execute(query).fetchall()}


def look_through_every_view(connection: psycopg.Connection[Any]) -> None:
    for view in names(connection, VIEWS):
        connection.execute(f"select * from pgqueue.{view}".encode()).fetchall()


def every_function_is_pinned(database: Database) -> None:
    with database.connect() as connection:
        assert names(connection, NOT_PINNED) == UNPINNED


def a_send_calls_what_postgresql_has(database: Database) -> None:
    with shadows.stranger(database.direct) as role, database.connect(autocommit=True) as connection:
        connection.execute(f"grant create on schema public to {role}; set role {role}".encode())
        connection.execute(HIJACK)
        connection.execute("reset role")
        connection.execute("select pgqueue.create_queue('q')")
        connection.execute("select pgqueue.send('q', '1'), pgqueue.send('q', '1', priority => 7)")
        connection.execute("select pgqueue.send_batch('q', array['1', '2']::jsonb[])")


def test_every_function_pins_its_search_path_or_is_bound_to_what_it_calls(empty_database: Database) -> None:
    schema.migrate(empty_database.dsn)
    every_function_is_pinned(empty_database)


def test_a_send_calls_nothing_that_a_stranger_has_made(database: Database) -> None:
    a_send_calls_what_postgresql_has(database)


@pytest.mark.parametrize("path", ["public", "early, public"])
def test_no_verb_and_no_view_calls_a_shadow(shadowed: Database, path: str) -> None:
    with shadowed.connect(autocommit=True) as connection:
        if path != "public":
            connection.execute(EARLY)
        connection.execute(f"set search_path = {path}".encode())
        superuser = Superuser(connection)
        call_every_verb(superuser, shadowed.clock)
        look_through_every_view(connection)
        run_the_examples(connection, superuser.called)
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
        client.pause_queue("q")
        client.resume_queue("q")
        client.create_schedule("s", queue="q", message=Message({}), cron="* * * * *", timezone="Europe/Zurich")
        client.pause_schedule("s")
        client.resume_schedule("s")
        client.run_schedule("s")
        client.list_schedules()
        client.delete_schedule("s")
        client.create_topic("t")
        client.create_subscription("t", "s", filter=CorrelationFilter(application_properties={"is": 1}))
        client.update_subscription("t", "s", filter=JsonPathFilter("$.body == 1"), set_properties={"is": 2})
        client.topic("t").send(Message(1))
        client.topic("t").send_batch([Message(1, application_properties={"is": 1})])
        client.list_topics()
        client.delete_subscription("t", "s")
        client.delete_topic("t")
        client.sweep()
        client.get_queue_runtime_properties("q")
        client.update_queue("q", max_delivery_count=7)
        client.list_queues()
        client.list_queues_runtime_properties()
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
