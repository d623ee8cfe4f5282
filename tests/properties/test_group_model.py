"""A machine plays the same random verbs on a model of groups and on PostgreSQL: what may be handed out, and must be.

Senders have transactions open, locks expire and are renewed, limits change, receivers crash. PGQUEUE_EXAMPLES and
PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.properties.world import MILLISECOND, World, created

EXAMPLES = int(os.environ.get("PGQUEUE_EXAMPLES", "40"))
STEPS = int(os.environ.get("PGQUEUE_STEPS", "50"))

LOCK_LOST = "PQ001"
GROUPS = "abc"
LASTS = 4000

groups = st.sampled_from(GROUPS)
limits = st.sampled_from([None, 1, 2, 3])
rates = st.sampled_from([None, None, 1, 2])
#: The transaction of a sender, or one of its own.
senders = st.none() | st.integers(0, 2)
newest = st.sampled_from([1, 1, 2, 3, 5])
times = st.sampled_from([1, 250, 500, 1000, LASTS, 9000])

LEFT = """
select sequence_number, session_id, lock_token::text, locked_until > pgqueue.clock() from pgqueue.message
 where queue_id = (select id from pgqueue.queue where name = %s) order by 1"""


@dataclass
class Message:
    number: int
    group: str
    token: str | None = None
    locked_until: int = 0


@dataclass
class Group:
    """The limits of a group, and what it has handed out: its slots, and the tokens that its bucket holds."""

    max_concurrent: int | None = None
    rate: int | None = None
    slots: set[tuple[int, str]] = field(default_factory=set)
    bucket: float = 0
    filled_at: int = 0
    #: How many receives have found something since it could have been served.
    passed_over: int = 0

    def tokens(self, now: int) -> float:
        return (
            99 if self.rate is None else min(max(self.rate, 1), self.bucket + self.rate * (now - self.filled_at) / 1000)
        )


class GroupMachine(RuleBasedStateMachine):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.messages: dict[int, Message] = {}
        self.groups: dict[str, Group] = {}
        self.deliveries: list[tuple[int, str]] = []
        self.uncommitted: dict[int, list[Message]] = {}

    @initialize(max_concurrent=limits, rate=rates)
    def create(self, max_concurrent: int | None, rate: int | None) -> None:
        self.name = self.world.new_queue(
            LASTS * MILLISECOND,
            1000,
            fair=True,
            max_concurrent_per_group=max_concurrent,
            max_receive_rate_per_group=rate,
        )
        for group in GROUPS:
            self.groups[group] = Group(max_concurrent, rate, bucket=rate or 0, filled_at=self.now)
            self.send(group, 2, None)

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.world.drop_queue(self.name)

    @property
    def now(self) -> int:
        return self.world.now

    @invariant()
    def both_hold_the_same(self) -> None:
        expected = [
            (m.number, m.group, m.token if m.locked_until > self.now else None)
            for m in sorted(self.messages.values(), key=lambda message: message.number)
        ]
        rows = self.world.control.execute(LEFT, [self.name]).fetchall()
        assert [(number, group, token if is_held else None) for number, group, token, is_held in rows] == expected
        assert self.world.broken_invariants() == []

    # Senders

    @rule(group=groups, count=st.sampled_from([1, 1, 4]), within=senders)
    def send(self, group: str, count: int, within: int | None) -> None:
        connection = self.world.control if within is None else self.world.sessions[within].calling
        sending = "select pgqueue.send(%s, %s, session_id => %s)"
        sent = []
        for _ in range(count):
            [(number,)] = connection.execute(sending, [self.name, Jsonb(1), group])
            sent.append(Message(number, group))
        if within is None:
            self.messages.update((message.number, message) for message in sent)
        else:
            self.uncommitted.setdefault(within, []).extend(sent)

    @rule(who=st.integers(0, 2), commits=st.sampled_from([True, True, False]))
    def end(self, who: int, commits: bool) -> None:
        sent = self.uncommitted.pop(who, [])
        connection = self.world.sessions[who].calling
        if commits:
            connection.commit()
            self.messages.update((message.number, message) for message in sent)
        else:
            connection.rollback()

    # Receivers

    @rule(at_most=st.sampled_from([1, 1, 2, 5, 100]))
    def receive(self, at_most: int) -> None:
        """Each group hands out its first free messages, no more than it may, and fewer only where it has none."""
        could = {group: self.allowed(group) for group in GROUPS}
        receiving = "select sequence_number, session_id, lock_token::text from pgqueue.receive(%s, %s)"
        rows = self.world.control.execute(receiving, [self.name, at_most]).fetchall()
        given = Counter(group for _, group, _ in rows)
        for group in GROUPS:
            assert sorted(n for n, of, _ in rows if of == group) == could[group][: given[group]], (group, could)
        assert len(rows) == min(at_most, sum(map(len, could.values()))), could
        for number, _, token in rows:
            self.messages[number].token, self.messages[number].locked_until = token, self.now + LASTS
            self.deliveries.append((number, token))
        for name, known in self.groups.items():
            known.bucket, known.filled_at = known.tokens(self.now) - given[name], self.now
            if known.max_concurrent is not None:
                known.slots |= {(number, token) for number, of, token in rows if of == name}
            known.passed_over = 0 if given[name] or not could[name] else known.passed_over + 1
            assert known.passed_over <= 2 * len(GROUPS), f"group {name} was passed over"

    def allowed(self, name: str) -> list[int]:
        """The messages that a group may hand out now, in their order."""
        group = self.groups[name]
        free = sorted(m.number for m in self.messages.values() if m.group == name and m.locked_until <= self.now)
        room = int(group.tokens(self.now) + 1e-6)
        if group.max_concurrent is not None:
            held = sum((m.number, m.token) in group.slots and m.locked_until > self.now for m in self.messages.values())
            room = min(room, max(0, group.max_concurrent - held))
        return free[:room]

    @rule(which=newest, verb=st.sampled_from(["complete", "complete", "abandon", "rest", "renew_lock", "shorten"]))
    def settle(self, which: int, verb: str) -> None:
        if which > len(self.deliveries):
            return
        number, token = self.deliveries[-which]
        known = self.messages.get(number)
        more = {"rest": [700 * MILLISECOND], "shorten": [300 * MILLISECOND]}.get(verb, [])
        name = {"rest": "abandon", "shorten": "renew_lock"}.get(verb, verb)
        places = ", ".join(["%s"] * (3 + len(more)))
        try:
            settling = f"select pgqueue.{name}({places})".encode()
            self.world.control.execute(settling, [self.name, number, token, *more])
        except psycopg.Error as error:
            refusal = error.sqlstate
        else:
            refusal = None
        if refusal is not None:  # an expired lock may have been lost to a slot
            assert refusal == LOCK_LOST
            assert known is None or known.token != token or known.locked_until <= self.now
            return
        assert known is not None
        assert known.token == token
        if verb == "complete":
            del self.messages[number]
        elif verb in ("abandon", "rest"):
            known.token, known.locked_until = None, self.now + (700 if verb == "rest" else 0)
        else:
            known.locked_until = self.now + (300 if verb == "shorten" else LASTS)

    @rule(group=groups, max_concurrent=limits)
    def limit(self, group: str, max_concurrent: int | None) -> None:
        """A limit that begins counts what is handed out from then on; one that ends forgets."""
        setting = "select pgqueue.set_group_limits(%s, %s, %s, %s)"
        known = self.groups[group]
        if (known.max_concurrent is None) == (max_concurrent is None):
            self.world.control.execute(setting, [self.name, group, max_concurrent or 0, known.rate or 0])
            known.max_concurrent = max_concurrent

    @rule(by=times)
    def pass_time(self, by: int) -> None:
        self.world.pass_time(by)

    @rule()
    def crash(self) -> None:
        for who in list(self.uncommitted):
            self.end(who, False)
        self.deliveries.clear()

    @rule()
    def sweep(self) -> None:
        self.world.sessions[0].client.sweep()


def test_groups_hand_out_what_they_may(database: Database) -> None:
    with created(database, ["read committed"] * 3) as world:

        class Here(GroupMachine):
            def __init__(self) -> None:
                super().__init__(world)

        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
