"""A machine sends members, settles and closes in two sessions' transactions; a model knows which batches are finished.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.properties.test_queue_model import EXAMPLES, STEPS
from tests.properties.world import MILLISECOND, World, created

who = st.sampled_from([0, 1])
#: How a settlement is counted that completes nothing.
COUNTED = {"dead_letter": "dead_lettered", "cancel": "deleted"}

CREATE = """
select pgqueue.create_batch(%(end)s, pgqueue.schedule(%(end)s, %(then)s, pgqueue.batch_end()),
                            case when %(fails)s then pgqueue.schedule(%(end)s, %(failed)s, pgqueue.batch_end()) end)"""
ADD = "select pgqueue.add_to_batch(%s, %s, array[pgqueue.send(%s, '1')])"
COUNTS = "select pending, completed, dead_lettered, deleted from pgqueue.batch_counts(%s)"
SENT = "select body from pgqueue.message where queue_id = (select id from pgqueue.queue where name = %s)"
SETTLE = {
    "complete": "select pgqueue.complete(%(queue)s, %(number)s, %(token)s)",
    "complete_batch": "select from pgqueue.complete_batch("
    "%(queue)s, array[%(number)s]::bigint[], array[%(token)s]::uuid[])",
    "dead_letter": "select pgqueue.dead_letter(%(queue)s, %(number)s, %(token)s, reason => 'Tired')",
    "cancel": "select pgqueue.cancel(%(queue)s, %(number)s)",
}


@dataclass
class Batch:
    """A batch as the committed transactions have left it."""

    id: UUID
    nth: int
    has_failure: bool
    is_closed: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> list[Any]:
        if not self.is_closed or self.counts["pending"]:
            return []
        return [[self.nth, "failed" if self.has_failure and self.counts["dead_lettered"] else "then"]]


@dataclass
class Session:
    """A session, what its open transaction will have done when it commits, and which batches it adds to or closes."""

    connection: psycopg.Connection[Any]
    is_open: bool = False
    done: list[Callable[[], None]] = field(default_factory=list)
    undone: list[Callable[[], None]] = field(default_factory=list)
    adds_to: set[int] = field(default_factory=set)
    closes: set[int] = field(default_factory=set)

    def does(self, done: Callable[[], None], undone: Callable[[], None] = lambda: None) -> None:
        if self.is_open:
            self.done.append(done)
            self.undone.append(undone)
        else:
            done()

    def ends(self, statement: str) -> None:
        self.connection.execute(statement.encode())
        for act in self.done if statement == "commit" else self.undone:
            act()
        self.is_open, self.done, self.undone, self.adds_to, self.closes = False, [], [], set(), set()


class Batches(RuleBasedStateMachine):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.sessions = [Session(each.calling) for each in world.sessions]
        self.batches: list[Batch] = []
        self.members: dict[int, Batch] = {}
        self.free: dict[int, Any] = {}

    @initialize()
    def create_queues(self) -> None:
        self.queue = self.world.new_queue(5000 * MILLISECOND, 1000)
        self.end = self.world.new_queue(5000 * MILLISECOND, 1000)
        for session in self.sessions:
            session.connection.rollback()
            session.connection.autocommit = True

    def teardown(self) -> None:
        if hasattr(self, "end"):
            for session in self.sessions:
                if session.is_open:
                    session.ends("rollback")
            for queue in (self.queue, self.end):
                self.world.drop_queue(queue)

    @rule(session=who)
    def begin(self, session: int) -> None:
        if not self.sessions[session].is_open:
            self.sessions[session].connection.execute("begin")
            self.sessions[session].is_open = True

    @rule(session=who, how=st.sampled_from(["commit", "commit", "rollback"]))
    def end_transaction(self, session: int, how: str) -> None:
        if self.sessions[session].is_open:
            self.sessions[session].ends(how)

    @rule(fails=st.booleans())
    def create(self, fails: bool) -> None:
        nth = len(self.batches)
        given = {"end": self.end, "then": Jsonb([nth, "then"]), "failed": Jsonb([nth, "failed"]), "fails": fails}
        [(batch,)] = self.world.control.execute(CREATE, given)
        self.batches.append(Batch(batch, nth, fails))

    def open_to(self, session: int, others: Callable[[Session], set[int]]) -> Batch | None:
        """The newest batch that this session takes for open, and that the other one does not lock."""
        one, other = self.sessions[session], self.sessions[1 - session]
        taken = [each for each in self.batches if not each.is_closed and each.nth not in one.closes | others(other)]
        return taken[-1] if taken else None

    @rule(session=who)
    def add(self, session: int) -> None:
        batch = self.open_to(session, lambda other: other.closes)
        if batch is None:
            return
        one = self.sessions[session]
        assert one.connection.execute(ADD, [batch.id, self.queue, self.queue]).fetchall() == [(1,)]
        [(number,)] = one.connection.execute("select currval('pgqueue.sequence_number')")
        if one.is_open:
            one.adds_to.add(batch.nth)

        def done() -> None:
            self.members[number] = batch
            batch.counts["pending"] += 1

        one.does(done)

    @rule(session=who)
    def close(self, session: int) -> None:
        batch = self.open_to(session, lambda other: other.closes | other.adds_to)
        if batch is None:
            return
        one = self.sessions[session]
        one.connection.execute("select pgqueue.close_batch(%s)", [batch.id])
        if one.is_open:
            one.closes.add(batch.nth)
        one.does(lambda: setattr(batch, "is_closed", True))

    @rule(how_many=st.integers(1, 3))
    def receive(self, how_many: int) -> None:
        query = "select sequence_number, lock_token from pgqueue.receive(%s, %s, '1 day')"
        self.free |= dict(self.world.control.execute(query, [self.queue, how_many]).fetchall())

    @rule(session=who, how=st.sampled_from(sorted(SETTLE)))
    def settle(self, session: int, how: str) -> None:
        if not self.free:
            return
        number, token = self.free.popitem()
        one, batch = self.sessions[session], self.members[number]
        one.connection.execute(SETTLE[how].encode(), {"queue": self.queue, "number": number, "token": token})

        def done() -> None:
            batch.counts["pending"] -= 1
            batch.counts[COUNTED.get(how, "completed")] += 1

        one.does(done, lambda: self.free.update({number: token}))

    @invariant()
    def batches_are_as_in_the_model(self) -> None:
        if not hasattr(self, "end"):
            return
        control = self.world.control
        for batch in self.batches:
            [found] = control.execute(COUNTS, [batch.id]).fetchall()
            assert found == tuple(batch.counts[name] for name in ("pending", "completed", "dead_lettered", "deleted"))
        sent = sorted(body for (body,) in control.execute(SENT, [self.end]))
        assert sent == sorted(body for batch in self.batches for body in batch.sent)
        assert self.world.broken_invariants() == []


def test_a_batch_ends_when_it_does_in_the_model(database: Database) -> None:
    with created(database, ["read committed", "read committed"]) as world:
        run_state_machine_as_test(
            lambda: Batches(world),  # type: ignore[arg-type]
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
