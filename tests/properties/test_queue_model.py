"""A machine plays the same random verbs on a plain-Python model of a queue and on PostgreSQL, and compares.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make it play more, and longer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from pgqueue import LockLostError, Message, ReceivedMessage, SettlementResult
from pgqueue.statements import settling
from pgqueue.testing import Database
from pgqueue.transports import drive, shared
from tests.chaos.ledger import ANY_CLIENT
from tests.properties.model import EXHAUSTED
from tests.properties.play import EVERYTHING, Caller, Effect, Play, callers, deliveries, durations, places
from tests.properties.world import MILLISECOND, World, created, milliseconds

EXAMPLES = int(os.environ.get("PGQUEUE_EXAMPLES", "40"))
STEPS = int(os.environ.get("PGQUEUE_STEPS", "50"))

some = st.sampled_from([1, 2, 3, EVERYTHING])
delays = st.sampled_from([0, 0, 700, 4000])
times = st.sampled_from([40_000, 6000, 1100, 1000, 300, 1])
priorities = st.sampled_from([0, 0, 0, -1, 3])
Properties = dict[str, object] | None
properties = st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2)
batches = st.lists(deliveries, min_size=1, max_size=4)
verbs = st.sampled_from(["complete", "abandon", "dead-letter", "abandon"])

# No rule's being there depends on what PostgreSQL has answered: that may depend on what others do on the same server,
# and then an example could not be played again.
any_caller = precondition(lambda self: self.callers)


class Sending(Play):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sent = 0
        self._priorities = {0}

    @rule(priority=priorities, count=st.sampled_from([1, 1, 2, 5]), within=callers)
    def send(self, priority: int, count: int, within: int | None) -> None:
        """The first send of a priority makes others wait for its transaction, so it joins no open transaction."""
        caller = self.caller(within if priority in self._priorities else None)
        self._priorities.add(priority)
        messages = [Message({"sent": self._sent + n}, priority=priority) for n in range(count)]
        self._sent += count
        if count == 1:
            numbers = [self.queue(0).send(messages[0], transaction=caller.connection if caller else None)]
        else:
            numbers = self.queue(0).send_batch(messages, transaction=caller.connection if caller else None)
        assert numbers == sorted(numbers)
        for number, message in zip(numbers, messages, strict=True):
            self.model.send(number, message.body, priority, caller.transaction if caller else None)


class Receiving(Play):
    @rule(place=places, at_most=some, lock_duration=st.none() | durations)
    def receive(self, place: int, at_most: int, lock_duration: int | None) -> None:
        self.take(place, at_most, lock_duration)

    def take(self, place: int, at_most: int, lock_duration: int | None) -> list[ReceivedMessage]:
        lasting = None if lock_duration is None else lock_duration * MILLISECOND
        received = self.queue(place).receive(max_messages=at_most, lock_duration=lasting)
        self.judge(received, at_most, place)
        until = self.model.now + (lock_duration or self.lock_duration)
        for message in received:
            self.model.take(message.sequence_number, message.lock_token, until)
            self.compare(message, self.model.messages[message.sequence_number])
        self.remember(received)
        return received

    @rule(place=places, at_most=some, within=callers)
    def receive_and_delete(self, place: int, at_most: int, within: int | None) -> None:
        caller = self.caller(within)
        taken = self.queue(place).receive_and_delete(
            max_messages=at_most, transaction=caller.connection if caller else None
        )
        self.judge(taken, at_most, place, caller)
        for message in taken:
            assert message.delivery_count == self.model.messages[message.sequence_number].delivery_count + 1
        self.model.complete([message.sequence_number for message in taken], caller.transaction if caller else None)


class Settling(Receiving):
    @rule(which=batches, within=callers, verb=verbs, delay=delays, properties=properties)
    def settle(self, which: Sequence[int], within: int | None, verb: str, delay: int, properties: Properties) -> None:
        def act(messages: list[ReceivedMessage], transaction: Any) -> list[SettlementResult] | None:
            if len(messages) > 1:
                return self._settle_many(messages, verb, delay, properties, transaction)
            self._settle_one(messages[0], verb, delay, properties, transaction)
            return None

        effects: dict[str, Effect] = {
            "complete": self.model.complete,
            "abandon": partial(self.model.abandon, delay, properties or {}),
            "dead-letter": partial(self.model.dead_letter, "Disliked"),
        }
        self.compare_settlement(which, self.caller(within), act, effects[verb])

    @rule(place=places, at_most=some, within=callers, verb=verbs, delay=delays)
    def consume(self, place: int, at_most: int, within: int | None, verb: str, delay: int) -> None:
        if received := self.take(place, at_most, None):
            self.settle(range(1, len(received) + 1), within, verb, delay, None)

    @rule(which=batches)
    def release(self, which: Sequence[int]) -> None:
        def act(messages: list[ReceivedMessage], _: Any) -> list[SettlementResult]:
            released = settling.release_batch(self.name, [message.lock for message in messages])
            refusals = drive(messages[0]._source.execute(released))
            numbers = [message.sequence_number for message in messages]
            return [SettlementResult(number, refusals.get(number)) for number in numbers]

        self.compare_settlement(which, None, act, self.model.release)

    def _settle_one(
        self, message: ReceivedMessage, verb: str, delay: int, properties: Properties, transaction: Any
    ) -> None:
        match verb:
            case "complete":
                message.complete(transaction=transaction)
            case "abandon":
                message.abandon(delay=delay * MILLISECOND, properties=properties, transaction=transaction)
            case "dead-letter":
                message.dead_letter("Disliked", transaction=transaction)

    def _settle_many(
        self, messages: list[ReceivedMessage], verb: str, delay: int, properties: Properties, transaction: Any
    ) -> list[SettlementResult]:
        queue, lasting = self.queue(0), delay * MILLISECOND
        match verb:
            case "complete":
                return queue.complete_batch(messages, transaction=transaction)
            case "abandon":
                return queue.abandon_batch(messages, delay=lasting, properties=properties, transaction=transaction)
            case _:
                return queue.dead_letter_batch(messages, reason="Disliked", transaction=transaction)


class Renewing(Play):
    """Messages that an open transaction holds can be renewed too: that needs nothing, and does not wait."""

    @rule(which=batches, lock_duration=durations)
    def renew(self, which: list[int], lock_duration: int) -> None:
        chosen = self.chosen(which)
        ours = {number for number, message in chosen.items() if self.model.proves(number, message.lock_token)}
        if len(chosen) == 1:
            renewed = self._renew_one(next(iter(chosen.values())), lock_duration)
        else:
            results = self.queue(0).renew_lock_batch(chosen.values(), lock_duration=lock_duration * MILLISECOND)
            renewed = {result.sequence_number: result.locked_until for result in results if result.is_settled}
        assert renewed.keys() == ours
        for number, until in renewed.items():
            self._renewed(number, lock_duration, until)

    def _renew_one(self, message: ReceivedMessage, lock_duration: int) -> dict[int, datetime | None]:
        try:
            return {message.sequence_number: message.renew_lock(lock_duration=lock_duration * MILLISECOND)}
        except LockLostError:
            return {}

    def _renewed(self, number: int, lock_duration: int, until: datetime | None) -> None:
        self.model.renew(number, self.model.now + lock_duration)
        expected = self.model.seen(number)
        assert expected is not None
        has_run_out = until is None and expected.is_available(self.model.now)
        assert has_run_out or milliseconds(until) == expected.locked_until


class Selecting(Play):
    """Messages are deleted, cancelled and moved by their numbers, or by what matches, whatever their state."""

    def numbers(self, which: Sequence[int]) -> list[int]:
        """Numbers of messages, the newest first, whatever has become of them."""
        known = sorted(self.model.messages, reverse=True)
        return [known[abs(place) % len(known)] for place in which] if known else [0]

    @rule(which=batches, within=callers)
    def delete(self, which: Sequence[int], within: int | None) -> None:
        caller, numbers = self.caller(within), self.numbers(which)
        free = self.model.free(set(numbers), caller.transaction if caller else None)
        deleted = self.queue(0).delete_messages(numbers, transaction=caller.connection if caller else None)
        assert deleted == len(free)
        self.model.complete(free, caller.transaction if caller else None)

    @rule(value=st.integers(0, 3))
    def delete_matching(self, value: int) -> None:
        free = self.model.free(self.model.messages)
        matching = [number for number in free if self.model.messages[number].properties.get("a") == value]
        assert self.queue(0).delete_matching(application_properties={"a": value}) == len(matching)
        self.model.complete(matching)

    @rule(which=deliveries, reason=st.sampled_from([None, "Cancelled"]))
    def cancel(self, which: int, reason: str | None) -> None:
        (number,) = self.numbers([which])
        assert self.queue(0).cancel(number, reason=reason and "disliked") == self.model.cancel(number, reason)

    @rule(which=batches, within=callers)
    def move_and_return(self, which: Sequence[int], within: int | None) -> None:
        """To another queue and back, each behind all cursors of that queue."""
        caller, numbers = self.caller(within), self.numbers(which)
        free = self.model.free(set(numbers), caller.transaction if caller else None)
        transaction = caller.connection if caller else None
        away, there = self.queue(0), self.session(0).client.queue(self.elsewhere)
        assert away.move_messages(numbers, to=self.elsewhere, transaction=transaction) == len(free)
        assert there.move_messages(numbers, to=self.name, transaction=transaction) == len(free)
        self.model.move_and_return(free, caller.transaction if caller else None)


class Calling(Play):
    """Transactions of a caller's, with savepoints."""

    @rule(place=places)
    def begin(self, place: int) -> None:
        connection = self.session(place).calling
        if connection not in [caller.connection for caller in self.callers]:
            connection.execute("select pg_current_xact_id()")
            self.callers.append(Caller(connection))

    @any_caller
    @rule(which=deliveries, within=places)
    def pin(self, which: int, within: int) -> None:
        def act(messages: list[ReceivedMessage], connection: Any) -> None:
            for message in messages:
                drive(shared(connection, ANY_CLIENT, asynchronous=False).execute(settling.pin(message.lock)))

        if caller := self.caller(within):
            self.compare_settlement([which], caller, act, self.model.hold)

    @any_caller
    @rule(which=places, releases=st.booleans())
    def set_or_release_savepoint(self, which: int, releases: bool) -> None:
        caller = self.caller(which)
        if caller and not releases:
            caller.connection.execute(f"savepoint s{len(caller.transaction.levels)}".encode())
            self.model.set_savepoint(caller.transaction)
        elif caller and len(caller.transaction.levels) > 1:
            caller.connection.execute(f"release s{len(caller.transaction.levels) - 1}".encode())
            self.model.release_savepoint(caller.transaction)

    @any_caller
    @rule(which=places, savepoint=st.integers(1, 3))
    def roll_back_to_savepoint(self, which: int, savepoint: int) -> None:
        caller = self.callers[which % len(self.callers)]
        if savepoint < len(caller.transaction.levels):
            caller.connection.execute(f"rollback to s{savepoint}".encode())
            self.model.roll_back(caller.transaction, savepoint)

    @any_caller
    @rule(which=places, commits=st.booleans())
    def end(self, which: int, commits: bool) -> None:
        caller = self.callers.pop(which % len(self.callers))
        if commits:
            caller.connection.commit()
        else:
            caller.connection.rollback()
        if commits and not caller.transaction.is_broken:
            self.model.commit(caller.transaction)
        else:
            self.model.roll_back(caller.transaction)


