"""Every role, every verb, every queue: the calls that each role may make, and the refusals. See docs/security.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import Diagnostic
from psycopg.types.json import Jsonb

from pgqueue.testing import Database

SEND, RECEIVE, MONITOR, SETTINGS, ADMIN, ANYONE = "SEND", "RECEIVE", "MONITOR", "SETTINGS", "ADMIN", "ANYONE"
NOTIFICATION = "application/vnd.pgqueue.notification+json"

LOCK = "%(queue)s, %(number)s, %(token)s"
LOCKS = "%(queue)s, array[%(number)s::bigint], array[%(token)s::uuid]"
CLAIM = "%(consumer)s, %(claim)s, epoch => %(epoch)s"
HELD_SESSION = "%(queue)s, 'a', %(token)s"

#: The arguments of each verb, and the right that it takes.
VERBS = {
    "send": (SEND, "%(queue)s, '1'"),
    "send_batch": (SEND, "%(queue)s, array['1']::jsonb[]"),
    "schedule": (SEND, "%(queue)s, '1', '2099-01-01'"),
    "cancel_scheduled": (SEND, "%(queue)s, array[%(scheduled)s::bigint]"),
    "reschedule": (SEND, "%(queue)s, %(scheduled)s, '2098-01-01'"),
    "stage": (SEND, "%(queue)s, 'job', 'part', '{body}'"),
    "check_staged": (SEND, "%(queue)s, %(staged)s"),
    "publish": (SEND, "%(queue)s, array[%(staged)s], 0"),
    "discard_staged": (ANYONE, "'night'"),  # only what was staged for queues that the caller may send to
    "receive": (RECEIVE, "%(queue)s"),
    "receive_and_delete": (RECEIVE, "%(queue)s"),
    "receive_deferred": (RECEIVE, "%(queue)s, array[%(deferred)s::bigint]"),
    "receive_dead_letters": (RECEIVE, "%(queue)s"),
    "accept_session": (RECEIVE, "%(queue)s"),
    "receive_from_session": (RECEIVE, HELD_SESSION),
    "renew_session_lock": (RECEIVE, HELD_SESSION),
    "release_session": (RECEIVE, HELD_SESSION),
    "get_session_state": (RECEIVE, "%(queue)s, 'a'"),
    "set_session_state": (RECEIVE, HELD_SESSION),
    "peek": (RECEIVE, "%(queue)s"),
    "find_messages": (RECEIVE, "%(queue)s"),
    "peek_dead_letters": (RECEIVE, "%(queue)s"),
    "explain_message": (RECEIVE, "%(queue)s, 1"),
    "take_turn": (RECEIVE, "%(queue)s"),
    "pin": (RECEIVE, LOCK),
    "pin_batch": (RECEIVE, LOCKS),
    "complete": (RECEIVE, LOCK),
    "complete_batch": (RECEIVE, LOCKS),
    "abandon": (RECEIVE, LOCK),
    "abandon_batch": (RECEIVE, LOCKS),
    "release_batch": (RECEIVE, LOCKS),
    "dead_letter": (RECEIVE, LOCK + ", 'reason'"),
    "dead_letter_batch": (RECEIVE, LOCKS + ", 'reason'"),
    "defer": (RECEIVE, LOCK),
    "defer_batch": (RECEIVE, LOCKS),
    "postpone": (RECEIVE, LOCK + ", '1 hour'"),
    "renew_lock": (RECEIVE, LOCK),
    "renew_lock_batch": (RECEIVE, LOCKS),
    "resolve": (RECEIVE, LOCK + ", '3'"),
    "record_effect": (RECEIVE, "%(queue)s, 'key', 'effect'"),
    "recorded_effects": (RECEIVE, "%(queue)s, 'key'"),
    "resubmit": (RECEIVE, "%(queue)s"),
    "attach_consumer": (RECEIVE, "%(consumer)s, %(queue)s"),
    "claim_batch": (RECEIVE, "%(consumer)s, %(claim)s, 1, epoch => %(epoch)s"),
    "begin_claim": (RECEIVE, CLAIM),
    "check_claim": (RECEIVE, CLAIM),
    "renew_claim": (RECEIVE, "%(consumer)s, claim => %(claim)s, epoch => %(epoch)s"),
    "complete_claim": (RECEIVE, CLAIM),
    "release_claim": (RECEIVE, CLAIM),
    "drop_consumer": (RECEIVE, "%(consumer)s, %(epoch)s"),
    "queue_settings": (SETTINGS, "%(queue)s"),
    "record_action": (RECEIVE, "'resubmit', %(queue)s, 1"),
    "queue_counts": (MONITOR, "%(queue)s"),
    "create_queue": (ADMIN, "%(new)s"),
    "alter_queue": (ADMIN, "%(queue)s, '1 minute'"),
    "pause_queue": (ADMIN, "%(queue)s"),
    "resume_queue": (ADMIN, "%(queue)s"),
    "purge_queue": (ADMIN, "%(queue)s"),
    "purge_dead_letters": (ADMIN, "%(queue)s"),
    "drop_queue": (ADMIN, "%(queue)s"),
    "unlock": (ADMIN, "%(queue)s, %(number)s"),
    "grant_send": (ADMIN, "%(queue)s, 'public'"),
    "grant_receive": (ADMIN, "%(queue)s, 'public'"),
    "grant_monitor": (ADMIN, "%(role)s"),
    "grant_admin": (ADMIN, "%(role)s"),
    "revoke_send": (ADMIN, "%(queue)s, 'public'"),
    "revoke_receive": (ADMIN, "%(queue)s, 'public'"),
    "revoke_monitor": (ADMIN, "%(role)s"),
    "revoke_admin": (ADMIN, "%(role)s"),
    "publish_to_topic": (SEND, "%(topic)s, '1'"),
    "publish_batch_to_topic": (SEND, "%(topic)s, array['1']::jsonb[]"),
    "create_topic": (ADMIN, "%(new_topic)s"),
    "drop_topic": (ADMIN, "%(topic)s"),
    "create_subscription": (ADMIN, "%(topic)s, 'new'"),
    "alter_subscription": (ADMIN, "%(topic)s, 's'"),
    "drop_subscription": (ADMIN, "%(topic)s, 's'"),
    "create_schedule": (ADMIN, "'another', %(queue)s, every => '1 day', body => '1'"),
    "drop_schedule": (ADMIN, "%(schedule)s"),
    "pause_schedule": (ADMIN, "%(schedule)s"),
    "resume_schedule": (ADMIN, "%(schedule)s"),
    "run_schedule": (ADMIN, "%(schedule)s"),
    "plan_schedule": (RECEIVE, "%(planned)s, '{}'"),
    "heartbeat": (RECEIVE, "%(worker)s, 'host', 1, '1.0', array[%(queue)s]::text[], 8"),
    "remove_worker": (ANYONE, "gen_random_uuid()"),  # only workers of the caller's role
    "schedules_to_plan": (ANYONE, ""),  # only those of queues that the caller may receive from
    "due_times": (SETTINGS, "%(nightly)s"),
    "clock": (ANYONE, ""),
    "server_run": (ANYONE, ""),
}

#: Verbs for all queues at once; who may receive from all of them may sweep.
OF_ALL_QUEUES = {
    "broken_invariants": (MONITOR, ""),
    "grants": (MONITOR, ""),
    "queue_estimates": (MONITOR, ""),
    "take_sample": (MONITOR, ""),
    "sweep": (RECEIVE, ""),
    "sweep_all": (RECEIVE, ""),
}

EVERYTHING = {SEND, RECEIVE, MONITOR, ADMIN}

#: How a role comes by its rights, and which these are for the queue `mine` and for all others.
ROLES: dict[str, tuple[str, set[str], set[str]]] = {
    "stranger": ("select 1", set(), set()),
    "sender": ("select pgqueue.grant_send('mine', '{role}')", {SEND}, set()),
    "receiver": ("select pgqueue.grant_receive('mine', '{role}')", {RECEIVE}, set()),
    "everybody is a sender": ("select pgqueue.grant_send('mine', 'public')", {SEND}, set()),
    "member of a sender": ("grant {group} to {role}; select pgqueue.grant_send('mine', '{group}')", {SEND}, set()),
    "sender to all": ("grant pgqueue_sender to {role}", {SEND}, {SEND}),
    "receiver from all": ("grant pgqueue_receiver to {role}", {RECEIVE, MONITOR}, {RECEIVE, MONITOR}),
    "monitor": ("select pgqueue.grant_monitor('{role}')", {MONITOR}, {MONITOR}),
    "admin": ("select pgqueue.grant_admin('{role}')", EVERYTHING, EVERYTHING),
    "member of the owner": ("grant pgqueue_owner to {role}", EVERYTHING, EVERYTHING),
} | {
    f"{right} was revoked": (f"select pgqueue.grant_{right}({of}); select pgqueue.revoke_{right}({of})", set(), set())
    for right, of in [
        ("send", "'mine', '{role}'"), ("receive", "'mine', '{role}'"), ("monitor", "'{role}'"), ("admin", "'{role}'"),
    ]
}  # fmt: skip

#: The right that each view takes; a view shows only the queues for which the role has it.
VIEWS = {
    "messages": RECEIVE,
    "dead_letters": RECEIVE,
    "deferred_messages": RECEIVE,
    "scheduled_messages": RECEIVE,
    "delivery_log": RECEIVE,
    "notifications": RECEIVE,
    "schedules": RECEIVE,
    "history": RECEIVE,
    "locked_messages": MONITOR,
    "expired_locks": MONITOR,
    "consumers": MONITOR,
    "sessions": MONITOR,
    "subscriptions": MONITOR,
    "topics": SETTINGS,
    "queues": MONITOR,
    "samples": MONITOR,
    "audit_log": MONITOR,
    "workers": MONITOR,
}

#: The same of those that the library reads instead of tables.
LIBRARY_VIEWS = {
    "_claim": RECEIVE,
    "_claimed_message": RECEIVE,
    "_consumer": RECEIVE,
    "_held_message": MONITOR,
    "_published_batch": SEND,
    "_staged_batch": SEND,
    "_upkeep": MONITOR,
}

#: Views that refuse who may not monitor all queues.
OF_COUNTS = ("queues", "_upkeep")

#: Views of whole tables, for those who may receive from every queue.
WHOLE_TABLES = ("_dead_letter", "_message", "_scheduled_message", "_settled_message")

ALL_VIEWS = "select viewname from pg_views where schemaname = 'pgqueue'"
TOKENS_SHOWN = """
select relname from pg_class join pg_attribute on attrelid = pg_class.oid
 where relnamespace = 'pgqueue'::regnamespace and relkind = 'v' and attname = 'lock_token'
