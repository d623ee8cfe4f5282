"""A random forest of queues that forward messages and dead letters, against a model: each message is where it must be.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pgqueue import Message, QueueClient, ReceivedMessage
from pgqueue.errors import InvalidArgumentError, QueueDisabledError
from pgqueue.testing import Database
from tests.properties.test_queue_model import EXAMPLES, STEPS

NAMES = "abcdefg"
SETTINGS = ("forward_to", "forward_dead_lettered_messages_to")
PLACES = """
select sequence_number, name, is_dead, forwarded_from ->> 'queue', dead_letter_reason
  from pgqueue.queue
  join (select queue_id, sequence_number, false, null from pgqueue.message
         union all
        select queue_id, sequence_number, true, dead_letter_reason from pgqueue.dead_letter
       ) as message (queue_id, sequence_number, is_dead, dead_letter_reason) on message.queue_id = queue.id
  left join pgqueue.failed_message using (queue_id, sequence_number)
"""

names = st.sampled_from(NAMES)
targets = st.one_of(st.none(), names)


class RefusedError(Exception):
    """A queue on the way is disabled."""


@dataclass(frozen=True)
class Place:
    """Where a message is, and how it came there."""

    queue: str
    hops: int = 0
    source: str | None = None
    reason: str | None = None  # it is dead


class Model:
    """The expected outcome of messages, one at a time."""

    def __init__(self) -> None:
        self.edges: dict[str, dict[str, str | None]] = {name: dict.fromkeys(SETTINGS) for name in NAMES}
        self.disabled: set[str] = set()
        self.places: dict[int, Place] = {}

    def closes_a_cycle(self, queue: str, target: str) -> bool:
        reached, new = set[str | None](), {target}
        while new:
            reached |= new
            new = {edge for name in new for edge in self.edges[name].values() if edge} - reached
        return queue in reached

    def enter(self, place: Place, target: str) -> Place:
        if target in self.disabled:
            raise RefusedError
        return replace(place, queue=target, hops=place.hops + 1)

    def forward(self, place: Place) -> Place:
        while target := self.edges[place.queue]["forward_to"]:
            if place.hops == 4:
                return replace(place, hops=0, reason="MaxTransferHopCountExceeded")
            place = self.enter(place, target)
        return place

    def die(self, place: Place, reason: str) -> Place:
        stays = replace(place, hops=0, reason=reason)
        target = self.edges[place.queue]["forward_dead_lettered_messages_to"]
        if target is None:
            return stays
        if place.hops == 4:
            return replace(stays, reason="MaxTransferHopCountExceeded")
        try:
            return self.forward(self.enter(replace(place, source=place.queue), target))
        except RefusedError:
            return stays

    def sweep(self, locked: set[int]) -> None:
        for number, place in self.places.items():
            if place.reason is None and number not in locked:
                try:
                    self.places[number] = self.forward(place)
                except RefusedError:
                    self.places[number] = self.die(place, "ForwardingRefused")


class Forest(RuleBasedStateMachine):
    """Queues and their edges change while messages are sent, received, killed and resubmitted."""

    def __init__(self, client: QueueClient, connection: psycopg.Connection[Any]) -> None:
        super().__init__()
        self.client = client
        self.connection = connection
        self.model = Model()
        self.held: dict[int, ReceivedMessage] = {}

    @initialize(edges=st.lists(st.tuples(st.sampled_from(SETTINGS), st.sampled_from(NAMES[1:])), max_size=10))
    def plant(self, edges: list[tuple[str, str]]) -> None:
        for name in NAMES:
            self.client.create_queue(name)
        for setting, name in edges:
            self.connect(name, setting, NAMES[NAMES.index(name) - 1])

    def teardown(self) -> None:
        if not self.model.edges:
            return
        for name in NAMES:
            self.client.update_queue(name, forward_to=None, forward_dead_lettered_messages_to=None)
        for name in NAMES:
            self.client.delete_queue(name)

    @rule(queue=names, setting=st.sampled_from(SETTINGS), to=targets)
    def connect(self, queue: str, setting: str, to: str | None) -> None:
        change: Any = {setting: to}
        if to is not None and self.model.closes_a_cycle(queue, to):
            with pytest.raises(InvalidArgumentError, match="directly or through others"):
                self.client.update_queue(queue, **change)
        else:
            self.client.update_queue(queue, **change)
            self.model.edges[queue][setting] = to

    @rule(queue=names, is_disabled=st.sampled_from([True, False, False]))
    def disable(self, queue: str, is_disabled: bool) -> None:
        self.client.update_queue(queue, status="SEND_DISABLED" if is_disabled else "ACTIVE")
        (self.model.disabled.add if is_disabled else self.model.disabled.discard)(queue)

    @rule(queue=names, count=st.integers(1, 3), priority=st.integers(-1, 1))
    def send(self, queue: str, count: int, priority: int) -> None:
        messages = [Message("work", priority=priority)] * count
        try:
            if queue in self.model.disabled:
                raise RefusedError
            place = self.model.forward(Place(queue))
        except RefusedError:
            with pytest.raises(QueueDisabledError):
                self.client.queue(queue).send_batch(messages)
        else:
            self.model.places |= dict.fromkeys(self.client.queue(queue).send_batch(messages), place)

    @rule(queue=names, count=st.integers(1, 3))
    def receive(self, queue: str, count: int) -> None:
        if self.model.edges[queue]["forward_to"]:
            with pytest.raises(InvalidArgumentError, match="receive from there"):
                self.client.queue(queue).receive()
            return
        self.sweep()  # a turn forwards from upstream what the receive may need
        received = self.client.queue(queue).receive(max_messages=count)
        there = [
            number
            for number, place in self.model.places.items()
            if place.queue == queue and place.reason is None and number not in self.held
        ]
        assert len(received) == min(count, len(there))
        assert {message.sequence_number for message in received} <= set(there)
        for message in received:
            assert message.dead_letter_source == self.model.places[message.sequence_number].source
        self.held |= {message.sequence_number: message for message in received}

    @rule(verb=st.sampled_from(["complete", "abandon", "dead_letter", "dead_letter"]), count=st.integers(1, 2))
    def settle(self, verb: str, count: int) -> None:
        for number in list(self.held)[:count]:
            message = self.held.pop(number)
            if verb == "complete":
                message.complete()
                del self.model.places[number]
            elif verb == "abandon":
                message.abandon()
            else:
                message.dead_letter("Bad")
                self.model.places[number] = self.model.die(self.model.places[number], "Bad")

    @rule(queue=names)
    def resubmit(self, queue: str) -> None:
        dead = [number for number, place in self.model.places.items() if place.queue == queue and place.reason]
        try:
            places = {
                number: self.model.forward(replace(self.model.places[number], reason=None, hops=0)) for number in dead
            }
        except RefusedError:
            with pytest.raises(QueueDisabledError):
                self.client.queue(queue).dead_letters.resubmit()
        else:
            assert self.client.queue(queue).dead_letters.resubmit() == sorted(dead)
            self.model.places |= places

    @rule()
    def sweep(self) -> None:
        self.client.sweep()
        self.model.sweep(set(self.held))

    @invariant()
    def every_message_is_where_it_must_be(self) -> None:
        found = {
            number: (queue, is_dead, source, reason)
            for number, queue, is_dead, source, reason in self.connection.execute(PLACES)
        }
        assert found == {
            number: (place.queue, place.reason is not None, place.source, place.reason)
            for number, place in self.model.places.items()
        }


def test_a_forest_of_queues(database: Database) -> None:
    with QueueClient(database.dsn) as client, database.connect(autocommit=True) as connection:
        run_state_machine_as_test(
            lambda: Forest(client, connection),  # type: ignore[arg-type]  # called for each example
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []
