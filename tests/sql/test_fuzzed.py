"""Every function that others may call, with values of each type: it does its work, or refuses in words of its own.

An error that breaks here belongs into `corpus.sql`, which is called each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgqueue.model.columns import identifier
from pgqueue.testing.plugin import SharedServer
from tests.quiet import QuietServer
from tests.sql.example import EXAMPLES
from tests.sql.hostile import Written, hostile, literal
from tests.sql.house import House, house_in

CORPUS = [line for line in (Path(__file__).parent / "corpus.sql").read_text().splitlines() if not line.startswith("--")]

#: Functions that are no verbs: the library calls them, or views do.
LIBRARY = [
    "_await_outcomes", "_check_counts", "_check_reader", "_claim_plan", "_complete_delivery", "_due_in",
    "_error_line", "_is_deferred", "_last_held", "_may_see_locks", "_may_see_messages", "_may_view_sent",
    "_newest_number", "_next_xid", "_pin_delivery", "_priority", "_refuse_transaction", "_sequences_behind",
    "_settling_xid", "_subscribe",
]  # fmt: skip

GRANTED = """
select proname from pg_proc where pronamespace = 'pgqueue'::regnamespace
   and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee <> proowner)
"""

#: An example is small as it is, and to look for a smaller one takes minutes.
PHASES = [Phase.reuse, Phase.generate]

ALLOWED = {
    "42501": "the right of the caller, which the text names",
    "55000": "staged rows that are lost, or a part that is older than the last one",
    "2202E": "an array of two dimensions for a function of a view, which no table holds",
    "2D000": "the procedure commits, and was called in a transaction",
}
"""SQLSTATEs of refusals besides those of pgqueue's own, and what they are for."""

SIGNATURES = """
select proname, prokind = 'p', pronargs - pronargdefaults,
       array(select format_type(kind, null) from unnest(proargtypes) with ordinality as types (kind, nth) order by nth),
       array(select name from unnest(proargnames, proargmodes) with ordinality as named (name, mode, nth)
              where mode is null or mode in ('i', 'b', 'v') order by nth)
  from pg_proc
 where pronamespace = 'pgqueue'::regnamespace
"""

TABLES = """
select string_agg(
           format('select %1$L, md5(string_agg(row::text, '','' order by row::text)) from %1$s as row', oid::regclass),
           ' union all ') || ' order by 1'
  from pg_class
 where relkind = 'r' and relnamespace in ('pgqueue'::regnamespace, 'pgqueue_history'::regnamespace)
"""

VIEWS = """
select 'select ' || string_agg(format('(select count(%1$I::text) from pgqueue.%1$I)', relname), ', ')
  from pg_class
 where relkind = 'v' and relnamespace = 'pgqueue'::regnamespace
"""

#: Calls that read what was stored, whatever it is; {queue} is the one that was named.
READING = [
    "select pgqueue.take_turn({queue})",
    "select row_to_json(found) from pgqueue.receive({queue}, 10) as found",
    "select row_to_json(found) from pgqueue.accept_session({queue}) as found",
    "select row_to_json(found) from pgqueue.peek({queue}, 10) as found",
    "select row_to_json(found) from pgqueue.find_messages({queue}, max_messages => 10) as found",
    "select row_to_json(found) from pgqueue.queue_counts() as found",
    "select row_to_json(found) from pgqueue.queue_settings() as found",
    "select row_to_json(found) from pgqueue.sweep(thorough => true) as found",
    "select pgqueue.take_sample()",
]

SET_CLOCK = "select setval('pgqueue_testing.clock_shift', %s)"
LATER = [timedelta(0), timedelta(hours=1), timedelta(days=400), timedelta(days=40_000)]

#: Values of arguments that no test has stored.
USUAL: Mapping[str, Sequence[str]] = {
    "action": ["send"], "at": ["2099-01-01"], "bodies": ["{1,2}"], "body": ["1"], "columns": ["{body}"],
    "correlation_filter": ["{}", '{"subject": "x"}'], "cron": ["0 0 * * *"], "every": ["1 day"], "delay": ["1 hour"],
    "due_times": ["{2099-01-01}"], "host": ["host"], "json_path_filter": ["$.a"], "max_messages": ["10"], "pid": ["1"],
    "reason": ["reason"], "rows": ["1"], "sql_filter": ["a = 1"], "state": ["1"], "version": ["1.0"],
    "concurrency": ["8"], "status": ["ACTIVE"], "timezone": ["UTC", "Europe/Berlin"], "job": ["night", "new"],
    "part": ["1"], "rule": ["$Default", "new"], "subscription": ["s", "new"], "lock_duration": ["1 minute"],
    "error": ['{"type": "E"}'], "unique_scope": ["unsettled"], "on_conflict": ["replace", "raise"],
    "catch_up": ["ALL", "LATEST"], "jitter": ["1 second"], "older_than": ["0"],
}  # fmt: skip