class Passing(Play):
    """Time passes, and the queue is maintained now and then."""

    @rule(by=times)
    def pass_time(self, by: int) -> None:
        self.world.pass_time(by)
        self.model.now = self.world.now

    @rule(limit=st.none() | st.integers(1, 2))
    def resubmit_or_purge(self, limit: int | None) -> None:
        assert self.queue(0).dead_letters.resubmit(limit=limit) == self.model.resubmit(limit)
        if len(self.model.messages) > 12:
            assert self.session(1).client.purge_queue(self.name) == self.model.purge()

    @rule(place=places)
    def sweep(self, place: int) -> None:
        known = {number for number, message in self.model.messages.items() if message.reason}
        foreseen = self.session(place).client.sweep(dry_run=True)
        report = self.session(place).client.sweep()
        buried = self._buried(self.world.control) - known
        assert len(buried) == report.dead_lettered <= foreseen.dead_lettered
        for message in (self.model.messages[number] for number in buried):
            assert message.is_available(self.model.now)
            assert message.holder is None
            assert message.delivery_count >= self.model.max_delivery_count
        self.model.dead_letter(EXHAUSTED, buried)
        self.model.sweeps.append(self.model.now)

    @rule(max_delivery_count=st.integers(1, 4))
    def update(self, max_delivery_count: int) -> None:
        self.session(0).client.update_queue(self.name, max_delivery_count=max_delivery_count)
        self.model.max_delivery_count = max_delivery_count

    @rule(place=places, numbers=st.sampled_from([0, 150]))
    def forget_or_be_busy(self, place: int, numbers: int) -> None:
        """A session is replaced by a new one, which remembers no cursor; or others send to other queues."""
        if numbers:
            self.world.draw_numbers(numbers)
        else:
            self.session(place).receiving.execute("reset all")


class QueueMachine(Sending, Settling, Renewing, Selecting, Calling, Passing):
    """All of it, in a queue that is not empty at the beginning."""

    @initialize(lock_duration=durations, max_delivery_count=st.integers(1, 4), priority=priorities)
    def create(self, lock_duration: int, max_delivery_count: int, priority: int) -> None:
        self.open(lock_duration, max_delivery_count)
        self.send(priority, 5, None)
        self.send(0, 2, None)


@pytest.mark.core
def test_a_queue_does_what_its_model_does(database: Database) -> None:
    with created(database) as world:

        class Here(QueueMachine):
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