"""
PUBLIC_FUNCTIONS = "select proname from pg_proc where pronamespace = 'pgqueue'::regnamespace and proname !~ '^_'"

TABLES_WITH_RIGHTS = """
select relname
  from pg_class
 where relnamespace in ('pgqueue'::regnamespace, 'pgqueue_history'::regnamespace) and relkind in ('r', 'p')
   and has_table_privilege(%s, oid, 'select, insert, update, delete, truncate, references, trigger')
"""

ROLES_WITH_LOGIN = "select rolname from pg_roles where rolname ~ '^pgqueue_' and (rolcanlogin or rolsuper)"

OWNED_BY_OTHERS = """
select relname from pg_class
 where relnamespace in ('pgqueue'::regnamespace, 'pgqueue_history'::regnamespace) and relkind <> 't'
   and relowner <> 'pgqueue_owner'::regrole
 union all
select proname from pg_proc where pronamespace = 'pgqueue'::regnamespace and proowner <> 'pgqueue_owner'::regrole
 union all
select nspname from pg_namespace where nspname ~ '^pgqueue(_history)?$' and nspowner <> 'pgqueue_owner'::regrole
"""


WITH_STATISTICS = """
select attrelid::regclass::text, attname
  from pg_attribute
 where attrelid in ('pgqueue.message'::regclass, 'pgqueue.dead_letter'::regclass, 'pgqueue.scheduled_message'::regclass,
                    'pgqueue.settled_message'::regclass)
   and attname ~ 'body|application_properties|_id|subject|reply_to' and attname !~ 'queue_id|transaction_id|body_size'
   and attstattarget is distinct from 0
