"""One worker, several queues, and handlers chosen by subject; with one stop, one health and one page of metrics."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import pgqueue
import pgqueue.aio
from pgqueue import Handlers, Message, RetryPolicy
from pgqueue.errors import InvalidArgumentError, NoHandlerError, QueueNotFoundError
from pgqueue.testing import Database
from pgqueue.worker.exposition import Exposition
from tests.patience import eventually
from tests.worker.scene import Running, Scene, effect, plain


@dataclass
class Order:
    number: int


def number_of(message: pgqueue.ReceivedMessage[Order]) -> int:
    return message.body.number


class Shop:
    """Two queues, and what became of their messages."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.app = Handlers()
        self.seen: list[tuple[str, Any]] = []
        scene.client.create_queue("returns")
        self.orders, self.returns = scene.queue, scene.client.queue("returns")

    def note(self, name: str) -> Any:
        """A handler without a transaction."""

        async def handler(message: Any) -> None:
            self.seen.append((name, message.body))

        return handler

    def write(self, name: str) -> Any:
        """A handler with one."""

        async def handler(message: Any, tx: Any) -> None:
            self.seen.append((name, message.body))
            await effect(tx, message.body)

        return handler if self.scene.face == "tasks" else plain(handler)

    def make(self, **options: Any) -> Any:
        if self.scene.face == "threads":
            return pgqueue.Worker(self.scene.client, self.app, **options)
        return pgqueue.aio.Worker(pgqueue.aio.QueueClient(self.scene.database.dsn), self.app, **options)

    @contextmanager
    def working(self, **options: Any) -> Iterator[Running]:
        running = Running(self.make(**options))
        try:
            yield running
        finally:
            running.worker.stop()
        running.ended()

    @property
    def is_empty(self) -> bool:
        return not self.orders.peek() and not self.returns.peek()


@pytest.fixture
def shop(scene: Scene) -> Shop:
    return Shop(scene)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.core
def test_a_message_goes_to_the_handler_of_its_queue_and_subject(shop: Shop, batch: int) -> None:
    shop.app.handler("q", subject="paid")(shop.write("paid"))
    shop.app.handler("q", subject="asked")(shop.note("asked"))
    shop.app.handler("q")(shop.note("other"))
    shop.app.handler("returns")(shop.write("returned"))
    subjects = ["paid", "asked", "unknown", None, "paid", "asked"]
    shop.orders.send_batch([Message(number, subject=subject) for number, subject in enumerate(subjects)])
    shop.returns.send(Message(9, subject="paid"))
    with shop.working(transaction="psycopg", transaction_batch=batch, concurrency=2) as running:
        eventually(lambda: shop.is_empty)
        eventually(lambda: running.worker.tally.completed == 7)
    assert sorted(shop.seen) == [
        ("asked", 1), ("asked", 5), ("other", 2), ("other", 3), ("paid", 0), ("paid", 4), ("returned", 9),
    ]  # fmt: skip
    assert shop.scene.effects() == [0, 4, 9]


