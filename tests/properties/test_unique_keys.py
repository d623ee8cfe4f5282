"""A machine sends messages with unique keys, receives and settles them; a model knows which of them has its key.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.properties.test_queue_model import EXAMPLES, STEPS
from tests.properties.world import MILLISECOND, World, created

DUPLICATE, INVALID_ARGUMENT = "PQ012", "PQ007"

keys = st.sampled_from("ab")
scopes = st.sampled_from([None, "waiting", "unsettled"])
conflicts = st.sampled_from(["ignore", "ignore", "replace", "raise"])
delays = st.sampled_from([None, None, 500, 3000])
times = st.sampled_from([400, 1000, 6000])
settlements = st.sampled_from(["complete", "abandon", "delay", "defer", "dead_letter"])

SEND = """
select pgqueue.send(%(queue)s, %(body)s, unique_key => %(key)s, unique_scope => %(scope)s,
                    on_conflict => %(on_conflict)s, scheduled_enqueue_time => pgqueue.clock() + %(delay)s)"""
SETTLE = {
    "complete": "select pgqueue.complete(%s, %s, %s)",
    "abandon": "select pgqueue.abandon(%s, %s, %s)",
    "delay": "select pgqueue.abandon(%s, %s, %s, delay => '2 s')",
    "defer": "select pgqueue.defer(%s, %s, %s)",
    "dead_letter": "select pgqueue.dead_letter(%s, %s, %s, reason => 'Tired')",
}
PRESENT = """
select sequence_number, body
  from (select sequence_number, queue_id, body from pgqueue.message
         union all
        select sequence_number, queue_id, body from pgqueue.scheduled_message) as message
 where queue_id = (select id from pgqueue.queue where name = %s)"""


@dataclass
class Expected:
    """A message that is in the queue, until when it is locked, and whether it is deferred."""

    body: int
    locked_until: int = 0
    is_deferred: bool = False


class Sending(RuleBasedStateMachine):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.connection = world.control
        self.holders: dict[str, int] = {}
        self.present: dict[int, Expected] = {}
        self.tokens: dict[int, Any] = {}
        self.sent = 0

    @initialize()
    def create(self) -> None:
        self.queue = self.world.new_queue(5000 * MILLISECOND, 1000)

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.world.drop_queue(self.queue)

    def has_its_key(self, number: int, scope: str | None) -> bool:
        known = self.present.get(number)
        if known is None:
            return False
        return scope == "unsettled" or not (known.is_deferred or known.locked_until > 0)

    @rule(key=keys, scope=scopes, on_conflict=conflicts, delay=delays)
    def send(self, key: str, scope: str | None, on_conflict: str, delay: int | None) -> None:
        self.sent += 1
        holder = self.holders.get(key)
        conflicts = holder is not None and self.has_its_key(holder, scope)
        given = {"queue": self.queue, "body": Jsonb(self.sent), "key": key, "scope": scope, "on_conflict": on_conflict}
        given["delay"] = None if delay is None else delay * MILLISECOND
        refusal = DUPLICATE if conflicts and on_conflict == "raise" else None
        if (on_conflict, scope) == ("replace", "unsettled"):
            refusal = INVALID_ARGUMENT
        if refusal is not None:
            with pytest.raises(psycopg.Error) as error:
                self.connection.execute(SEND, given)
            assert error.value.sqlstate == refusal
            return
        [(number,)] = self.connection.execute(SEND, given)
        if conflicts:
            assert number == holder
        else:
            assert number not in self.present
            self.holders[key] = number
        if not conflicts or on_conflict == "replace":
            self.present[number] = Expected(self.sent)
            self.tokens.pop(number, None)

    @rule()
    def receive(self) -> None:
        query = "select sequence_number, lock_token, body from pgqueue.receive(%s)"
        for number, token, body in self.connection.execute(query, [self.queue]).fetchall():
            assert self.present[number].body == body
            self.present[number].locked_until = self.world.now + 5000
            self.tokens[number] = token

    @rule(how=settlements)
    def settle(self, how: str) -> None:
        held = [number for number in self.tokens if self.present[number].locked_until > self.world.now]
        if not held:
            return
        number = held[0]
        self.connection.execute(SETTLE[how].encode(), [self.queue, number, self.tokens.pop(number)])
        if how in ("complete", "dead_letter"):
            del self.present[number]
        else:
            self.present[number].locked_until = 0
            self.present[number].is_deferred = how == "defer"

    @rule(milliseconds=times)
    def pass_time(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds)
        for number in [number for number in self.tokens if self.present[number].locked_until <= self.world.now]:
            del self.tokens[number]

    @rule()
    def sweep(self) -> None:
        self.connection.execute("select pgqueue.sweep(thorough => true)")

    @invariant()
    def every_message_is_there_once(self) -> None:
        if hasattr(self, "queue"):
            found = sorted(self.connection.execute(PRESENT, [self.queue]).fetchall())
            assert found == sorted((number, known.body) for number, known in self.present.items())
            assert self.world.broken_invariants() == []


def test_a_message_has_its_key_as_long_as_in_the_model(database: Database) -> None:
    with created(database, ["read committed"]) as world:
        run_state_machine_as_test(
            lambda: Sending(world),  # type: ignore[arg-type]
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