"""

DEFINERS_UNPINNED = """
select proname from pg_proc
 where pronamespace = 'pgqueue'::regnamespace and prosecdef
   and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)
"""

OF_A_STRANGER = """
create schema {role} authorization {role};
create function {role}.spring(integer) returns integer immutable language sql as 'select $1';
create table {role}.bait (number integer);
create index on {role}.bait ({role}.spring(number));
insert into {role}.bait values (1);
alter function {role}.spring(integer) owner to {role};
alter table {role}.bait owner to {role};
"""

CALLS = """
create or replace function {role}.spring(integer) returns integer immutable language plpgsql as $$
begin
    perform pgqueue.{called};
    return $1;
end
$$
"""


@dataclass
class House:
    """Two queues, with a message of each kind in them, and a role that may do something with one of them."""

    connection: psycopg.Connection[Any]
    role: str
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)

    def fill(self, queue: str) -> None:
        consumer = f"consumer of {queue}"
        self.ask("select pgqueue.create_queue(%s)", queue)
        numbers = [self.ask("select pgqueue.send(%s, '{}')", queue)[0] for _ in range(4)]
        scheduled, *_ = self.ask("select pgqueue.schedule(%s, '1', '2099-01-01')", queue)
        staged, *_ = self.ask("select pgqueue.stage(%s, 'night', %s, '{body}')", queue, queue)
        _, epoch = self.ask("select * from pgqueue.attach_consumer(%s, %s)", consumer, queue)
        claim, *_ = self.ask("select pgqueue.claim_batch(%s, 0, 1, epoch => %s)", consumer, epoch)
        locks = [self.ask("select lock_token from pgqueue.receive(%s)", queue)[0] for _ in range(2)]
        self.ask("select pgqueue.defer(%s, %s, %s)", queue, numbers[1], locks[0])
        self.ask("select pgqueue.send(%s, '{}', content_type => %s)", queue, NOTIFICATION)
        (planned,) = self.ask(
            "select pgqueue.create_schedule(%s, %s, '0 0 * * *', body => '1')", f"nightly-{queue}", queue
        )
        self.settle(queue, "dead_letter(%s, %s, %s, 'reason', error => '{\"type\": \"E\"}')")
        self.connection.execute(
            """insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
               select id, 'a', now() from pgqueue.queue where name = %s""",
            [queue],
        )
        self.connection.execute("delete from pgqueue.sample; select pgqueue.take_sample()")
        self.ask("select pgqueue.record_action('send', %s)", queue)
        self.ask("select pgqueue.heartbeat(gen_random_uuid(), 'host', 1, '1.0', array[%s], 8)", queue)
        published, *_ = self.ask("select pgqueue.stage(%s, 'day', %s, '{body}')", queue, queue)
        self.ask("select pgqueue.publish(%s, array[%s], 0, 'job day', 0)", queue, published)
        self.ask("select pgqueue.send(%s, '{}', priority => -1)", queue)
        self.ask("select pgqueue.create_topic(%s)", f"topic-{queue}")
        self.ask("select pgqueue.create_subscription(%s, 's')", f"topic-{queue}")
        self.ask("select * from pgqueue.receive(%s, lock_duration => '1 microsecond')", queue)
        self.arguments[queue] = {
            "queue": queue, "number": numbers[2], "token": locks[1], "deferred": numbers[1], "scheduled": scheduled,
            "staged": staged, "consumer": consumer, "claim": claim, "epoch": epoch, "role": self.role,
            "new": f"new-{queue}",
            "topic": f"topic-{queue}",
            "new_topic": f"new-topic-{queue}",
            "schedule": f"nightly-{queue}",
            "nightly": f"nightly-{queue}",
            "planned": planned,
            "worker": uuid4(),
        }  # fmt: skip

    def ask(self, statement: str, *parameters: Any) -> tuple[Any, ...]:
        (row,) = self.connection.execute(statement.encode(), parameters).fetchall()
        return tuple(row)

    def settle(self, queue: str, how: str) -> None:
        """Settles a message that comes before all others."""
        self.ask("select pgqueue.send(%s, '{}', priority => -2)", queue)
        number, token = self.ask("select sequence_number, lock_token from pgqueue.receive(%s)", queue)
        self.ask(f"select pgqueue.{how}", queue, number, token)

    def all(self, statement: str) -> list[Any]:
        return [value for (value,) in self.connection.execute(statement.encode()).fetchall()]

    def make_history(self) -> None:
        """Completes a message of each queue that is kept in its history."""
        for queue in ("mine", "theirs"):
            self.ask("select pgqueue.alter_queue(%s, retain_history => '1 day')", queue)
            self.settle(queue, "complete(%s, %s, %s)")

    def refusal(self, verb: str, arguments: str, queue: str) -> Diagnostic | None:
        """The error when the role calls the verb, None where it may. The call is rolled back."""
        how = "call" if verb == "sweep_all" else "select * from"
        with suppress(psycopg.errors.InvalidTransactionTermination), self.as_the_role():
            try:
                self.connection.execute(f"{how} pgqueue.{verb}({arguments})".encode(), self.arguments[queue])
            except psycopg.errors.InsufficientPrivilege as error:
                return error.diag
            except psycopg.Error as error:
                if error.sqlstate != "PQ007":  # these queues require no sessions, which is found out after the rights
                    raise
        return None

    def called(self, arguments: str, queue: str) -> str:
        """How a refusal names the queue, where the arguments name one."""
        if "%(new)s" in arguments:
            return f' for queue "new-{queue}"'
        for argument in ("topic", "new_topic"):
            if f"%({argument})s" in arguments:
                return f' for topic "{self.arguments[queue][argument]}"'
        names = ("%(queue)s", "%(consumer)s", "%(nightly)s", "%(planned)s")
        return f" for queue {queue}" if any(name in arguments for name in names) else ""

    def rows(self, view: str, queue: str) -> int:
        """How many rows a view shows of a queue."""
        column = {"queues": "name", "topics": "name", "workers": "any (queues)"}.get(view, "queue")
        name = {"topics": f"topic-{queue}", "subscriptions": f"topic-{queue}/Subscriptions/s"}.get(view, queue)
        (count,) = self.ask(f"select count(*) from pgqueue.{view} where %s = {column}", name)
        return int(count)

    @contextmanager
    def as_the_role(self) -> Iterator[None]:
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(f"set local role {self.role}".encode())
            yield


@contextmanager
def house_in(database: Database) -> Iterator[House]:
    role = f"test_{uuid4().hex[:12]}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {role}; create role {role}_group".encode())
        try:
            house = House(connection, role)
            house.fill("mine")
            house.fill("theirs")
            yield house
        finally:
            connection.execute(f"drop role {role}; drop role {role}_group".encode())


@pytest.fixture
def house(database: Database) -> Iterator[House]:
    with house_in(database) as house:
        yield house


def given(house: House, kind: str) -> tuple[set[str], set[str]]:
    """Gives the role its rights, and returns which these are."""
    grant, mine, theirs = ROLES[kind]
    of_a_topic = grant.replace("send('mine'", "send('topic-mine'").replace("'mine'", "'topic-mine/Subscriptions/s'")
    for each in (grant, of_a_topic):
        house.connection.execute(each.format(role=house.role, group=f"{house.role}_group").encode())
    return mine, theirs


def a_role_may_do_what_it_was_granted(database: Database, kind: str) -> None:
    with house_in(database) as house:
        test_a_role_may_do_what_it_was_granted_and_nothing_else(house, kind)


@pytest.mark.parametrize("kind", ROLES)
def test_a_role_may_do_what_it_was_granted_and_nothing_else(house: House, kind: str) -> None:
    mine, theirs = given(house, kind)
    for queue, rights in (("mine", mine), ("theirs", theirs)):
        for verb, (needed, arguments) in VERBS.items():
            may = needed == ANYONE or needed in rights or bool(rights & WHAT_SUFFICES.get(needed, set()))
            told = house.refusal(verb, arguments, queue)
            assert (told is None) == may, f"{verb} on {queue}: {told}"
            if told is not None:
                assert (
                    told.message_primary
                    == f"role {house.role} may not call pgqueue.{verb}{house.called(arguments, queue)}"
                )
                assert "An administrator allows it with pgqueue.grant_" in str(told.message_hint)
    for verb, (needed, arguments) in OF_ALL_QUEUES.items():
        assert (house.refusal(verb, arguments, "mine") is None) == (needed in theirs), verb


#: The rights that suffice in place of another one, for the same queue.
WHAT_SUFFICES = {SETTINGS: {SEND, RECEIVE, MONITOR}, MONITOR: {RECEIVE}}


@pytest.mark.parametrize("kind", ROLES)
def test_a_view_shows_a_role_only_what_it_may_see(house: House, kind: str) -> None:
    house.make_history()
    mine, theirs = given(house, kind)
    for view, needed in {**VIEWS, **LIBRARY_VIEWS}.items():
        for queue, rights in (("mine", mine), ("theirs", theirs)):
            there = house.rows(view, queue)
            assert there > 0, view
            may = needed in rights or (view not in OF_COUNTS and bool(rights & WHAT_SUFFICES.get(needed, set())))
            with house.as_the_role():
                if view in OF_COUNTS and not may:
                    with pytest.raises(
                        psycopg.errors.InsufficientPrivilege, match="may not read the counts of all queues"
                    ):
                        house.rows(view, queue)
                else:
                    assert house.rows(view, queue) == (there if may else 0), view


@pytest.mark.parametrize("kind", ROLES)
def test_whole_tables_are_for_those_who_may_receive_from_every_queue(house: House, kind: str) -> None:
    house.make_history()
    _, theirs = given(house, kind)
    for view in WHOLE_TABLES:
        assert house.rows(view, "theirs") > 0, view
        with house.as_the_role():
            if RECEIVE in theirs:
                assert house.rows(view, "theirs") > 0, view
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"permission denied for view {view}"):
                    house.rows(view, "theirs")


def test_the_planner_reveals_nothing_of_a_table_to_a_stranger(house: House) -> None:
    """It tries operators on samples of a table, but not where a view is a security barrier."""
    unsafe = "select relname from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind = 'v'"
    barred = f"{unsafe} and coalesce(reloptions, '{{}}') && '{{security_barrier,security_barrier=true}}'"
    names = {name for (name,) in house.connection.execute(f"{unsafe} except {barred}".encode()).fetchall()}
    assert names == set()


def test_a_function_that_runs_as_its_owner_pins_its_search_path(house: House) -> None:
    assert house.connection.execute(DEFINERS_UNPINNED).fetchall() == []


def test_calls_in_maintenance_by_a_superuser_are_refused(house: House) -> None:
    """The function of a stranger's index runs when a superuser rebuilds the index: no call of the superuser's."""
    house.connection.execute(OF_A_STRANGER.format(role=house.role).encode())
    for verb in ("grant_admin('{role}')", "send('mine', '1')", "receive('mine')", "peek('mine')"):
        called = verb.format(role=house.role)
        house.connection.execute(CALLS.format(role=house.role, called=called).encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="within security-restricted operation"):
            house.connection.execute(f"reindex table {house.role}.bait".encode())
    house.connection.execute(f"drop schema {house.role} cascade".encode())


def test_verbs_for_all_queues_concern_those_that_the_role_may_use(house: House) -> None:
    for right in ("send", "receive"):
        house.ask(f"select pgqueue.grant_{right}('mine', %s)", house.role)
    mine, theirs = house.arguments["mine"], house.arguments["theirs"]
    published = ["mine", [theirs["staged"]], 0, "job day", 0]
    with house.as_the_role():
        assert house.all("select name from pgqueue.queue_settings()") == ["mine"]
        assert house.all("select id from pgqueue.schedules_to_plan()") == [mine["planned"]]
        assert house.all("select queue from pgqueue._subscribe('{mine,theirs}', '1 minute')") == ["mine"]
        house.ask("select * from pgqueue.publish(%s, %s, %s, %s, %s)", *published)  # once more: drops what was staged
        assert house.ask("select pgqueue.discard_staged('night')") == (1,)
        house.connection.execute("reset role")
        assert house.all("select name from pgqueue.staged_batch") == [theirs["staged"]]


def test_the_contents_of_messages_are_in_no_statistics(house: House) -> None:
    """The planner's estimates would reveal it to each role that may EXPLAIN a view."""
    assert house.connection.execute(WITH_STATISTICS).fetchall() == []


