"""A machine plays the same random verbs on a model of sessions and on PostgreSQL: who may accept, and what must come.

Senders and holders have transactions open, locks expire, holders crash, and a message that failed comes again.
PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.properties.session_model import SECOND, Model, Transaction
from tests.properties.world import MILLISECOND, World, created

EXAMPLES = int(os.environ.get("PGQUEUE_EXAMPLES", "40"))
STEPS = int(os.environ.get("PGQUEUE_STEPS", "50"))

LOCK_LOST, SESSION_LOST, SESSION_HELD = "PQ001", "PQ020", "PQ021"
SESSIONS = "abc"

session_ids = st.sampled_from(SESSIONS)
#: The transaction of a step: that of one of three callers, or one of its own.
callers = st.none() | st.integers(0, 2)
#: Which of those that are remembered, from 1 for the newest.
newest = st.sampled_from([1, 1, 1, 2, 3, 5])
some = st.sampled_from([1, 1, 2, 100])
delays = st.sampled_from([0, 0, 700, 4000])
durations = st.sampled_from([1000, 5000, 30_000])
times = st.sampled_from([40_000, 6000, 1100, 1000, 300, 1])
verbs = st.sampled_from(["complete", "complete", "abandon", "dead_letter", "defer"])

LEFT = """
select sequence_number, session_id, delivery_count, case when deferred then 'deferred' else 'waiting' end
  from (select *, lane between 800 and 1200 as deferred from pgqueue.message) as message
 where queue_id = (select id from pgqueue.queue where name = %(queue)s)
 union all
