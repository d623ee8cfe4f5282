"""Nothing is lost and nothing doubled: random verbs, clock moves and aborted transactions, alone and in a crowd.

PGQUEUE_EXAMPLES and PGQUEUE_STEPS make the first of these tests play more, and longer.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pgqueue import Message, Queue, QueueClient, ReceivedMessage
from pgqueue.errors import LockLostError, MessageNotFoundError, QueueFullError, TransactionConflictError
from pgqueue.testing import Database
from tests.properties.books import Books
from tests.properties.test_queue_model import EXAMPLES, STEPS
from tests.properties.world import MILLISECOND, World, created

WINDOW = timedelta(seconds=20)
SECOND = timedelta(seconds=1)

lives = st.sampled_from([None, None, timedelta(milliseconds=500), 5 * SECOND])
ids = st.sampled_from([None, "a", "b"])
waits = st.sampled_from([None, None, None, SECOND, 5 * SECOND])
commits = st.sampled_from([True, True, False])
settlements = st.lists(
    st.sampled_from(["complete", "abandon", "abandon later", "dead_letter", "defer"]), min_size=1, max_size=3
)

SETTLE: dict[str, Callable[[ReceivedMessage, Any], object]] = {
    "complete": lambda received, transaction: received.complete(transaction=transaction),
    "abandon": lambda received, transaction: received.abandon(transaction=transaction),
    "abandon later": lambda received, transaction: received.abandon(delay=SECOND, transaction=transaction),
    "dead_letter": lambda received, transaction: received.dead_letter("Bad", transaction=transaction),
    "defer": lambda received, transaction: received.defer(transaction=transaction),
}


class Conservation(RuleBasedStateMachine):
    """One queue with everything switched on that a queue can have."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.client: QueueClient = world.sessions[0].client
        self.connection: psycopg.Connection[Any] = world.sessions[0].calling
        self.held: list[ReceivedMessage] = []
        self.stored_at: dict[str, int] = {}

    @initialize(
        max_delivery_count=st.integers(1, 3),
        buries=st.booleans(),
        default_life=st.sampled_from([None, 3 * SECOND]),
        length=st.sampled_from([None, 6]),
    )
    def open(self, max_delivery_count: int, buries: bool, default_life: timedelta | None, length: int | None) -> None:
        name = self.world.new_queue(SECOND, max_delivery_count)
        self.client.update_queue(
            name,
            default_message_time_to_live=default_life,
            dead_lettering_on_message_expiration=buries,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window=WINDOW,
            max_queue_length=length,
            retain_history=timedelta(days=60),
        )
        self.queue: Queue = self.client.queue(name)
        self.books = Books(name)

    def teardown(self) -> None:
        if hasattr(self, "books"):
            self.world.drop_queue(self.books.queue)

    @rule(life=lives, message_id=ids, wait=waits, commit=commits)
    def send(self, life: timedelta | None, message_id: str | None, wait: timedelta | None, commit: bool) -> None:
        ((at,),) = self.connection.execute("select pgqueue.clock() + %s", [wait])
        message = Message("work", message_id=message_id, time_to_live=life, scheduled_enqueue_time=at)
        try:
            number = self.queue.send(message, transaction=self.connection)
        except QueueFullError:
            self.connection.rollback()
            return
        stored_at = None if message_id is None else self.stored_at.get(message_id)
        assert number.is_duplicate == (stored_at is not None and self.world.now - stored_at < WINDOW // MILLISECOND)
        assert not number.is_duplicate or number in self.books.sent
        if commit and not number.is_duplicate:
            self.books.sent.add(number)
            if message_id is not None:
                self.stored_at[message_id] = self.world.now
        self.end(commit)

    @rule(count=st.integers(1, 3))
    def receive(self, count: int) -> None:
        self.held += self.queue.receive(max_messages=count)

    @rule(count=st.integers(1, 2), commit=commits)
    def receive_and_delete(self, count: int, commit: bool) -> None:
        self.queue.receive_and_delete(max_messages=count, transaction=self.connection)
        self.end(commit)

    @rule(verbs=settlements, commit=commits)
    def settle(self, verbs: list[str], commit: bool) -> None:
        chosen = self.held[-len(verbs) :]
        try:
            for received, verb in zip(chosen, verbs, strict=False):
                SETTLE[verb](received, self.connection)
        except LockLostError:
            commit = False
        self.end(commit)
        self.held = [received for received in self.held if received not in chosen]

    @rule(commit=commits)
    def receive_the_deferred_ones(self, commit: bool) -> None:
        numbers = [message.sequence_number for message in self.queue.peek(max_messages=100) if message.is_deferred]
        self.held += self.queue.receive_deferred(numbers)

    @rule(commit=commits)
    def cancel_the_scheduled_ones(self, commit: bool) -> None:
        peeked = self.queue.peek(max_messages=100)
        numbers = [message.sequence_number for message in peeked if message.scheduled_enqueue_time]
        self.queue.cancel_scheduled(numbers, transaction=self.connection)
        self.end(commit)

    @rule(complete=st.booleans(), commit=commits)
    def settle_a_dead_letter(self, complete: bool, commit: bool) -> None:
        for received in self.queue.dead_letters.receive():
            SETTLE["complete" if complete else "abandon"](received, self.connection)
            if complete and commit:
                self.books.dead_and_gone.add(received.sequence_number)
            self.end(commit)

    @rule(limit=st.sampled_from([None, 1]))
    def resubmit(self, limit: int | None) -> None:
        self.queue.dead_letters.resubmit(limit=limit)

    @rule(dead=st.booleans())
    def purge(self, dead: bool) -> None:
        if not dead:
            self.client.purge_queue(self.books.queue)
            return
        self.books.dead_and_gone |= {each.sequence_number for each in self.queue.dead_letters.peek(max_messages=1000)}
        self.queue.dead_letters.purge()

    @rule()
    def sweep(self) -> None:
        self.client.sweep()

    @rule(milliseconds=st.sampled_from([1, 600, 1100, 6000, 21_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.world.pass_time(milliseconds)

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        if hasattr(self, "books"):
            self.books.check(self.world.control)
            assert self.world.broken_invariants() == []

    def end(self, commit: bool) -> None:
        if commit:
            self.connection.commit()
        else:
            self.connection.rollback()


def test_every_message_is_in_one_place_whatever_is_done(database: Database) -> None:
    with created(database) as world:

        class Here(Conservation):
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


class Worker:
    """One of many workers: sends, receives and settles at random, and aborts every now and then."""

    def __init__(self, database: Database, queue: str, seed: int, go: threading.Barrier) -> None:
        self.database = database
        self.queue = queue
        self.luck = random.Random(seed)
        self.go = go
        self.sent: list[int] = []
        self.dead_and_gone: list[int] = []

    def work(self, steps: int) -> None:
        with QueueClient(self.database.dsn) as client, self.database.connect() as connection:
            queue = client.queue(self.queue)
            self.go.wait()
            for _ in range(steps):
                step = self.luck.choice([self.send, self.send, self.settle, self.settle, self.settle_dead, self.tidy])
                try:
                    step(queue, connection)
                except (LockLostError, MessageNotFoundError, QueueFullError, TransactionConflictError):
                    connection.rollback()

    def send(self, queue: Queue, connection: psycopg.Connection[Any]) -> None:
        """The same few ids as all others, in a batch, in any order."""
        ids = self.luck.sample("abcdefghijklmnopqrstuvwxyz", 5)
        messages = [Message(each, message_id=each) for each in ids] + [Message("x", time_to_live=MILLISECOND)]
        numbers = queue.send_batch(messages, transaction=connection)
        if self.luck.random() < 0.3:
            connection.rollback()
        else:
            connection.commit()
            self.sent += [number for number in numbers if not number.is_duplicate]

    def settle(self, queue: Queue, connection: psycopg.Connection[Any]) -> None:
        for received in queue.receive(max_messages=3):
            SETTLE[self.luck.choice([*SETTLE])](received, connection)
        self.end(connection)

    def settle_dead(self, queue: Queue, connection: psycopg.Connection[Any]) -> None:
        received = queue.dead_letters.receive(max_messages=2)
        for each in received:
            each.complete(transaction=connection)
        if self.end(connection):
            self.dead_and_gone += [each.sequence_number for each in received]

    def tidy(self, queue: Queue, connection: psycopg.Connection[Any]) -> None:
        deferred = [each.sequence_number for each in queue.peek(max_messages=100) if each.is_deferred]
        for each in queue.receive_deferred(self.luck.sample(deferred, min(2, len(deferred)))):
            each.complete()
        queue.dead_letters.resubmit(limit=1)

    def end(self, connection: psycopg.Connection[Any]) -> bool:
        commit = self.luck.random() < 0.7
        if commit:
            connection.commit()
        else:
            connection.rollback()
        return commit


def test_in_a_crowd_every_message_is_in_one_place_and_every_id_was_stored_once(database: Database) -> None:
    with QueueClient(database.dsn) as client:
        client.create_queue(
            "crowded",
            lock_duration=timedelta(milliseconds=200),
            requires_duplicate_detection=True,
            retain_history=timedelta(days=1),
        )
    go = threading.Barrier(6)
    crowd = [Worker(database, "crowded", seed, go) for seed in range(6)]
    with ThreadPoolExecutor(6) as threads:
        for outcome in [threads.submit(worker.work, 60) for worker in crowd]:
            outcome.result()
    books = Books(
        "crowded",
        sent={number for worker in crowd for number in worker.sent},
        dead_and_gone={number for worker in crowd for number in worker.dead_and_gone},
    )
    assert len(books.sent) == sum(len(worker.sent) for worker in crowd)
    with database.connect() as connection:
        books.check(connection)
        remembered = connection.execute("select message_id, sequence_number from pgqueue.sent_message_id").fetchall()
        stored = """select message_id, count(distinct sequence_number)
                      from (select message_id, sequence_number from pgqueue.message
                             union select message_id, sequence_number from pgqueue.scheduled_message
                             union select message_id, sequence_number from pgqueue.dead_letter
                             union select message_id, sequence_number from pgqueue.history) as anywhere
                     where message_id is not null group by message_id"""
        assert {count for _, count in connection.execute(stored)} == {1}
        assert {number for _, number in remembered} <= books.sent
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []
        tally = books.tally(connection)
    assert tally["COMPLETED"] > 0
    assert tally["EXPIRED"] > 0