def test_a_chain_of_transactions_is_broken_by_messages_that_need_none(shop: Shop) -> None:
    shop.app.handler("q", subject="paid")(shop.write("paid"))
    shop.app.handler("q")(shop.note("other"))
    shop.orders.send_batch([Message(number, subject="paid" if number % 3 else None) for number in range(60)])
    with shop.working(transaction="psycopg", concurrency=2):
        eventually(lambda: shop.is_empty)
    assert sorted(number for _, number in shop.seen) == list(range(60))
    assert shop.scene.effects() == [number for number in range(60) if number % 3]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_subject_without_a_handler_fails_by_the_policy(
    shop: Shop, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    shop.app.handler("q", subject="paid")(shop.write("paid"))
    (number,) = shop.scene.send("a")
    shop.orders.send(Message(7, subject="paid"))
    policy = RetryPolicy(dead_letter_on=(NoHandlerError,))
    with shop.working(transaction="psycopg", transaction_batch=batch, retry=policy):
        eventually(lambda: len(shop.scene.dead()) == 1 and shop.is_empty)
    (dead,) = shop.scene.dead()
    assert (dead.sequence_number, dead.dead_letter_reason) == (number, "pgqueue.errors.NoHandlerError")
    assert "no handler of queue q takes the subject None: there are handlers for 'paid'" in caplog.text + str(
        dead.dead_letter_error_description
    )
    assert shop.scene.effects() == [7]


def test_a_slow_handler_of_one_queue_does_not_keep_another_queue_waiting(shop: Shop) -> None:
    go_on = threading.Event()

    async def stay(message: Any) -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    shop.app.handler("q")(stay)
    shop.app.handler("returns")(shop.note("returned"))
    shop.orders.send_batch([Message(1), Message(2)])
    shop.returns.send(Message(3))
    with shop.working(concurrency=1) as running:
        eventually(lambda: shop.seen == [("returned", 3)])
        eventually(lambda: running.worker.health().running == 1)
        go_on.set()
        eventually(lambda: shop.is_empty)


def test_all_locks_are_renewed(shop: Shop) -> None:
    """Each handler outlasts the lock of its message; a lock that is not renewed would be lost."""
    for queue in ("q", "returns"):
        shop.scene.client.update_queue(queue, lock_duration=timedelta(seconds=1))

    async def linger(message: Any) -> None:
        until = shop.scene.rows("select pgqueue.clock() + interval '2 s'")[0][0]
        while shop.scene.rows("select pgqueue.clock()")[0][0] < until:
            await asyncio.sleep(0.05)
        shop.seen.append((message.queue, message.delivery_count))

    shop.app.handler("q")(linger)
    shop.app.handler("returns")(linger)
    shop.orders.send(Message(1))
    shop.returns.send(Message(1))
    with shop.working(concurrency=1):
        eventually(lambda: shop.is_empty)
    assert sorted(shop.seen) == [("q", 1), ("returns", 1)]


def test_health_and_metrics_are_of_all_queues(shop: Shop) -> None:
    shop.app.handler("q")(shop.note("q"))
    shop.app.handler("returns")(shop.note("returns"))
    shop.orders.send_batch([Message(1), Message(2)])
    shop.returns.send(Message(3))
    with shop.working() as running:
        eventually(lambda: running.worker.tally.completed == 3)
        health = running.worker.health()
        text = Exposition(running.worker._driver, shop.scene.database.dsn).text().decode()
    assert health.is_alive
    assert set(health.loops) == {
        "renewals", "q: claims", "q: completions", "returns: claims", "returns: completions",
    }  # fmt: skip
    samples = {
        (sample.name, sample.labels.get("queue")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    for name, values in {"pgqueue_messages_completed_total": (2, 1), "pgqueue_queue_ready": (0, 0)}.items():
        assert (samples[name, "q"], samples[name, "returns"]) == values
    assert text.count("# TYPE pgqueue_queue_ready gauge") == 1


def test_an_error_of_one_queue_ends_the_worker(shop: Shop) -> None:
    shop.app.handler("q")(shop.note("q"))
    shop.app.handler("nowhere")(shop.note("nowhere"))
    with pytest.raises(QueueNotFoundError, match="nowhere"):
        Running(shop.make()).ended()


def test_connections_are_shared(shop: Shop) -> None:
    for number in range(8):
        shop.scene.client.create_queue(f"idle-{number}")
        shop.app.handler(f"idle-{number}")(shop.note("idle"))
    with shop.working(concurrency=4) as running:
        driver: Any = running.worker._driver
        assert len({id(service.dispatcher._source) for service in driver.services}) == 1
        eventually(lambda: "renewals" in running.worker.health().loops)


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [(None, "a handler for all other messages already"), ("paid", "a handler for the subject 'paid' already")],
)
def test_a_handler_is_not_replaced_unnoticed(subject: str | None, complaint: str) -> None:
    app = Handlers()
    app.handler("orders", subject=subject)(print)
    with pytest.raises(InvalidArgumentError, match=f"{complaint}: builtins.print"):
        app.handler("orders", subject=subject)(len)


def test_functions_that_cannot_be_registered_are_refused() -> None:
    app = Handlers()
    register: Any = app.handler
    with pytest.raises(InvalidArgumentError, match=r"@app.handler\(queue"):
        register(print)
    with pytest.raises(InvalidArgumentError, match=r"takes \(message\) or \(message, tx\)"):
        register("orders")(lambda: None)
    with pytest.raises(InvalidArgumentError, match="no handler for 'returns': the queues with handlers are none"):
        app.only("returns")
    assert app.queues == ()


def test_options_that_do_not_go_together_are_refused(database: Database) -> None:
    app, client = Handlers(), pgqueue.QueueClient(database.dsn)
    aclient = pgqueue.aio.QueueClient(database.dsn)
    worker: Any = pgqueue.Worker
    with pytest.raises(InvalidArgumentError, match="no handler is registered"):
        worker(client, app)
    app.handler("orders")(print)
    with pytest.raises(InvalidArgumentError, match=r"Worker\(client, handlers\)"):
        worker(client.queue("orders"), app)
    with pytest.raises(InvalidArgumentError, match=r"Worker\(client.queue\(name\), handler\)"):
        worker(client, print)
    with pytest.raises(InvalidArgumentError, match=r"takes a queue or a client of pgqueue, not pgqueue\.aio"):
        worker(aclient, app)
    with pytest.raises(InvalidArgumentError, match=r"takes a queue or a client of pgqueue.aio, not pgqueue\.queue"):
        pgqueue.aio.Worker(client.queue("orders"), print)  # type: ignore[call-overload]


def test_a_coroutine_function_gets_no_synchronous_transaction(scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        raise AssertionError("it is never called")

    def blocking(message: Any, tx: Any) -> None:
        raise AssertionError("it is never called")

    with pytest.raises(InvalidArgumentError, match=r"handler is a coroutine function.*pgqueue\.aio\.Worker"):
        pgqueue.Worker(scene.queue, handler, transaction="psycopg")
    queue = pgqueue.aio.QueueClient(scene.database.dsn).queue("q")
    with pytest.raises(InvalidArgumentError, match=r"blocking takes a transaction, and is not a coroutine function"):
        pgqueue.aio.Worker(queue, blocking, transaction="psycopg")  # type: ignore[call-overload]


def test_handlers_can_be_described() -> None:
    app = Handlers()
    app.handler("orders", subject="paid")(plain)
    app.handler("returns")(effect)
    assert app.describe() == [
        "orders, subject 'paid': tests.worker.scene.plain(message)",
        "returns: async tests.worker.scene.effect(message, tx)",
    ]
    assert app.only("returns").queues == ("returns",)
    assert (app.take_transactions, app.run_as_tasks) == (True, True)


@pytest.mark.parametrize(
    "options", [{}, {"transaction": "psycopg"}, {"transaction": "psycopg", "transaction_batch": 3}]
)
def test_a_handler_gets_the_type_that_it_asks_for(scene: Scene, options: dict[str, Any]) -> None:
    numbers: list[int] = []

    async def handler(message: Any) -> None:
        numbers.append(message.body.number)

    async def in_transaction(message: Any, tx: Any) -> None:
        await handler(message)
        await effect(tx, message.body.number)

    asked_for: Any = in_transaction if options else handler
    package = "pgqueue.aio" if scene.face == "tasks" else "pgqueue"
    asked_for.__annotations__["message"] = f"{package}.ReceivedMessage[Order]"
    scene.send({"number": 1}, {"number": "two"}, {"number": 3})
    with scene.working(asked_for, **options):
        eventually(lambda: scene.left() == [])
    (dead,) = scene.dead()
    assert (dead.body, dead.dead_letter_reason) == ({"number": "two"}, "InvalidBody")
    assert dead.dead_letter_error_description == (
        "the body is not a tests.worker.test_several_queues.Order: number: it is 'two', not a whole number"
    )
    assert sorted(set(numbers)) == [1, 3]
    assert scene.effects() == ([1, 3] if options else [])


def test_process_makes_the_type_and_dead_letters_bodies_that_do_not_fit(scene: Scene) -> None:
    scene.send({"number": 1}, {})
    good, bad = scene.queue.receive(max_messages=2)
    assert pgqueue.process(good, number_of) == 1
    assert pgqueue.process(bad, number_of) is None
    (dead,) = scene.dead()
    assert (dead.dead_letter_reason, dead.delivery_count) == ("InvalidBody", 1)
    assert "number: it is missing" in str(dead.dead_letter_error_description)


def test_a_queue_with_a_type_gives_it_to_handlers_that_ask_for_none(scene: Scene) -> None:
    face: Any = pgqueue.aio if scene.face == "tasks" else pgqueue
    seen: list[Any] = []
    scene.send({"number": 1}, {})
    typed = face.QueueClient(scene.database.dsn).queue(scene.queue.name, body_type=Order)
    running = Running(face.Worker(typed, lambda message: seen.append(message.body)))
    eventually(lambda: scene.left() == [] and scene.dead() != [])
    running.stop()
    assert seen == [Order(1)]
    assert [each.dead_letter_reason for each in scene.dead()] == ["InvalidBody"]