select sequence_number, session_id, delivery_count, 'dead' from pgqueue.dead_letter
 where queue_id = (select id from pgqueue.queue where name = %(queue)s)
 order by 1"""

LOCKS = """
select session_id, lock_token::text from pgqueue.session
 where queue_id = (select id from pgqueue.queue where name = %s) and lock_token is not null"""


@dataclass(frozen=True)
class Held:
    """A session as its acceptor remembers it."""

    session_id: str
    token: str


@dataclass(frozen=True)
class Delivery:
    """A message as its receiver remembers it."""

    number: int
    held: Held


class SessionMachine(RuleBasedStateMachine):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.held: list[Held] = []
        self.deliveries: list[Delivery] = []
        self.open: dict[int, Transaction] = {}
        self.sent = 0

    @initialize(lock_duration=durations, max_delivery_count=st.integers(1, 4))
    def create(self, lock_duration: int, max_delivery_count: int) -> None:
        self.lock_duration = lock_duration
        self.name = self.world.new_queue(lock_duration * MILLISECOND, max_delivery_count, requires_session=True)
        self.model = Model(max_delivery_count, self.world.now)
        for session_id in SESSIONS[:2]:
            self.send(session_id, 3, None)

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.world.drop_queue(self.name)

    @invariant()
    def both_hold_the_same(self) -> None:
        expected = [
            (m.number, m.session_id, m.delivery_count, m.place)
            for m in sorted(self.model.messages.values(), key=lambda message: message.number)
        ]
        assert self.world.control.execute(LEFT, {"queue": self.name}).fetchall() == expected
        for session_id, session in self.model.sessions.items():
            assert self.call(None, "get_session_state", session_id) == [(session.state, None)]
        self.check_locks()
        assert self.world.broken_invariants() == []
        self.model.observe()

    # Senders

    @rule(session_id=session_ids, count=st.sampled_from([1, 2, 3]), within=callers)
    def send(self, session_id: str, count: int, within: int | None) -> None:
        numbers = []
        for _ in range(count):
            self.sent += 1
            sending = "select pgqueue.send(%s, %s, session_id => %s)"
            [(number,)] = self.connection(within).execute(sending, [self.name, Jsonb(self.sent), session_id])
            numbers.append(number)
        self.model.send(numbers, session_id, self.transaction(within))

    # Acceptors

    @rule(duration=st.none() | durations)
    def accept_next(self, duration: int | None) -> None:
        lasting = None if duration is None else duration * MILLISECOND
        accepted = self.call(None, "accept_session", None, lasting)
        if accepted:
            assert self.model.is_available(accepted[0][0]), f"{accepted} could not be accepted"
            self.note_accepted(accepted, duration)
        else:
            assert self.model.must_be_found() == []
        self.check_locks()

    @rule(session_id=session_ids, duration=st.none() | durations)
    def accept_named(self, session_id: str, duration: int | None) -> None:
        lasting = None if duration is None else duration * MILLISECOND
        accepted, refusal = self.attempt(None, "accept_session", session_id, lasting)
        assert refusal == (None if self.model.is_free(session_id) else SESSION_HELD)
        if refusal is None:
            self.note_accepted(accepted, duration)

    def note_accepted(self, accepted: list[Any], duration: int | None) -> None:
        [(session_id, token, _, state, _)] = accepted
        assert state == self.model.session(session_id).state
        self.held.append(Held(session_id, str(token)))
        self.model.accept(session_id, str(token), self.model.now + (duration or self.lock_duration))

    @rule(at_most=some)
    def take(self, at_most: int) -> None:
        """Accept the next session, and receive from it."""
        known = len(self.held)
        self.accept_next(None)
        if len(self.held) > known:
            self.receive(1, at_most)

    @rule(at_most=some, verb=verbs, delay=delays, within=callers)
    def work(self, at_most: int, verb: str, delay: int, within: int | None) -> None:
        """Receive more of a session, or of the next one, and settle the last message; then look at what comes next."""
        known = len(self.deliveries)
        self.receive(1, at_most)
        if len(self.deliveries) == known:
            self.take(at_most)
        self.settle(1, verb, delay, within)
        self.receive(1, at_most)

    @rule(by=times)
    def lose(self, by: int) -> None:
        """A lock expires, or is released, another caller accepts a session, and the last holder comes back."""
        known = len(self.deliveries)
        if by > SECOND:
            self.pass_time(by)
        else:
            self.release(1)
            self.pass_time(SECOND + by)
        self.accept_next(None)
        if known:
            self.settle(1, "complete", 0, None)

    @rule(which=newest, duration=durations)
    def renew(self, which: int, duration: int) -> None:
        if held := self.chosen(which):
            _, refusal = self.attempt(None, "renew_session_lock", held.session_id, held.token, duration * MILLISECOND)
            assert refusal == (None if self.holds(held) else SESSION_LOST)
            if refusal is None:
                self.model.renew(held.session_id, self.model.now + duration)

    @rule(which=newest)
    def release(self, which: int) -> None:
        if held := self.chosen(which):
            released = self.call(None, "release_session", held.session_id, held.token)
            assert released == [(self.model.release(held.session_id, held.token),)]

    # Receivers

    @rule(which=newest, at_most=some)
    def receive(self, which: int, at_most: int) -> None:
        if held := self.chosen(which):
            rows, refusal = self.attempt(None, "receive_from_session", held.session_id, held.token, at_most)
            assert refusal == (None if self.holds(held) else SESSION_LOST)
            if refusal is None:
                self.note_received(held, [row[0] for row in rows], self.model.receive(held.session_id, at_most))

    @rule(which=newest)
    def receive_deferred(self, which: int) -> None:
        held = self.chosen(which)
        deferred = [
            message.number
            for message in self.model.messages.values()
            if held and message.session_id == held.session_id and message.place == "deferred"
        ]
        if held and deferred and not self.is_settled_by_somebody(deferred[0]):
            sql = "select * from pgqueue.receive_deferred(%s, %s::bigint[], null, null, %s, %s)"
            rows, refusal = self._attempt(None, sql, [self.name, deferred[:1], held.session_id, held.token])
            assert refusal == (None if self.holds(held) else SESSION_LOST)
            if refusal is None:
                expected = self.model.receive_deferred(held.session_id, deferred[0])
                self.note_received(held, [row[0] for row in rows], expected)

    def note_received(self, held: Held, numbers: list[int], expected: list[int]) -> None:
        assert numbers == expected
        self.deliveries += [Delivery(number, held) for number in numbers]

    @rule(which=newest, verb=verbs, delay=delays, within=callers)
    def settle(self, which: int, verb: str, delay: int, within: int | None) -> None:
        if which > len(self.deliveries):
            return
        delivery = self.deliveries[-which]
        transaction = self.transaction(within)
        if self.is_settled_by_somebody(delivery.number, other_than=transaction):
            return  # it would wait for that transaction
        more = [delay * MILLISECOND] if verb == "abandon" and delay else ["tried"] if verb == "dead_letter" else []
        is_ours = self.model.proves(delivery.number, delivery.held.token, transaction)
        _, refusal = self.attempt(within, verb, delivery.number, delivery.held.token, *more)
        assert (refusal is None) == is_ours
        if refusal is None:
            self.model.settle(verb, delivery.number, delay if verb == "abandon" else 0, transaction)
        else:
            assert refusal in (LOCK_LOST, SESSION_LOST)
            self.fail(within)

    @rule(which=newest, state=st.none() | st.integers(0, 9), within=callers)
    def set_state(self, which: int, state: int | None, within: int | None) -> None:
        held, transaction = self.chosen(which), self.transaction(within)
        if held is None or self.model.session(held.session_id).written_by not in (None, transaction):
            return  # it would wait
        encoded = None if state is None else Jsonb(state)
        _, refusal = self.attempt(within, "set_session_state", held.session_id, held.token, encoded)
        assert refusal == (None if self.holds(held) else SESSION_LOST)
        if refusal is None:
            self.model.set_state(held.session_id, state, transaction)
        else:
            self.fail(within)

    # Transactions, crashes and time

    @rule(who=st.integers(0, 2))
    def begin(self, who: int) -> None:
        if who not in self.open:
            self.connection_of(who).execute("select pg_current_xact_id()")
            self.open[who] = self.model.begin()

    @rule(who=st.integers(0, 2), commits=st.sampled_from([True, True, False]))
    def end(self, who: int, commits: bool) -> None:
        if who in self.open:
            connection = self.connection_of(who)
            connection.commit() if commits else connection.rollback()
            self.model.end(self.open.pop(who), commits=commits)

    @rule()
    def crash(self) -> None:
        """All transactions are rolled back, and all that was received is forgotten: the locks run out."""
        for who in list(self.open):
            self.end(who, False)
        self.held.clear()
        self.deliveries.clear()

    @rule(by=times)
    def pass_time(self, by: int) -> None:
        self.world.pass_time(by)
        self.model.now = self.world.now

    @rule()
    def sweep(self) -> None:
        self.world.sessions[0].client.sweep()
        buried = {
            number for number, _, _, place in self.world.control.execute(LEFT, {"queue": self.name}) if place == "dead"
        }
        for message in self.model.messages.values():
            if message.number in buried and message.place != "dead":
                assert message.delivery_count >= self.model.max_delivery_count
                assert not self.model.is_in_hand(message)
                message.place, message.token = "dead", None

    # Parts that the rules need

    def check_locks(self) -> None:
        self.model.check_locks(dict(self.world.control.execute(LOCKS, [self.name]).fetchall()))

    def chosen(self, which: int) -> Held | None:
        return self.held[-which] if which <= len(self.held) else None

    def holds(self, held: Held) -> bool:
        return self.model.session(held.session_id).token == held.token

    def is_settled_by_somebody(self, number: int, other_than: Transaction | None = None) -> bool:
        return any(number in t.settled for t in self.model.transactions if t is not other_than)

    def transaction(self, within: int | None) -> Transaction | None:
        return None if within is None else self.open.get(within)

    def connection(self, within: int | None) -> psycopg.Connection[Any]:
        return self.world.control if within is None or within not in self.open else self.connection_of(within)

    def connection_of(self, who: int) -> psycopg.Connection[Any]:
        return self.world.sessions[who].calling

    def fail(self, within: int | None) -> None:
        """An error ends the transaction in which it was raised."""
        if within in self.open:
            self.end(within, False)

    def call(self, within: int | None, verb: str, *arguments: Any) -> list[Any]:
        rows, refusal = self.attempt(within, verb, *arguments)
        assert refusal is None, f"{verb} was refused: {refusal}"
        return rows

    def attempt(self, within: int | None, verb: str, *arguments: Any) -> tuple[list[Any], str | None]:
        """The rows that a verb returns, and the SQLSTATE of its refusal."""
        places = ", ".join(["%s"] * (1 + len(arguments)))
        return self._attempt(within, f"select * from pgqueue.{verb}({places})", [self.name, *arguments])

    def _attempt(self, within: int | None, sql: str, parameters: list[Any]) -> tuple[list[Any], str | None]:
        try:
            return self.connection(within).execute(sql.encode(), parameters).fetchall(), None
        except psycopg.Error as error:
            return [], error.sqlstate


def test_sessions_do_what_their_model_does(database: Database) -> None:
    with created(database, ["read committed"] * 3) as world:
        for connection in (world.control, *(session.calling for session in world.sessions)):
            connection.execute("set lock_timeout = '10s'")  # no caller may wait here for another
            if not connection.autocommit:
                connection.commit()

        class Here(SessionMachine):
            def __init__(self) -> None:
                super().__init__(world)

        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
