"""A worker that is asked to stop leaves nothing undone and nothing counted; one that cannot go on raises."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import pgqueue.aio
from pgqueue.errors import InvalidArgumentError, InvalidStateError, QueueNotFoundError
from pgqueue.flows import Flow
from pgqueue.flows.locked import LockedMessage
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.health import STUCK_AFTER, Health
from pgqueue.worker.probes import healthy_file, healthy_port
from tests.patience import eventually
from tests.worker.scene import Running, Scene, effect


@pytest.mark.core
def test_stopping_finishes_running_handlers_and_gives_back_unstarted_messages(scene: Scene) -> None:
    begun = threading.Event()
    handled: list[int] = []

    async def handler(message: Any) -> None:
        begun.set()
        while not running.worker.health().is_stopping:
            await asyncio.sleep(0.01)
        handled.append(message.body)

    scene.send(*range(10))
    # Rows ahead of the handlers, as after a burst of short ones.
    worker = scene.make(handler, concurrency=2)
    worker._driver.services[0].dispatcher._pace.rate = 400.0
    running = Running(worker)
    assert begun.wait(300)
    eventually(lambda: running.worker.health().waiting > 0)
    running.stop()
    left = scene.queue.receive(max_messages=10)
    assert len(left) == 10 - len(handled)
    assert [message.delivery_count for message in left] == [1] * len(left)
    assert sorted([*handled, *(message.body for message in left)]) == list(range(10))


def test_messages_that_arrive_as_the_worker_stops_are_given_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(dispatcher: Dispatcher, **slots: int) -> Flow[Sequence[LockedMessage]]:
        claimed = yield from original(dispatcher, **slots)
        if claimed:
            worker.stop()
        return claimed

    async def handler(message: Any) -> None:
        handled.append(message.body)

    original, handled = Dispatcher.claim, list[int]()
    monkeypatch.setattr(Dispatcher, "claim", claim)
    scene.send(1, 2, 3)
    worker = scene.make(handler, concurrency=2)
    Running(worker).ended()
    assert handled == []
    left = scene.queue.receive(max_messages=3)
    assert [(message.body, message.delivery_count) for message in left] == [(1, 1), (2, 1), (3, 1)]


def test_a_worker_that_has_ended_may_be_stopped_again(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        handled.append(message.body)

    handled: list[str] = []
    scene.send("a")
    running = Running(scene.make(handler))
    eventually(lambda: handled == ["a"])
    running.stop()
    running.stop()


def test_a_handler_that_outlives_the_grace_period_is_left_behind(scene: Scene) -> None:
    go_on = threading.Event()
    begun = threading.Event()

    async def handler(_: Any, tx: Any) -> None:
        await effect(tx, 1)
        begun.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    scene.send("a")
    running = Running(scene.make(handler, transaction="psycopg", grace_period=timedelta(milliseconds=100)))
    try:
        assert begun.wait(300)
        running.stop()
        assert scene.left() == ["a"]
    finally:
        go_on.set()


def test_a_queue_that_is_deleted_ends_the_worker_with_the_error(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    running = Running(scene.make(handler))
    eventually(lambda: not running.worker.health().failing)
    scene.client.delete_queue("q")
    with pytest.raises(QueueNotFoundError):
        running.ended()


def test_an_unknown_queue_is_raised_at_once(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    scene.client.delete_queue("q")
    with pytest.raises(QueueNotFoundError):
        Running(scene.make(handler)).ended()


def test_a_disabled_queue_is_waited_for(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Nothing to do."""

    scene.client.update_queue("q", status="RECEIVE_DISABLED")
    scene.send("a")
    with scene.working(handler) as running:
        eventually(lambda: running.worker.tally.received == 0 and not running.worker.health().failing)
        scene.client.update_queue("q", status="ACTIVE")
        eventually(lambda: running.worker.tally.completed == 1)


