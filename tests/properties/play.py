"""A queue in PostgreSQL and its model, the deliveries that are remembered, the transactions that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from pgqueue import LockLostError, PeekedMessage, ReceiveContext, ReceivedMessage, SettlementResult
from pgqueue import Queue as RealQueue
from pgqueue.model.row import LOCK_TOKEN
from tests.properties.model import EXHAUSTED, Message, Queue, Transaction
from tests.properties.world import MILLISECOND, Session, World, milliseconds

EVERYTHING = 1000
KEPT_DELIVERIES = 13

places = st.integers(0, 2)
callers = st.none() | st.integers(0, 2)
#: Which delivery, from 1 for the newest; a negative one with a token that was made up.
deliveries = st.sampled_from([1, 2, 3, 5, 8, KEPT_DELIVERIES, -1, -2, -5])
durations = st.sampled_from([1000, 5000, 30_000])

#: The action on the messages; a batch returns the outcome of each.
Act = Callable[[list[ReceivedMessage], Any], list[SettlementResult] | None]
Effect = Callable[[list[int], Transaction | None], object]

BURIED = """
select sequence_number from pgqueue.dead_letter
 where queue_id = (select id from pgqueue.queue where name = %s)"""


def forge(message: ReceivedMessage) -> None:
    """Give a delivery a token that was never given."""
    message.lock_token = UUID(int=0)
    message._row = (*message._row[:LOCK_TOKEN], str(message.lock_token), *message._row[LOCK_TOKEN + 1 :])


@dataclass(eq=False)
class Caller:
    """A caller with an open transaction."""

    connection: psycopg.Connection[Any]
    transaction: Transaction = field(default_factory=Transaction)


class Play(RuleBasedStateMachine):
    """The parts that all rules need, and the state that must be the same on both sides after each rule."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.deliveries: list[ReceivedMessage] = []
        self.callers: list[Caller] = []

    def open(self, lock_duration: int, max_delivery_count: int) -> None:
        self.lock_duration = lock_duration
        self.name = self.world.new_queue(lock_duration * MILLISECOND, max_delivery_count)
        self.elsewhere = self.world.new_queue(lock_duration * MILLISECOND, max_delivery_count)
        self.model = Queue(max_delivery_count, now=self.world.now)

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.world.drop_queue(self.name)
            self.world.drop_queue(self.elsewhere)

    @invariant()
    def both_hold_the_same(self) -> None:
        queue = self.queue(0)
        seen = {number: self.model.seen(number) for number in self.model.messages}
        there = {number: message for number, message in seen.items() if message is not None}
        waiting = queue.peek(max_messages=EVERYTHING)
        buried = queue.dead_letters.peek(max_messages=EVERYTHING)
        assert [peeked.sequence_number for peeked in waiting] == sorted(n for n, m in there.items() if not m.reason)
        assert [peeked.sequence_number for peeked in buried] == sorted(n for n, m in there.items() if m.reason)
        for peeked in [*waiting, *buried]:
            self.compare(peeked, there[peeked.sequence_number])

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.world.broken_invariants() == []

    def compare(self, found: PeekedMessage, expected: Message) -> None:
        assert found.body == expected.body
        assert found.priority == expected.priority
        assert found.delivery_count == expected.delivery_count
        assert (found.application_properties or {}) == expected.properties
        assert found.dead_letter_reason == expected.reason
        until, now = milliseconds(found.locked_until), self.model.now
        assert until == expected.locked_until or (until is None and (expected.locked_until or 0) <= now)

    def session(self, place: int) -> Session:
        return self.world.sessions[place]

    def queue(self, place: int) -> RealQueue:
        return self.session(place).client.queue(self.name)

    def caller(self, which: int | None) -> Caller | None:
        """A caller with an open transaction that can still be used; None when none is asked for, or none has one."""
        usable = [caller for caller in self.callers if not caller.transaction.is_broken]
        return usable[which % len(usable)] if which is not None and usable else None

    def chosen(self, which: Sequence[int]) -> dict[int, ReceivedMessage]:
        """Deliveries, the newest first, for a receiver that has the tokens, or has made them up."""
        chosen = {}
        for place in which:
            if abs(place) <= len(self.deliveries):
                message = copy(self.deliveries[-abs(place)])
                message.context = ReceiveContext()
                if place < 0:
                    forge(message)
                chosen[message.sequence_number] = message
        return chosen

    def remember(self, received: list[ReceivedMessage]) -> None:
        assert len({message.lock_token for message in received}) <= 1
        self.deliveries = (self.deliveries + received)[-KEPT_DELIVERIES:]

    def judge(self, received: Sequence[PeekedMessage], at_most: int, place: int, caller: Caller | None = None) -> None:
        """Whether a receive could return these; notes what it has dead-lettered."""
        returned = [message.sequence_number for message in received]
        known = {number for number, message in self.model.messages.items() if message.reason}
        by_the_turn = self._buried(self.world.control) - known  # which is no part of the caller's transaction
        buried = self._buried(caller.connection) - known if caller else by_the_turn
        transaction = caller.transaction if caller else None
        self.model.is_crowded = self.world.last_number > 100
        self.model.check_received(returned, buried, at_most, transaction)
        has_turned = not returned or (isinstance(received[0], ReceivedMessage) and len(returned) < at_most)
        if has_turned and self.session(place).takes_turns:
            self.model.check_missed({*returned, *buried}, is_empty=not returned, within=transaction)
        self.model.dead_letter(EXHAUSTED, by_the_turn)
        self.model.dead_letter(EXHAUSTED, buried - by_the_turn, transaction)
        self.model.receives.append(self.model.now)

    def compare_settlement(self, which: Sequence[int], caller: Caller | None, act: Act, effect: Effect) -> None:
        """Settles some deliveries, but none that a transaction holds: here the wait for that would last for ever."""
        transaction, connection = (caller.transaction, caller.connection) if caller else (None, None)
        chosen = self.chosen(which)
        messages = [message for number, message in chosen.items() if not self.model.is_held_from(number, transaction)]
        ours = [self.model.proves(message.sequence_number, message.lock_token, transaction) for message in messages]
        if not messages:
            return
        try:
            results = act(messages, connection)
        except LockLostError:
            assert not all(ours)
            if transaction is not None:
                self.model.fail(transaction)
        else:
            settled = ours if results is None else [result.is_settled for result in results]
            assert settled == ours
            assert all(ours) or (transaction is None and results is not None)
            effect(
                [message.sequence_number for message, is_ours in zip(messages, ours, strict=True) if is_ours],
                transaction,
            )

    def _buried(self, connection: psycopg.Connection[Any]) -> set[int]:
        return {number for (number,) in connection.execute(BURIED, [self.name])}
