"""Workers of queues that are paused, or limit how many messages they hand out."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pgqueue import Message
from pgqueue.worker.exposition import Exposition
from tests.patience import eventually
from tests.worker.scene import Scene


def paused(worker: Any) -> Sequence[str]:
    shown: Sequence[str] = worker.health().paused
    return shown


@pytest.mark.core
def test_a_worker_of_a_paused_queue_finishes_its_messages_and_goes_on_when_it_is_resumed(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    begun, over = threading.Event(), threading.Event()
    handled: list[Any] = []

    async def handler(message: Any) -> None:
        begun.set()
        await asyncio.to_thread(over.wait, 300)
        handled.append(message.body)

    scene.send("held")
    with caplog.at_level(logging.INFO), scene.working(handler, concurrency=1) as running:
        assert begun.wait(300)
        scene.client.pause_queue("q")
        scene.send("later")
        over.set()
        eventually(lambda: running.worker.tally.completed == 1)
        eventually(lambda: paused(running.worker) == ["q"])
        metrics = Exposition(running.worker._driver, scene.database.dsn).text().decode()
        assert 'pgqueue_queue_paused{queue="q"} 1.0' in metrics
        assert running.worker.health().is_alive
        assert handled == ["held"]
        scene.client.resume_queue("q")
        eventually(lambda: handled == ["held", "later"])
        eventually(lambda: not paused(running.worker))
    own = [record for record in caplog.records if record.name == "pgqueue"]  # psycopg logs what other tests have left
    assert [record.message for record in own if record.levelno >= logging.WARNING] == []


def test_without_notifications_too(scene: Scene) -> None:
    handled: list[Any] = []

    async def handler(message: Any) -> None:
        handled.append(message.body)

    scene.client.pause_queue("q")
    scene.send("later")
    with scene.working(handler) as running:
        eventually(lambda: paused(running.worker) == ["q"])
        assert handled == []
        scene.run("update pgqueue.queue set paused_at = null")
        eventually(lambda: handled == ["later"])


def test_workers_together_handle_no_more_at_a_time_than_the_queue_allows(scene: Scene) -> None:
    lock = threading.Lock()
    running, most, done = 0, 0, 0

    async def handler(message: Any) -> None:
        nonlocal running, most, done
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.005)
        with lock:
            running -= 1
            done += 1

    scene.client.update_queue("q", max_concurrent=3)
    scene.send(*range(100))
    with scene.working(handler, concurrency=4), scene.working(handler, concurrency=4):
        eventually(lambda: done == 100)
    assert 2 <= most <= 3


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"fair": True, "max_concurrent_per_group": 1}], ids=" ".join)
def test_a_slot_that_a_worker_frees_is_taken_without_waiting_for_a_poll(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    done = 0

    async def handler(message: Any) -> None:
        nonlocal done
        done += 1

    scene.run(
        "create or replace function pgqueue._allowed_in(queue pgqueue.queue) returns double precision language sql"
        " return 600"
    )
    monkeypatch.setattr("pgqueue.worker.pace.PAUSES", [600.0] * 100)
    monkeypatch.setattr("pgqueue.worker.dispatcher.SHORTEST_PAUSE", 600.0)
    scene.client.delete_queue("q")
    scene.client.create_queue("q", **limits)
    scene.queue.send_batch([Message(number, group_id="a" if "fair" in limits else None) for number in range(200)])
    with scene.working(handler, concurrency=4):
        eventually(lambda: done == 200)