def test_a_worker_runs_once(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    with scene.working(handler) as running:
        eventually(lambda: running.worker.health().is_alive)
    again = Running(running.worker)
    with pytest.raises(InvalidStateError, match="make another"):
        again.ended()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"prefetch": -1}, "prefetch"),
        ({"transaction": "oracle"}, "psycopg"),
        ({"transaction": "psycopg"}, r"handler\(message, tx\)"),
        ({"transaction_batch": 0}, "transaction_batch"),
        ({"transaction_batch": 2}, "needs a transaction"),
        ({"grace_period": timedelta(-1)}, "grace_period"),
        ({"handler_timeout": timedelta(-1)}, "handler_timeout"),
        ({"sweep_interval": timedelta(0)}, "sweep_interval"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(scene: Scene, options: dict[str, Any], complaint: str) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    with pytest.raises(InvalidArgumentError, match=complaint):
        scene.make(handler, **options)


def test_dead_letters_are_not_taken(scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Never called."""

    scene.queue = scene.queue.dead_letters
    with pytest.raises(InvalidArgumentError, match="does not take dead letters"):
        scene.make(handler)


def test_a_handler_must_accept_its_arguments(scene: Scene) -> None:
    async def takes_two(message: Any, tx: Any) -> None:
        """Never called."""

    async def takes_three(message: Any, tx: Any, more: Any) -> None:
        """Never called."""

    with pytest.raises(InvalidArgumentError, match="choose one"):
        scene.make(takes_two)
    with pytest.raises(InvalidArgumentError, match="the handler takes"):
        scene.make(takes_three)
    with pytest.raises(InvalidArgumentError, match="callable"):
        scene.make("shop.handlers:ship")  # type: ignore[arg-type]  # the mistake


def test_a_file_that_cannot_be_written_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def ask() -> Health:
        return Health(is_stopping=False, running=1, waiting=0, overdue=0, loops={}, failing={}, paused=[])

    file = tmp_path / "health"
    file.mkdir()
    with healthy_file(file, ask):
        eventually(lambda: "the health file could not be written" in caplog.text)
        file.rmdir()
        eventually(file.is_file)


def test_the_health_is_served_to_probes(tmp_path: Path) -> None:
    age = timedelta(0)

    def ask() -> Health:
        return Health(
            is_stopping=False,
            running=1,
            waiting=2,
            overdue=0,
            loops={"claims": age},
            failing={"claims": "gone"},
            paused=["orders"],
        )

    def answer(port: int, path: str) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    file = tmp_path / "health"
    with healthy_file(file, ask), healthy_port(0, ask) as port:
        assert answer(port, "/health")[0] == 200
        assert answer(port, "/health")[1]["failing"] == {"claims": "gone"}
        assert answer(port, "/health")[1]["paused"] == ["orders"]
        assert answer(port, "/elsewhere")[0] == 404
        eventually(lambda: json.loads(file.read_text() or "{}").get("running") == 1)
        age = STUCK_AFTER * 2
        assert answer(port, "/health")[0] == 503
        assert answer(port, "/health")[1]["is_alive"] is False
    assert not file.exists()


async def test_a_worker_that_is_cancelled_again_and_again_renews_no_lock(scene: Scene) -> None:
    if scene.face == "threads":
        pytest.skip("threads are not cancelled")
    begun, given_up = asyncio.Event(), asyncio.Event()

    async def handler(message: Any) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await given_up.wait()
        await given_up.wait()

    scene.send(1)
    async with pgqueue.aio.QueueClient(scene.database.dsn) as client:
        running = asyncio.create_task(pgqueue.aio.Worker(client.queue("q"), handler).run())
        await begun.wait()
        while not running.done():  # as scopes of anyio do
            running.cancel()
            await asyncio.sleep(0.05)
        given_up.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    eventually(lambda: "pgqueue-renewals" not in {thread.name for thread in threading.enumerate()})
