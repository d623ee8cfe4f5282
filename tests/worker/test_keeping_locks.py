"""Locks are kept while a handler runs; a lost lock is reported, and delays no other message."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgqueue
from pgqueue import Message
from pgqueue.errors import HandlerTimeoutError, InvalidStateError, LockLostError
from pgqueue.statements import Statement, backends
from pgqueue.statements.statement import nothing
from pgqueue.testing.clock import Clock
from pgqueue.testing.plugin import SharedServer
from pgqueue.worker.dispatcher import Dispatcher
from tests.patience import eventually
from tests.worker.scene import Scene, effect

SHORT = timedelta(milliseconds=300)

STOP_THE_CLOCK = """
create or replace function pgqueue.clock() returns timestamptz language sql volatile parallel safe
as 'select timestamptz ''2030-01-01'' + last_value * interval ''1 microsecond'' from pgqueue_testing.clock_shift'
"""


@pytest.fixture
def stopped_clock(scene: Scene) -> Clock:
    """The time stands still, but for what the test moves it by: no renewal can be too slow."""
    scene.run(STOP_THE_CLOCK)
    return scene.database.clock


def outlast(clock: Clock, message: Any, times: int) -> None:
    """Lets so many lock durations pass, each only as far as the lock has been renewed."""
    for _ in range(2 * times):
        until = message.locked_until
        clock.move(SHORT / 2)
        eventually(lambda until=until: message.locked_until > until)  # type: ignore[misc]


@pytest.fixture
def short_locks(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=SHORT)


@pytest.mark.usefixtures("short_locks")
@pytest.mark.core
def test_a_handler_of_ten_times_the_lock_duration_runs_once(scene: Scene, stopped_clock: Clock) -> None:
    deliveries = []

    async def handler(message: Any) -> None:
        deliveries.append(message.delivery_count)
        await asyncio.to_thread(outlast, stopped_clock, message, 10)

    scene.send("a")
    with scene.working(handler, concurrency=2) as first, scene.working(handler, concurrency=2) as second:
        eventually(lambda: first.worker.tally.completed + second.worker.tally.completed == 1)
    assert deliveries == [1]


@pytest.mark.usefixtures("short_locks")
def test_a_handler_that_blocks_its_event_loop_keeps_its_lock(scene: Scene, stopped_clock: Clock) -> None:
    deliveries = []

    async def handler(message: Any) -> None:
        deliveries.append(message.delivery_count)
        outlast(stopped_clock, message, 5)

    scene.send("a")
    with scene.working(handler) as running:
        eventually(lambda: running.worker.tally.completed == 1)
    assert deliveries == [1]


@pytest.mark.usefixtures("short_locks")
@pytest.mark.core
def test_a_handler_whose_lock_is_lost_is_notified_and_completes_nothing(scene: Scene) -> None:
    told: list[Any] = []
    lost: list[Any] = []
    begun = threading.Event()

    async def wait(message: Any) -> None:
        begun.set()
        try:
            # A task that looked at the event could see it before it is cancelled.
            while scene.face == "tasks" or not message.lock_lost.is_set():
                await asyncio.sleep(0.01)
            told.append("an event")
        except asyncio.CancelledError:
            assert message.lock_lost.is_set()
            told.append("a cancellation")
            raise

    async def handler(message: Any) -> None:
        await wait(message)

    scene.send("a")
    options = {"on_lock_renew_failure": lambda message, error: lost.append((message.body, error))}
    with scene.working(handler, **options) as running:
        assert begun.wait(300)
        scene.run(
            "update pgqueue.message set lock_token = gen_random_uuid(), locked_until = clock_timestamp() + '1 hour'"
        )
        eventually(lambda: bool(told) and bool(lost))
        assert scene.left() == ["a"]
    assert told == ["an event" if scene.face == "threads" else "a cancellation"]
    assert [(body, type(error)) for body, error in lost] == [("a", LockLostError)]
    assert running.worker.tally.completed == 0


@pytest.mark.usefixtures("short_locks")
def test_locks_are_kept_no_longer_than_was_allowed(scene: Scene) -> None:
    deliveries = []

    async def handler(message: Any) -> None:
        deliveries.append(message.delivery_count)
        while len(deliveries) < 2:
            await asyncio.sleep(0.01)

    scene.send("a")
    with scene.working(handler, concurrency=2, max_lock_renewal_duration=2 * SHORT) as running:
        eventually(lambda: deliveries == [1, 2])
        eventually(lambda: running.worker.tally.completed + running.worker.tally.lost == 2)
    assert running.worker.tally.lost == 1
    assert scene.left() == []


@pytest.mark.parametrize("kind", [None, "psycopg", "sqlalchemy"])
def test_a_handler_that_takes_too_long_loses_its_message_and_its_transaction(scene: Scene, kind: str | None) -> None:
    go_on = threading.Event()
    deliveries = []

    async def work(message: Any, *transactions: Any) -> None:
        deliveries.append(message.delivery_count)
        for tx in transactions:
            await effect(tx, message.delivery_count)
        if message.delivery_count == 1:
            if scene.face == "threads":
                go_on.wait(300)
            else:
                await asyncio.sleep(300)

    async def alone(message: Any) -> None:
        await work(message)

    async def both(message: Any, tx: Any) -> None:
        await work(message, tx)

    scene.send("a")
    policy = pgqueue.RetryPolicy(first_delay=timedelta(0))
    with scene.working(
        both if kind else alone,
        transaction=kind,
        concurrency=1,
        handler_timeout=timedelta(seconds=2),  # enough for the second delivery
        retry=policy,
    ) as running:
        eventually(lambda: running.worker.tally.completed == 1)
        assert running.worker.tally.timed_out == 1
        if scene.face == "threads":
            assert running.worker.health().overdue == 1
            go_on.set()
            eventually(lambda: running.worker.health().overdue == 0)
    assert deliveries == [1, 2]
    assert scene.effects() == ([2] if kind else [])
    assert scene.left() == []


@pytest.mark.parametrize("verdict", ["dead-lettered", "abandoned"])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_policy_settles_the_message_of_a_transaction_that_takes_too_long(
    scene: Scene, batch: int, verdict: str
) -> None:
    """Before its lock runs out, and no other; a handler that returns too late does not run again."""
    go_on = threading.Event()
    calls = []

    async def handler(message: Any, tx: Any) -> None:
        calls.append((message.body, message.delivery_count))
        await effect(tx, message.body)
        if message.body == 1:
            if scene.face == "threads":
                go_on.wait(300)
            else:
                await asyncio.sleep(300)

    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    scene.send(*([0, 1, 2] if batch == 3 else [1]))
    policy = pgqueue.RetryPolicy(first_delay=timedelta(hours=1), max_delay=timedelta(hours=1))
    if verdict == "dead-lettered":
        policy = pgqueue.RetryPolicy(dead_letter_on=(HandlerTimeoutError,))
    options = {"transaction_batch": batch, "concurrency": 1, "handler_timeout": timedelta(milliseconds=500)}
    with scene.working(handler, transaction="psycopg", retry=policy, **options) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == batch)
        assert len(scene.dead()) == (1 if verdict == "dead-lettered" else 0)
        assert [message.locked_until for message in scene.queue.peek()] == [None] * len(scene.left())
        go_on.set()
        eventually(lambda: running.worker.health().overdue == 0)
        assert (running.worker.tally.completed, running.worker.tally.timed_out) == (batch - 1, 1)
    assert scene.face == "tasks" or calls.count((1, 1)) == 1
    assert {count for _, count in calls} == {1}
    assert scene.effects() == ([0, 2] if batch == 3 else [])


def test_a_transaction_that_cannot_be_terminated_hides_no_other_handler(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_transaction(transaction_id: str) -> Statement[None]:
        asked.append(transaction_id)
        return terminate(transaction_id) if len(asked) > 1 else Statement("select 1/0", {}, nothing)

    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        go_on.wait(300)

    if scene.face == "tasks":
        pytest.skip("the event loop ends handlers in time")
    asked: list[str] = []
    terminate, go_on = backends.end_transaction, threading.Event()
    monkeypatch.setattr(backends, "end_transaction", end_transaction)
    scene.send(1, 2)
    policy = pgqueue.RetryPolicy(dead_letter_on=(HandlerTimeoutError,))
    options = {"concurrency": 2, "handler_timeout": timedelta(milliseconds=300), "retry": policy}
    with scene.working(handler, transaction="psycopg", **options) as running:
        eventually(lambda: running.worker.tally.timed_out == 2)
        assert len(scene.dead()) == 1
        go_on.set()
        eventually(lambda: running.worker.health().overdue == 0)
    assert (running.worker.tally.completed, scene.effects()) == (0, [])


def test_a_settlement_in_a_transaction_that_takes_too_long_is_undone_with_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(dispatcher: Dispatcher, messages: Any, failures: Any) -> Any:
        try:
            return original(dispatcher, messages, failures)
        finally:
            given_up.set()

    async def handler(message: Any, tx: Any) -> None:
        calls.append(message.body)
        await effect(tx, message.body)
        if message.body == 1:
            message.complete(transaction=tx)
        else:
            try:
                tx.execute("select pg_sleep(300)")
            finally:
                given_up.wait(300)

    calls: list[int] = []
    given_up, original = threading.Event(), Dispatcher.finish
    monkeypatch.setattr(Dispatcher, "finish", finish)
    if scene.face == "tasks":
        pytest.skip("the event loop ends handlers in time")
    scene.client.update_queue("q", lock_duration=timedelta(seconds=1))
    scene.send(1, 2)
    policy = pgqueue.RetryPolicy(first_delay=timedelta(0), dead_letter_on=(HandlerTimeoutError,))
    options = {"transaction_batch": 2, "concurrency": 1, "handler_timeout": timedelta(milliseconds=300)}
    with scene.working(handler, transaction="psycopg", retry=policy, **options):
        eventually(lambda: scene.effects() == [1])
        eventually(lambda: len(scene.dead()) == 1)
    assert (calls.count(1), scene.left()) == (2, [])


def run_until_stuck(scene: Scene, app: pgqueue.Handlers, go_on: threading.Event) -> None:
    """Let a worker complete one message and give up the thread of another, which goes on after that."""
    policy = pgqueue.RetryPolicy(dead_letter_on=(HandlerTimeoutError,))
    options: Any = {"transaction_batch": 2, "concurrency": 1, "handler_timeout": timedelta(milliseconds=300)}
    worker = pgqueue.Worker(scene.client, app, transaction="psycopg", retry=policy, **options)
    with scene.running(worker):
        eventually(lambda: (worker.tally.completed, worker.tally.timed_out) == (1, 1))
        go_on.set()
        eventually(lambda: worker.health().overdue == 0)


def test_a_thread_that_was_given_up_calls_no_other_handler(scene: Scene) -> None:
    go_on = threading.Event()
    app = pgqueue.Handlers()
    calls = []

    @app.handler("q")
    def _(_: Any, tx: psycopg.Connection[Any]) -> None:
        go_on.wait(300)

    @app.handler("q", subject="other")
    def _(message: Any) -> None:
        calls.append(message.delivery_count)

    if scene.face == "tasks":
        pytest.skip("the event loop ends handlers in time")
    scene.queue.send_batch([Message(1), Message(2, subject="other")])
    run_until_stuck(scene, app, go_on)
    assert calls == [1]


def test_a_stuck_handler_has_no_message_repeated_that_was_handled_before(scene: Scene) -> None:
    go_on, app, calls = threading.Event(), pgqueue.Handlers(), list[int]()

    @app.handler("q")
    def _(_: Any, tx: psycopg.Connection[Any]) -> None:
        """Others take a transaction."""

    @app.handler("q", subject="plain")
    def _(message: Any) -> None:
        calls.append(message.body)
        if message.body == 2:
            go_on.wait(300)

    if scene.face == "tasks":
        pytest.skip("the event loop ends handlers in time")
    scene.queue.send_batch([Message(body, subject="plain") for body in (1, 2)])
    run_until_stuck(scene, app, go_on)
    assert (calls, scene.left()) == ([1, 2], [])


def test_a_plain_function_that_takes_too_long_loses_its_message_and_keeps_no_worker(scene: Scene) -> None:
    go_on = threading.Event()
    scene.send("a")
    policy = pgqueue.RetryPolicy(dead_letter_on=(HandlerTimeoutError,))
    options = {"handler_timeout": timedelta(milliseconds=100), "grace_period": timedelta(0)}
    with scene.working(lambda _: go_on.wait(300), retry=policy, **options) as running:
        eventually(lambda: len(scene.dead()) == 1)
        assert running.worker.health().overdue == 1
    assert running.worker.health().overdue == 1, "the worker has ended before the function"
    go_on.set()
    eventually(lambda: running.worker.health().overdue == 0)


def test_a_faulted_message_of_a_batch_keeps_no_other_from_being_completed(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1:
            message.fault()

    scene.send(1, 2)
    with scene.working(handler, transaction="psycopg", transaction_batch=2, concurrency=1) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 2)
    assert (scene.effects(), scene.left()) == ([2], [1])


def test_the_timeout_is_recorded_in_the_dead_letter(scene: Scene) -> None:
    go_on = threading.Event()

    async def handler(_: Any) -> None:
        if scene.face == "threads":
            go_on.wait(300)
        else:
            await asyncio.sleep(300)

    scene.send("a")
    policy = pgqueue.RetryPolicy(dead_letter_on=(HandlerTimeoutError,))
    with scene.working(handler, handler_timeout=timedelta(milliseconds=100), retry=policy):
        eventually(lambda: len(scene.dead()) == 1)
        go_on.set()
    assert scene.dead()[0].dead_letter_reason == "pgqueue.errors.HandlerTimeoutError"


def test_a_renewer_keeps_the_locks_of_ones_own_loop(scene: Scene, stopped_clock: Clock) -> None:
    scene.send("a", "b")
    received = scene.queue.receive(max_messages=2, lock_duration=SHORT)
    scene.client.update_queue("q", lock_duration=SHORT)
    with pgqueue.AutoLockRenewer() as renewer:
        for message in received:
            renewer.register(message)
        outlast(stopped_clock, received[0], 4)
        assert scene.queue.receive() == []
        received[0].complete()
        with pytest.raises(InvalidStateError):
            renewer.register(received[0])
    stopped_clock.move(2 * SHORT)
    assert [message.body for message in scene.queue.receive()] == ["b"]
    with pytest.raises(InvalidStateError, match="make another"):
        renewer.register(received[1])


def test_a_renewer_calls_back_for_a_lock_that_it_could_not_keep(scene: Scene) -> None:
    lost = []
    scene.send("a")
    (received,) = scene.queue.receive(lock_duration=SHORT)
    scene.run("update pgqueue.message set lock_token = gen_random_uuid()")
    with pgqueue.AutoLockRenewer(on_lock_renew_failure=lambda message, error: lost.append((message, error))) as renewer:
        renewer.register(received)
        assert received.lock_lost.wait(300)
        eventually(lambda: len(lost) == 1)
    assert lost[0][0] is received
    assert isinstance(lost[0][1], LockLostError)


def test_a_renewer_keeps_a_lock_for_so_long_only(scene: Scene) -> None:
    scene.client.update_queue("q", lock_duration=SHORT)
    scene.send("a")
    (received,) = scene.queue.receive()
    with pgqueue.AutoLockRenewer(max_lock_renewal_duration=2 * SHORT) as renewer:
        renewer.register(received)
        eventually(lambda: len(scene.queue.receive()) == 1)


def test_a_worker_sweeps_queues_without_receivers(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    scene.client.create_queue("quiet", max_delivery_count=1)
    quiet = scene.client.queue("quiet")
    quiet.send(pgqueue.Message("a"))
    quiet.receive(lock_duration=SHORT)
    with scene.working(handler, sweep_interval=timedelta(milliseconds=50)) as running:
        eventually(lambda: len(quiet.dead_letters.peek()) == 1)
        assert set(running.worker.health().loops) == {"claims", "completions", "renewals", "sweeps"}
    eventually(lambda: not {"pgqueue-renewals", "pgqueue-sweeps"} & {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize("kind", ["messages", "sessions"])
def test_a_renewer_goes_on_with_other_queues_when_one_is_deleted(scene: Scene, stopped_clock: Clock, kind: str) -> None:
    lost: list[tuple[Any, Any]] = []
    held: list[Any] = []
    for name in ("doomed", "kept"):
        scene.client.create_queue(name, lock_duration=SHORT, requires_session=kind == "sessions")
        queue = scene.client.queue(name)
        queue.send(Message(name, session_id=name if kind == "sessions" else None))
        held += queue.receive() if kind == "messages" else [queue.accept_session()]
    doomed, kept = held
    with pgqueue.AutoLockRenewer(on_lock_renew_failure=lambda *failure: lost.append(failure)) as renewer:
        for each in held:
            renewer.register(each)
        outlast(stopped_clock, kept, 1)
        scene.client.delete_queue("doomed")
        eventually(lambda: bool(lost))
        outlast(stopped_clock, kept, 4)
    assert [each for each, _ in lost] == [doomed]
    assert doomed.lock_lost.is_set()


def test_a_renewer_goes_on_in_other_databases_when_one_is_gone(
    database_server: SharedServer, scene: Scene, stopped_clock: Clock
) -> None:
    with database_server.database(database_server.template) as other, pgqueue.QueueClient(other.dsn) as client:
        client.create_queue("q")
        client.queue("q").send(Message("theirs"))
        (theirs,) = client.queue("q").receive()
        scene.run(f"drop database {other.name} with (force)")
        scene.client.update_queue("q", lock_duration=SHORT)
        scene.send("ours")
        (ours,) = scene.queue.receive()
        with pgqueue.AutoLockRenewer() as renewer:
            renewer.register(theirs)
            renewer.register(ours)
            outlast(stopped_clock, ours, 4)


def test_a_callback_that_fails_ends_no_renewal(scene: Scene, stopped_clock: Clock) -> None:
    scene.client.update_queue("q", lock_duration=SHORT)
    scene.send("lost", "kept")
    lost, kept = scene.queue.receive(max_messages=2)
    lost.context.on_fault(lambda: 1 / 0)
    with pgqueue.AutoLockRenewer() as renewer:
        for message in (lost, kept):
            renewer.register(message)
        scene.run(
            f"update pgqueue.message set lock_token = gen_random_uuid() where sequence_number = {lost.sequence_number}"
        )
        assert lost.lock_lost.wait(300)
        outlast(stopped_clock, kept, 4)
