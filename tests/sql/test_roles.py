"""Every role, every verb, every queue: the calls that each role may make, and the refusals. See docs/security.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import KEPT
from pgqueue.testing import Database
from tests.sql.example import EXAMPLES
from tests.sql.house import House, house_in
from tests.sql.stage import PINNED_ELSEWHERE, refused

ACCESS_DENIED = "42501"

SEND, RECEIVE, MONITOR, SETTINGS, ADMIN, ANYONE = "SEND", "RECEIVE", "MONITOR", "SETTINGS", "ADMIN", "ANYONE"
OUTCOME = "OUTCOME"


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
    "unique_keys": RECEIVE,
    "history": RECEIVE,
    "results": OUTCOME,
    "batches": SETTINGS,
    "locked_messages": MONITOR,
    "expired_locks": MONITOR,
    "consumers": MONITOR,
    "sessions": MONITOR,
    "groups": MONITOR,
    "subscriptions": MONITOR,
    "rules": MONITOR,
    "topics": SETTINGS,
    "scheduled_on_topics": MONITOR,
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
   and attname = any (%s)
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


def a_role_may_do_what_it_was_granted(database: Database, kind: str, become: str = "role") -> None:
    with house_in(database) as house:
        test_a_role_may_do_what_it_was_granted_and_nothing_else(house, kind, become)


@pytest.mark.parametrize("become", ["role", "session authorization"])
@pytest.mark.parametrize("kind", ROLES)
def test_a_role_may_do_what_it_was_granted_and_nothing_else(house: House, kind: str, become: str) -> None:
    house.become = become
    mine, theirs = given(house, kind)
    for queue, rights in (("mine", mine), ("theirs", theirs)):
        for verb, example in EXAMPLES.items():
            if example.is_of_all_queues or (verb == "record_action" and become != "role"):  # asks who logged in
                continue
            needed = example.right
            may = needed == ANYONE or needed in rights or bool(rights & WHAT_SUFFICES.get(needed, set()))
            refusal = house.refusal(example, queue)
            assert (refusal is None) == may, f"{verb} on {queue}: {refusal}"
            if refusal is not None:
                assert (
                    refusal.message_primary
                    == f"role {house.role} may not call pgqueue.{verb}{house.called(example, queue)}"
                )
                assert "An administrator allows it with pgqueue.grant_" in str(refusal.message_hint)
    for verb, example in EXAMPLES.items():
        if example.is_of_all_queues:
            assert (house.refusal(example, "mine") is None) == (example.right in theirs), verb


@pytest.mark.parametrize("kind", ROLES)
def test_every_role_gets_the_refusal_of_a_message_pinned_elsewhere(house: House, kind: str) -> None:
    given(house, kind)
    with house.as_the_role(), refused(PINNED_ELSEWHERE):
        house.connection.execute("select pgqueue._refuse_transaction('mine', '5')")


@pytest.mark.core
@pytest.mark.parametrize("kind", ["stranger", "receiver", "sender to all"])
def test_a_role_keeps_its_rights_when_the_role_that_logged_in_is_dropped(
    database: Database, house: House, kind: str
) -> None:
    mine, _ = given(house, kind)
    login = f"{house.role}_login"
    house.connection.execute(f"create role {login}; grant {house.role} to {login}".encode())
    house.connection.execute(f"set session authorization {login}; set role {house.role}".encode())
    with database.connect(autocommit=True) as onlooker:
        onlooker.execute(f"drop role {login}".encode())
    for verb in ("send", "receive", "pin", "complete"):
        example = EXAMPLES[verb]
        with nullcontext() if example.right in mine else refused(ACCESS_DENIED, verb):
            house.connection.execute(example.statement.encode(), house.arguments["mine"])


#: The rights that suffice in place of another one, for the same queue.
WHAT_SUFFICES = {SETTINGS: {SEND, RECEIVE, MONITOR}, MONITOR: {RECEIVE}, OUTCOME: {SEND, RECEIVE}}


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
    house.make_history()
    house.connection.execute(OF_A_STRANGER.format(role=house.role).encode())
    verbs = (
        "grant_admin('{role}')", "send('mine', '1')", "receive('mine')", "peek('mine')", "_check_reader()",
        "queue_settings()", "topic_settings()", "schedules_to_plan()", "discard_staged('night')", "sweep()",
    )  # fmt: skip
    for called in (*verbs, *(f"_error_line(null) from pgqueue.{view}" for view in (VIEWS | LIBRARY_VIEWS))):
        house.connection.execute(CALLS.format(role=house.role, called=called.format(role=house.role)).encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="within security-restricted operation"):
            house.connection.execute(f"reindex table {house.role}.bait".encode())
    house.connection.execute(f"drop schema {house.role} cascade".encode())


def test_a_materialized_view_cannot_read_what_a_view_shows(house: House) -> None:
    """Its owner is the caller of nothing: REFRESH by a superuser runs whatever the owner has put in it."""
    house.make_history()
    for view in VIEWS | LIBRARY_VIEWS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="within security-restricted operation"):
            house.connection.execute(f"create materialized view public.copy as select * from pgqueue.{view}".encode())


def test_verbs_for_all_queues_concern_those_that_the_role_may_use(house: House) -> None:
    for right in ("send", "receive"):
        house.ask(f"select pgqueue.grant_{right}('mine', %s)", house.role)
    mine, theirs = house.arguments["mine"], house.arguments["theirs"]
    published = ["mine", [theirs["staged"]], 0, "job day", 0]
    with house.as_the_role():
        assert house.all("select name from pgqueue.queue_settings() where name !~ '^open-'") == ["mine"]
        assert house.all("select id from pgqueue.schedules_to_plan()") == [mine["planned"]]
        assert house.all("select queue from pgqueue._subscribe('{mine,theirs}', '1 minute')") == ["mine"]
        house.ask("select * from pgqueue.publish(%s, %s, %s, %s, %s)", *published)  # once more: drops what was staged
        assert house.ask("select pgqueue.discard_staged('night')") == (1,)
        house.connection.execute("reset role")
        assert house.all("select name from pgqueue.staged_batch") == [theirs["staged"]]


def test_the_contents_of_messages_are_in_no_statistics(house: House) -> None:
    """The planner's estimates would reveal it to each role that may EXPLAIN a view."""
    assert house.connection.execute(WITH_STATISTICS, [[column.name for column in KEPT]]).fetchall() == []


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
    assert functions == EXAMPLES.keys()
    views = {name for (name,) in house.connection.execute(ALL_VIEWS).fetchall()}
    assert views == VIEWS.keys() | LIBRARY_VIEWS.keys() | {*WHOLE_TABLES, "_queue"}
