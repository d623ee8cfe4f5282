"""The outcomes of messages, and of the effects of their handlers."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DivisionByZero, SerializationFailure
from psycopg_pool import ConnectionPool

from pgqueue import DeadLetter, Message, QueueClient, RetryPolicy, Worker
from pgqueue.testing import Database
from tests.patience import eventually
from tests.worker.scene import Running, Scene, effect

KINDS = ["psycopg", "sqlalchemy"]
IMPATIENT = RetryPolicy(first_delay=timedelta(milliseconds=10), jitter=0)


@pytest.mark.core
def test_every_message_is_handled_once(scene: Scene) -> None:
    handled: Counter[int] = Counter()

    async def handler(message: Any) -> None:
        handled[message.body] += 1

    scene.send(*range(500))
    with scene.working(handler, concurrency=4) as running:
        eventually(lambda: running.worker.tally.completed == 500)
    assert handled == Counter(range(500))
    assert scene.left() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.core
def test_the_effect_and_the_completion_are_one_transaction(scene: Scene, kind: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body % 2:
            raise ValueError("odd")

    scene.send(*range(10))
    with scene.working(handler, transaction=kind, retry=RetryPolicy(first_delay=timedelta(minutes=5))) as running:
        eventually(lambda: running.worker.tally.completed == 5 and running.worker.tally.failed == 5)
    assert scene.effects() == [0, 2, 4, 6, 8]
    assert sorted(scene.left()) == [1, 3, 5, 7, 9]


@pytest.mark.core
def test_a_failed_message_is_redelivered_after_a_delay_and_counted(scene: Scene) -> None:
    deliveries = []

    async def handler(message: Any) -> None:
        deliveries.append(message.delivery_count)
        if message.delivery_count < 3:
            raise ValueError("not yet")

    scene.send("a")
    with scene.working(handler, retry=IMPATIENT) as running:
        eventually(lambda: running.worker.tally.completed == 1)
    assert deliveries == [1, 2, 3]


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_handler_dead_letters_on_demand(scene: Scene, kind: str | None) -> None:
    async def handler(_: Any, *tx: Any) -> None:
        for transaction in tx:
            await effect(transaction, 1)
        raise DeadLetter("Unreadable", "no order")

    async def alone(message: Any) -> None:
        await handler(message)

    async def both(message: Any, tx: Any) -> None:
        await handler(message, tx)

    scene.send("a")
    with scene.working(both if kind else alone, transaction=kind):
        eventually(lambda: len(scene.dead()) == 1)
    (dead,) = scene.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Unreadable", "no order")
    assert scene.effects() == []


@pytest.mark.parametrize("policy", [RetryPolicy(dead_letter_on=(KeyError,)), RetryPolicy(max_attempts=1)], ids=str)
def test_the_policy_dead_letters_with_type_and_text_and_keeps_the_traceback(scene: Scene, policy: RetryPolicy) -> None:
    async def handler(message: Any) -> None:
        raise KeyError(message.body)

    scene.send("a")
    with scene.working(handler, retry=policy):
        eventually(lambda: len(scene.dead()) == 1)
    (dead,) = scene.dead()
    assert dead.dead_letter_reason == "KeyError"
    assert dead.dead_letter_error_description == "KeyError: 'a'"
    assert "in handler" in dead.last_error.traceback


def test_a_dead_letter_raised_with_only_a_reason_keeps_its_traceback(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        raise DeadLetter("Unpaid")

    scene.send("a")
    with scene.working(handler):
        eventually(lambda: len(scene.dead()) == 1)
    (dead,) = scene.dead()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == (
        "Unpaid",
        "pgqueue.errors.DeadLetter: Unpaid",
    )
    assert "in handler" in dead.last_error.traceback


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_transaction_that_fails_for_a_passing_reason_is_begun_again_on_the_same_lock(
    scene: Scene, kind: str, batch: int
) -> None:
    seen: list[tuple[int, int]] = []

    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        seen.append((message.body, message.delivery_count))
        if seen.count((message.body, 1)) == 1 and message.body == 2:
            raise SerializationFailure("could not serialize access")

    scene.send(0, 1, 2, 3)
    with scene.working(handler, transaction=kind, concurrency=1, transaction_batch=batch) as running:
        eventually(lambda: running.worker.tally.completed == 4)
    assert scene.effects() == [0, 1, 2, 3]
    assert {count for _, count in seen} == {1}
    assert [body for body, _ in seen].count(2) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.core
def test_messages_share_a_transaction(scene: Scene, kind: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene.send(*range(5))
    with scene.working(handler, transaction=kind, concurrency=1, transaction_batch=5) as running:
        eventually(lambda: running.worker.tally.completed == 5)
    assert scene.effects() == [*range(5)]
    assert len(scene.rows("select distinct transaction from effect")) == 1
    assert scene.left() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_in_a_shared_transaction_undoes_all_and_each_message_gets_its_own_the_failed_one_last(
    scene: Scene, kind: str
) -> None:
    called: list[int] = []

    async def handler(message: Any, tx: Any) -> None:
        called.append(message.body)
        await effect(tx, message.body)
        if message.body == 2:
            raise ValueError("two")

    scene.send(*range(5))
    with scene.working(
        handler, transaction=kind, concurrency=1, transaction_batch=5, retry=RetryPolicy(max_attempts=1)
    ) as running:
        eventually(lambda: running.worker.tally.completed == 4 and running.worker.tally.failed == 1)
    assert called == [0, 1, 2, 0, 1, 3, 4, 2]
    assert scene.effects() == [0, 1, 3, 4]
    assert len(scene.rows("select distinct transaction from effect")) == 4
    assert [dead.body for dead in scene.dead()] == [2]
    assert scene.left() == []


def test_a_handler_with_a_transaction_batch_fails_once_on_a_single_message(scene: Scene) -> None:
    called: list[int] = []

    async def handler(message: Any, tx: Any) -> None:
        called.append(message.delivery_count)
        raise ValueError("no")

    scene.send("a")
    retry = RetryPolicy(max_attempts=1)
    with scene.working(handler, transaction="psycopg", transaction_batch=5, retry=retry) as running:
        eventually(lambda: running.worker.tally.failed == 1)
    assert called == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_transaction_that_cannot_commit_is_retried_one_by_one(scene: Scene, kind: str) -> None:
    scene.run("alter table effect add constraint distinct_numbers unique (number) deferrable initially deferred")

    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body % 2)

    scene.send(1, 2, 3)
    with scene.working(
        handler, transaction=kind, concurrency=1, transaction_batch=3, retry=RetryPolicy(max_attempts=1)
    ) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 3)
    assert scene.effects() == [0, 1]
    assert [dead.body for dead in scene.dead()] == [3]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_settlement_that_a_savepoint_has_undone_is_a_failure(scene: Scene, batch: int) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1:
            await _run(tx, "savepoint here")
            await _done(message.complete(transaction=tx))
            await _run(tx, "rollback to savepoint here")

    scene.send(*range(3))
    once = RetryPolicy(max_attempts=1)
    with scene.working(handler, transaction="psycopg", concurrency=1, transaction_batch=batch, retry=once) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 3)
    assert scene.effects() == [0, 2]
    assert [(dead.body, dead.dead_letter_reason) for dead in scene.dead()] == [
        (1, "pgqueue.errors.SettlementUndoneError")
    ]


@pytest.mark.parametrize("batch", [1, 3])
def test_the_work_on_a_message_that_was_faulted_is_undone(scene: Scene, batch: int) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1 and message.delivery_count == 1:
            message.fault()

    scene.send(*range(3))
    with scene.working(handler, transaction="psycopg", concurrency=1, transaction_batch=batch) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 3)
    assert 1 not in scene.effects()
    assert sorted([*scene.effects(), *scene.left()]) == [*range(3)]


def test_a_shared_transaction_that_has_failed_unseen_is_not_taken_for_committed(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        await _done(message.complete(transaction=tx))
        if message.body == 1:
            with suppress(DivisionByZero):
                await _run(tx, "select 1 / 0")

    scene.send(0, 1)
    with scene.working(
        handler, transaction="psycopg", concurrency=1, transaction_batch=2, retry=RetryPolicy(max_attempts=1)
    ) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 2)
    assert scene.effects() == [0]
    assert [dead.body for dead in scene.dead()] == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("culprit", [1, 3], ids=["in the middle", "at the end"])
def test_a_handler_that_would_roll_a_shared_transaction_back_fails_alone(scene: Scene, kind: str, culprit: int) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == culprit:
            await _done(tx.rollback())

    scene.send(*range(4))
    options = {"transaction": kind, "concurrency": 1, "transaction_batch": 4}
    with scene.working(handler, **options, retry=RetryPolicy(max_attempts=1)) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 4)
    assert scene.effects() == [number for number in range(4) if number != culprit]
    assert [dead.body for dead in scene.dead()] == [culprit]


def test_a_message_that_the_handler_settles_itself_is_left_to_it(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        result = message.dead_letter("Mine")
        if result is not None:
            await result

    scene.send("a")
    with scene.working(handler) as running:
        eventually(lambda: running.worker.tally.completed == 1)
    assert [dead.dead_letter_reason for dead in scene.dead()] == ["Mine"]


def test_plain_functions_are_handlers_too(scene: Scene) -> None:
    threads = set()
    scene.send(*range(20))
    with scene.working(lambda message: threads.add((message.body, threading.get_ident())), concurrency=2) as running:
        eventually(lambda: running.worker.tally.completed == 20)
    assert {body for body, _ in threads} == set(range(20))


def test_a_message_sent_later_is_found_without_a_notification(scene: Scene) -> None:
    handled: list[int] = []

    async def handler(message: Any) -> None:
        handled.append(message.body)

    with scene.working(handler):
        for body in range(3):
            scene.queue.send(Message(body))
            eventually(partial(handled.__contains__, body))
    assert handled == [0, 1, 2]


def test_a_worker_reaches_the_database_of_a_pool_that_has_no_dsn(database: Database) -> None:
    options = {**conninfo_to_dict(database.dsn), "autocommit": True}
    with ConnectionPool("", kwargs=options, min_size=1) as pool:
        client = QueueClient(pool)
        client.create_queue("q")
        client.queue("q").send(Message("a"))
        worker: Worker = Worker(client.queue("q"), lambda _: worker.stop())
        worker.run()
        assert worker.tally.completed == 1
        client.close()


def test_a_pipeline_that_a_handler_leaves_open_fails_its_message_only(database: Database) -> None:
    def handler(message: Any, tx: Any) -> None:
        tx.execute("insert into effect values (%s)", [message.body])
        if message.body == 1 and message.delivery_count == 1:
            pipelines.append(tx.pipeline())
            pipelines[-1].__enter__()

    pipelines: list[Any] = []
    with Scene(database, "threads") as scene:
        scene.send(*range(3))
        with scene.working(handler, transaction="psycopg", concurrency=1, retry=IMPATIENT) as running:
            eventually(lambda: running.worker.tally.completed == 3)
        assert running.worker.tally.failed == 1
        assert scene.effects() == [*range(3)]
        assert scene.left() == []
    with suppress(AssertionError, psycopg.Error):  # psycopg's, of a pipeline whose connection was closed
        pipelines[0].__exit__(None, None, None)


@pytest.mark.parametrize("options", [{}, {"prepare_threshold": 0}], ids=str)
def test_a_pool_of_the_applications_has_its_connection_back_after_each_message(
    database: Database, options: dict[str, Any]
) -> None:
    def handler(_: Any, tx: Any) -> None:
        handled_after.append(len(resets))

    resets: list[Any] = []
    handled_after: list[int] = []
    with (
        ConnectionPool(
            database.dsn, kwargs={"autocommit": True, **options}, max_size=1, min_size=1, reset=resets.append
        ) as pool,
        QueueClient(database.dsn) as client,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        queue.send_batch([Message(number) for number in range(20)])
        worker = Worker(queue, handler, transaction=pool, concurrency=1)
        running = Running(worker)
        eventually(lambda: worker.tally.completed + worker.tally.failed == 20)
        running.stop()
        assert handled_after == [*range(20)]
        assert worker.tally.failed == 0


async def _run(tx: Any, command: str) -> None:
    await _done(tx.execute(command))


async def _done(result: Any) -> None:
    """Awaits the result of a verb of either face."""
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize("batch", [1, 3])
def test_a_callback_that_raises_when_its_message_is_abandoned_does_not_end_the_worker(
    scene: Scene, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise KeyError("a callback")

    async def handler(message: Any, tx: Any) -> None:
        if message.body == 1:
            message.context.on_abandon(broken)
            raise ValueError("the handler")
        await effect(tx, message.body)

    scene.send(1, 2)
    options: Any = {"transaction": "psycopg", "transaction_batch": batch, "concurrency": 1}
    with scene.working(handler, **options) as running:
        eventually(lambda: (running.worker.tally.completed, running.worker.tally.failed) == (1, 1))
    assert (scene.effects(), scene.left()) == ([2], [1])
    (record,) = (record for record in caplog.records if "could not be settled" in record.getMessage())
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


async def cancelled_by_itself() -> None:
    task = asyncio.create_task(asyncio.sleep(300))
    task.cancel()
    await task


@pytest.mark.parametrize("batch", [1, 3])
def test_a_handler_may_raise_cancelled_error_without_having_been_cancelled(scene: Scene, batch: int) -> None:
    async def handler(message: Any, _: Any) -> None:
        if message.delivery_count == 1:
            await cancelled_by_itself()

    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    scene.send(1, 2)
    options: Any = {"transaction": "psycopg", "transaction_batch": batch, "concurrency": 1, "retry": IMPATIENT}
    with scene.working(handler, **options) as running:
        eventually(lambda: (running.worker.tally.completed, running.worker.tally.failed) == (2, 2))
    assert scene.left() == []


def test_so_may_a_plain_function(scene: Scene) -> None:
    def handler(message: Any) -> None:
        if message.delivery_count == 1:
            asyncio.run(cancelled_by_itself())

    scene.client.update_queue("q", lock_duration=timedelta(hours=1))
    scene.send(1)
    with scene.working(handler, retry=IMPATIENT) as running:
        eventually(lambda: (running.worker.tally.completed, running.worker.tally.failed) == (1, 1))
    assert scene.left() == []