def test_the_extent_of_held_messages_is_hidden_from_other_roles(house: House) -> None:
    held = "select count(pgqueue._last_held(progress)) from pgqueue.progress"
    function = "select pgqueue._last_held(jsonb_populate_record(null::pgqueue.progress, %s::jsonb))"
    (progress,) = house.ask(
        "select to_jsonb(progress) || '{\"cursor\": 0}' from pgqueue.progress where lane = 1 limit 1"
    )
    assert house.ask(held) != (0,)
    with house.as_the_role():
        assert house.ask(function, Jsonb(progress)) == (None,)


def test_no_view_shows_a_token(house: House) -> None:
    assert house.connection.execute(TOKENS_SHOWN).fetchall() == []


def test_no_role_has_a_right_on_a_table_or_may_create_something(house: House) -> None:
    for group in ("pgqueue_sender", "pgqueue_receiver", "pgqueue_monitor", "pgqueue_admin"):
        house.connection.execute(f"grant {group} to {house.role}".encode())
    open_tables = house.connection.execute(TABLES_WITH_RIGHTS, [house.role]).fetchall()
    assert {name for (name,) in open_tables} == {
        "alembic_version",
        "installation",
    }  # which clients compare their own with
    assert house.ask("select has_schema_privilege(%s, 'pgqueue', 'create')", house.role) == (False,)
    assert house.connection.execute(ROLES_WITH_LOGIN).fetchall() == []


def test_everything_belongs_to_the_owner(house: House) -> None:
    assert house.connection.execute(OWNED_BY_OTHERS).fetchall() == []


def test_no_verb_is_left_out(house: House) -> None:
    functions = {name for (name,) in house.connection.execute(PUBLIC_FUNCTIONS).fetchall()}
    assert functions == VERBS.keys() | OF_ALL_QUEUES.keys()
    views = {name for (name,) in house.connection.execute(ALL_VIEWS).fetchall()}
    assert views == VIEWS.keys() | LIBRARY_VIEWS.keys() | {*WHOLE_TABLES, "_queue"}
