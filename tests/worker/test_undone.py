"""Work that is rolled back in silence is not completed, in whichever way the handler runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy

import pgqueue.aio
from pgqueue import Handlers, Message, ReceiveState, RetryPolicy, Worker
from pgqueue.aio.testing import drain as adrain
from pgqueue.errors import InvalidStateError, PGQueueError, SettlementUndoneError, WrongTransactionError
from pgqueue.testing import drain
from tests.patience import eventually
from tests.worker.scene import Scene, effect, plain
from tests.worker.undone import WAYS, Way, connection, done, entered, raised_rollback, session, settle

ONCE = RetryPolicy(max_attempts=1)
WAY = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def run(scene: Scene, runner: str, handler: Callable[..., Any]) -> Any:
    """Run a coroutine function as handler of the next message, in the face of the scene; return that message."""

    async def in_tasks() -> Any:
        async with pgqueue.aio.QueueClient(scene.database.dsn) as client:
            queue = client.queue("q")
            if runner == "drain":
                return await adrain(queue, handler)
            (message,) = await queue.receive()
            await pgqueue.aio.process(message, handler)
            return message

    if scene.face == "tasks":
        return asyncio.run(in_tasks())

    def one(message: Any) -> Any:
        return asyncio.run(handler(message))

    def two(message: Any, tx: Any) -> Any:
        return asyncio.run(handler(message, tx))

    called: Any = two if handler.__code__.co_argcount == 2 else one
    if runner == "drain":
        return drain(scene.queue, called)
    (message,) = scene.queue.receive()
    pgqueue.process(message, called)
    return message


def reasons(scene: Scene) -> list[str]:
    return [dead.dead_letter_reason.rpartition(".")[2] for dead in scene.dead()]


@WAY
@pytest.mark.core
def test_a_worker_fails_the_message_of_a_handler_whose_settlement_was_undone(scene: Scene, way: Way) -> None:
    async def handler(message: Any) -> None:
        await way(scene, message)

    scene.send(1)
    with scene.working(handler, retry=ONCE) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 1)
    assert (running.worker.tally.completed, scene.effects(), scene.left()) == (0, [], [])
    assert reasons(scene) == ["SettlementUndoneError"]


@WAY
@pytest.mark.parametrize("runner", ["process", "drain"])
def test_process_and_drain_raise_the_failures_of_a_worker(scene: Scene, runner: str, way: Way) -> None:
    async def handler(message: Any) -> None:
        await way(scene, message)

    scene.send(1)
    with pytest.raises(SettlementUndoneError):
        run(scene, runner, handler)
    assert (scene.effects(), scene.left(), scene.dead()) == ([], [1], [])
    assert scene.queue.receive() == [], "it was abandoned with a delay"
    assert scene.rows("select delivery_count from pgqueue.scheduled_messages") == [(1,)]


def test_a_batch_fails_the_message_of_that_handler_only(scene: Scene) -> None:
    app = Handlers()

    @app.handler("q")
    async def _(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    @app.handler("q", subject="undone")
    async def _(message: Any) -> None:
        await raised_rollback(scene, message)

    for handler in app._by_queue["q"].values():
        if scene.face == "threads" and handler.takes_transaction:
            object.__setattr__(handler, "is_coroutine", False)
    scene.queue.send_batch([Message(1), Message(2, subject="undone"), Message(3)])
    client = scene.client if scene.face == "threads" else pgqueue.aio.QueueClient(scene.database.dsn)
    kind: Any = Worker if scene.face == "threads" else pgqueue.aio.Worker
    worker = kind(client, app, transaction="psycopg", transaction_batch=3, concurrency=1, retry=ONCE)
    with scene.running(worker):
        eventually(lambda: worker.tally.completed + worker.tally.failed == 3)
    assert (scene.effects(), [dead.body for dead in scene.dead()]) == ([1, 3], [2])


def test_a_handler_that_tries_again_by_itself_has_settled_its_message(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        await raised_rollback(scene, message)
        async with connection(scene) as tx, entered(tx.transaction()):
            await settle(message, tx)

    scene.send(1)
    with scene.working(handler, retry=ONCE) as running:
        eventually(lambda: running.worker.tally.completed == 1)
    scene.send(2)
    run(scene, "process", handler)
    assert (scene.effects(), scene.left(), scene.dead()) == ([1, 2], [], [])


@pytest.mark.parametrize(("end", "whose"), [("commit", "worker"), ("rollback", "worker"), ("rollback", "handler")])
def test_a_transaction_left_open_is_a_failure_unless_it_commits(
    scene: Scene, end: str, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[psycopg.Connection] = []

    async def handler(message: Any) -> None:
        tx: Any = psycopg.connect(scene.database.dsn)
        opened.append(tx)
        tx.execute("insert into effect values (%s)", [message.body])
        message.complete(transaction=tx)

    if scene.face == "tasks":
        pytest.skip("the connection of a coroutine ends with its event loop")
    app = Handlers()
    app.handler("q", max_attempts=1 if whose == "handler" else None)(plain(handler))
    worker = Worker(scene.client, app, retry=ONCE if whose == "worker" else None)
    scene.send(1)
    with caplog.at_level(logging.WARNING, "pgqueue"), scene.running(worker) as running:
        eventually(lambda: "left open" in caplog.text)
        assert (running.worker.tally.completed, running.worker.tally.failed) == (0, 0)
        getattr(opened[0], end)()
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 1)
    assert scene.effects() == ([1] if end == "commit" else [])
    assert reasons(scene) == ([] if end == "commit" else ["SettlementUndoneError"])
    opened[0].close()


@pytest.mark.parametrize("runner", ["process", "drain"])
def test_process_and_drain_raise_when_the_handler_leaves_its_transaction_open(scene: Scene, runner: str) -> None:
    opened: list[Any] = []

    async def handler(message: Any) -> None:
        opened.append(session(scene))
        await settle(message, opened[0])

    async def close(message: Any) -> None:
        try:
            await handler(message)
        finally:
            opened.append(message)

    scene.send(1)
    with pytest.raises(SettlementUndoneError, match="left open"):
        run(scene, runner, close)
    assert opened[1].context.state is ReceiveState.COMPLETING
    assert scene.effects() == []
    asyncio.run(done(opened[0].close()))


@pytest.mark.parametrize("runner", ["process", "drain"])
def test_a_handler_may_begin_the_transaction_of_its_message(scene: Scene, runner: str) -> None:
    async def handler(message: Any) -> None:
        async with entered(message.transaction()) as tx:
            await effect(tx, message.body)

    scene.send(1)
    run(scene, runner, handler)
    assert (scene.effects(), scene.left()) == ([1], [])


@pytest.mark.parametrize("runner", ["process", "drain"])
def test_a_second_transaction_for_a_message_that_has_one_is_refused(scene: Scene, runner: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        async with entered(message.transaction()):
            raise AssertionError("it was begun")

    scene.send(1)
    with pytest.raises(InvalidStateError, match="work in that one"):
        run(scene, runner, handler)
    assert scene.left() == [1]


@pytest.mark.parametrize("verb", ["complete", "abandon", "dead_letter", "renew_lock"])
def test_a_message_that_has_a_transaction_is_settled_in_that_one_only(scene: Scene, verb: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        async with connection(scene) as other, entered(other.transaction()):
            arguments = ["Bad"] if verb == "dead_letter" else []
            await done(getattr(message, verb)(*arguments, transaction=other))

    scene.send(1)
    with pytest.raises(WrongTransactionError):
        run(scene, "process", handler)
    assert scene.left() == [1]


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_handler_that_ends_its_transaction_does_not_complete_its_message(
    scene: Scene, kind: str, batch: int, end: str
) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1:
            await run_text(tx, end)
            await effect(tx, -1)

    scene.send(*range(3))
    with scene.working(handler, transaction=kind, transaction_batch=batch, concurrency=1, retry=ONCE) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 3)
    assert reasons(scene) == ["WrongTransactionError"]
    assert scene.left() == []
    assert {0, 2} <= set(scene.effects()), "those that share a transaction with it are handled again"


def test_no_handler_runs_in_a_transaction_that_an_earlier_one_has_rolled_back(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[int] = []

    async def handler(message: Any, tx: Any) -> None:
        handled.append(message.body)
        if message.body == 0:
            await run_text(tx, "rollback")

    scene.send(0, 1)
    with scene.working(handler, transaction="psycopg", transaction_batch=2, concurrency=1, retry=ONCE) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 2)
    assert handled == [0, 0, 1], "together up to the one that has rolled back, then one by one"
    assert "retrying them one by one: a handler has rolled back the transaction" in caplog.text
    assert reasons(scene) == ["WrongTransactionError"]


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_a_handler_that_begins_another_transaction_does_not_complete_its_message(scene: Scene, kind: str) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        if message.body == 1:
            await run_text(tx, "commit")
            await run_text(tx, "begin")

    scene.send(*range(4))
    with scene.working(handler, transaction=kind, concurrency=1, retry=ONCE) as running:
        eventually(lambda: running.worker.tally.completed + running.worker.tally.failed == 4)
    assert reasons(scene) == ["WrongTransactionError"]
    assert scene.left() == []


def test_an_abandoned_message_does_not_hide_that_the_transaction_has_failed(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        await done(message.abandon(transaction=tx, delay=timedelta(hours=1)))
        try:
            await done(tx.execute("select 1 / 0"))
        except psycopg.Error:
            return

    scene.send(1)
    with pytest.raises(PGQueueError, match="aborted"):
        run(scene, "process", handler)
    assert scene.effects() == []


async def run_text(tx: Any, command: str) -> None:
    is_plain = isinstance(tx, psycopg.Connection | psycopg.AsyncConnection)
    await done(tx.execute(command if is_plain else sqlalchemy.text(command)))