#: Other names for what a scene knows.
ALIASES = {
    "sequence_number": "number", "sequence_numbers": "number", "after": "number", "from_sequence_number": "number",
    "up_to": "number", "on_failure": "held", "lock_token": "token", "lock_tokens": "token", "to": "open",
    "queues": "queue", "forward_to": "open", "forward_dead_lettered_messages_to": "open", "group_id": "session_id",
    "session_ids": "session_id", "name": "key", "id": "planned", "reply_to_session_id": "session_id",
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    name: str
    kind: str
    is_required: bool


@dataclass(frozen=True)
class Function:
    name: str
    is_procedure: bool
    arguments: tuple[Argument, ...]

    def call(self, values: Mapping[str, str]) -> str:
        given = ", ".join(f"{identifier(name)} => {value}" for name, value in values.items())
        return f"{'call' if self.is_procedure else 'select * from'} pgqueue.{self.name}({given})"


@dataclass(frozen=True)
class Scene:
    """Queues of each kind with messages of each kind, in a database of their own."""

    house: House
    functions: Mapping[str, Function]
    version: int
    views: str

    @property
    def connection(self) -> psycopg.Connection[Any]:
        return self.house.connection

    def calls(self, function: Function) -> st.SearchStrategy[tuple[str, str]]:
        """Calls of a function, most arguments of which name what exists, and the queue that they are about."""
        return st.sampled_from(sorted(self.house.arguments)).flatmap(
            lambda queue: st.tuples(self._calls(function, queue), st.just(queue))
        )

    def _calls(self, function: Function, queue: str) -> Written:
        known = {each.name: self._known(each, queue) for each in function.arguments}
        usual = {name: written for name, written in known.items() if written is not None}
        names = [each.name for each in function.arguments]
        odd = st.sets(st.sampled_from(names), max_size=3) if names else st.just(set())

        def values(chosen: set[str]) -> st.SearchStrategy[dict[str, str]]:
            hostiles = {each.name: hostile(each.kind, self.version) for each in function.arguments}
            given = hostiles | usual | {name: hostiles[name] for name in chosen}
            required = {each.name for each in function.arguments if each.is_required} | chosen
            return st.fixed_dictionaries(
                {name: given[name] for name in names if name in required},
                optional={name: given[name] for name in usual if name not in required},
            )

        return odd.flatmap(values).map(function.call)

    def _known(self, argument: Argument, queue: str) -> Written | None:
        """Values that make sense, or None if no such are known."""
        of_queue = self.house.arguments[queue]
        name = ALIASES.get(argument.name, argument.name)
        found = [str(of_queue[name])] if name in of_queue else USUAL.get(argument.name)
        if found is None:
            return None
        if argument.kind.endswith("[]") and name in of_queue:
            found = [f"{{{text}}}" for text in found]
        if argument.kind == "jsonb" and argument.name == "reason":
            return None
        return st.sampled_from([literal(argument.kind, text) for text in found])

    def digest(self) -> list[tuple[Any, ...]]:
        """Of each table that there is: a call may drop one."""
        [(tables,)] = self.connection.execute(TABLES.encode()).fetchall()
        return self.connection.execute(tables.encode()).fetchall()


@contextmanager
def scene_in(server: QuietServer | SharedServer) -> Iterator[Scene]:
    with server.database(server.template) as database, house_in(database) as house:
        furnish(house)
        connection = house.connection
        connection.execute("set statement_timeout = '60s'; set lock_timeout = '10s'")
        functions = {
            name: Function(
                name,
                is_procedure,
                tuple(Argument(*each, nth < required) for nth, each in enumerate(zip(names, kinds, strict=True))),
            )
            for name, is_procedure, required, kinds, names in connection.execute(SIGNATURES.encode())
        }
        [(views,)] = connection.execute(VIEWS.encode()).fetchall()
        yield Scene(house, functions, connection.info.server_version // 10_000, views)


def furnish(house: House) -> None:
    """Add queues with sessions, groups, limits, and a dead letter that is locked."""
    mine = house.arguments["mine"]
    house.ask("select pgqueue.create_queue('steps', requires_session => true)")
    house.ask("select pgqueue.create_queue('groups', fair => true, max_concurrent_per_group => 5)")
    house.ask(
        """select pgqueue.create_queue('narrow', max_message_size => 1000, max_queue_length => 100,
               requires_duplicate_detection => true, default_message_time_to_live => '1 day', retain_history => '1 day',
               result_retention => '1 day', retain_errors => 3, max_receive_rate => 100, max_concurrent => 50,
               priority_ageing => '1 hour', forward_dead_lettered_messages_to => 'open-mine')"""
    )
    for queue in ("steps", "groups"):
        for session in ("a", "b"):
            number, *_ = house.ask("select pgqueue.send(%s, '1', session_id => %s)", queue, session)
        token = None
        if queue == "steps":
            ((token, *_),) = [house.ask("select lock_token from pgqueue.accept_session('steps', 'a')")]
            number, *_ = house.ask("select sequence_number from pgqueue.receive_from_session('steps', 'a', %s)", token)
        else:
            number, token = house.ask("select sequence_number, lock_token from pgqueue.receive('groups')")
        house.arguments[queue] = {**mine, "queue": queue, "number": number, "token": token, "session_id": "a"}
    house.ask("select pgqueue.send('narrow', '1', message_id => 'id', unique_key => 'k')")
    number, token = house.ask("select sequence_number, lock_token from pgqueue.receive('narrow')")
    house.ask("select pgqueue.send('narrow', '2', message_id => 'other')")
    house.arguments["narrow"] = {**mine, "queue": "narrow", "number": number, "token": token, "message_id": "id"}
    dead = "mine/$deadletterqueue"
    number, token = house.ask("select sequence_number, lock_token from pgqueue.receive(%s)", dead)
    house.arguments[dead] = {**mine, "queue": dead, "number": number, "token": token}
    subscription = "topic-mine/Subscriptions/s"
    house.ask("select * from pgqueue.publish_to_topic('topic-mine', '1')")
    number, token = house.ask("select sequence_number, lock_token from pgqueue.receive(%s)", subscription)
    house.arguments[subscription] = {**mine, "queue": subscription, "number": number, "token": token}


def refuses_in_words(error: psycopg.Error, call: str) -> None:
    state = error.sqlstate or ""
    assert state.startswith("PQ") or state in ALLOWED, f"{call}\nraised {state}: {error}"
    if state == "42501":
        assert str(error).startswith("role "), f"{call}\nraised {error}"


def makes(scene: Scene, call: str) -> bool:
    """Whether a call succeeds; if not, it must refuse in words."""
    try:
        with scene.connection.transaction():
            scene.connection.execute(call.encode())
            scene.connection.execute("set constraints all immediate")
    except psycopg.Error as error:
        refuses_in_words(error, call)
        return False
    return True


def check_all(scene: Scene, queue: str, after: str) -> None:
    """All that was stored can be read, and is as it must be."""
    for call in [*READING, scene.views]:
        makes(scene, call.replace("{queue}", literal("text", queue)))
    broken = scene.connection.execute("select pgqueue.broken_invariants()").fetchall()
    assert broken == [], f"{after}\nbroke {broken}"


def check_call(scene: Scene, call: str, queue: str, later: timedelta = LATER[0], role: str = "none") -> None:
    """A call, and what follows from it some time later. Nothing of it lasts."""
    try:
        with scene.connection.transaction(force_rollback=True):
            scene.connection.execute(f"set local role {role}".encode())
            is_made = makes(scene, call)
            scene.connection.execute("reset role")
            if is_made:
                scene.connection.execute(SET_CLOCK, [later // timedelta(microseconds=1)])
                check_all(scene, queue, call)
    except AssertionError as error:
        error.add_note(f"{later} after\n{call}")
        raise
    finally:
        scene.connection.execute(SET_CLOCK, [0])


@pytest.fixture(scope="module")
def scene(quiet_server: QuietServer) -> Iterator[Scene]:
    with scene_in(quiet_server) as scene:
        yield scene


def test_no_function_is_left_out(scene: Scene) -> None:
    granted = {name for (name,) in scene.connection.execute(GRANTED).fetchall()}
    assert granted == {*EXAMPLES, *LIBRARY}


@pytest.mark.parametrize("name", [*EXAMPLES, *LIBRARY])
def test_a_function_does_its_work_or_refuses_in_words(scene: Scene, name: str) -> None:
    @settings(max_examples=15, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(scene.calls(scene.functions[name]), st.sampled_from(LATER), st.integers(0, 9))
    def try_out(call: tuple[str, str], later: timedelta, nth: int) -> None:
        check_call(scene, *call, later, "none" if nth else scene.house.role)

    try_out()


@settings(max_examples=10, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_calls_one_after_the_other_leave_all_as_it_must_be(quiet_server: QuietServer, data: st.DataObject) -> None:
    """Each is committed, and one that is refused has changed nothing."""
    with scene_in(quiet_server) as scene:
        made: list[str] = []
        for name in data.draw(st.lists(st.sampled_from(sorted(EXAMPLES)), min_size=5, max_size=30)):
            call, _ = data.draw(scene.calls(scene.functions[name]))
            before = scene.digest()
            try:
                scene.connection.execute(call.encode())
                made.append(call)
            except psycopg.Error as error:
                refuses_in_words(error, "\n".join([*made, call]))
                assert scene.digest() == before, "\n".join([*made, call])
        check_all(scene, "mine", "\n".join(made))


@pytest.mark.parametrize("call", CORPUS)
@pytest.mark.parametrize("later", [LATER[0], LATER[-1]], ids=["now", "later"])
def test_a_call_that_once_broke(scene: Scene, call: str, later: timedelta) -> None:
    arguments = scene.house.arguments["mine"]
    written = re.sub(r":'(\w+)'", lambda found: f"'{arguments[found[1]]}'", call)
    check_call(scene, written, "mine", later)
