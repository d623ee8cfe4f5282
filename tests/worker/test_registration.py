"""A worker is in pgqueue.workers from its start to its end, sends heartbeats, and works on where it cannot."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

import pgqueue
from pgqueue.model.holder import this_process
from pgqueue.worker import registration
from tests.patience import eventually
from tests.worker.scene import Running, Scene


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "BEAT_EVERY", 0.0)


async def nothing(_: Any) -> None:
    """A handler with nothing to do."""


def shown(scene: Scene, columns: str) -> list[tuple[Any, ...]]:
    return scene.rows(f"select {columns} from pgqueue.workers")


def beats(running: Running) -> bool:
    """Makes the thread that renews locks take a turn."""
    running.worker._driver._background._short.set()
    return True


@pytest.mark.core
def test_it_registers_and_is_removed_at_its_end(scene: Scene) -> None:
    with scene.working(nothing, concurrency=3):
        eventually(lambda: shown(scene, "state") == [("SERVING",)])
        assert shown(scene, "name, queues, concurrency, version, failing") == [
            (this_process(), ["q"], 3, pgqueue.__version__, {})
        ]
    assert shown(scene, "id") == []


def test_a_heartbeat_contains_the_work_and_that_the_worker_stops(scene: Scene) -> None:
    go_on = threading.Event()

    def stay(message: Any) -> None:
        if message.body == "fails":
            raise ValueError(message.body)
        if message.body == "stays":
            go_on.wait(300)

    async def stay_in_a_thread(message: Any) -> None:
        await asyncio.to_thread(stay, message)

    scene.send("a", "fails", "stays")
    running = Running(scene.make(stay_in_a_thread))
    try:
        eventually(lambda: beats(running) and shown(scene, "running, handled, failed") == [(1, 1, 1)])
        running.worker.stop()
        eventually(lambda: beats(running) and shown(scene, "state") == [("STOPPING",)])
    finally:
        go_on.set()
    running.ended()
    assert shown(scene, "id") == []


def test_a_loop_that_fails_is_named_with_its_error(scene: Scene) -> None:
    scene.run(
        """create function refuse() returns trigger language plpgsql as $$
           begin raise exception 'come again' using errcode = '40001'; end $$;
           create trigger refuse before update on pgqueue.message execute function refuse()"""
    )
    with scene.working(nothing) as running:
        scene.send("a")
        eventually(lambda: beats(running) and shown(scene, "state") == [("FAILING",)])
        ((failing,),) = shown(scene, "failing")
        assert "come again" in failing["claims"]
        scene.run("drop trigger refuse on pgqueue.message")
        eventually(lambda: beats(running) and shown(scene, "state, handled") == [("SERVING", 1)])


def test_a_worker_whose_heartbeats_fail_works_on_and_logs_it_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.run("alter function pgqueue.heartbeat rename to heartbeat_elsewhere")
    caplog.set_level(logging.DEBUG, "pgqueue")

    def said(level: int) -> int:
        lines = (record for record in caplog.records if "pgqueue.workers does not show" in record.getMessage())
        return sum(record.levelno == level for record in lines)

    with scene.working(nothing) as running:
        eventually(lambda: beats(running) and said(logging.DEBUG) > 2)
        scene.send("a")
        eventually(lambda: running.worker.tally.completed == 1)
        assert said(logging.WARNING) == 1
        scene.run("alter function pgqueue.heartbeat_elsewhere rename to heartbeat")
        eventually(lambda: beats(running) and shown(scene, "state") == [("SERVING",)])
    assert said(logging.WARNING) == 1


def test_a_worker_that_a_sweep_has_removed_registers_again(scene: Scene) -> None:
    with scene.working(nothing) as running:
        eventually(lambda: shown(scene, "state") == [("SERVING",)])
        ((began,),) = shown(scene, "started_at")
        scene.run("delete from pgqueue.worker")
        eventually(lambda: beats(running) and shown(scene, "state") == [("SERVING",)])
        ((begun,),) = shown(scene, "started_at")
        assert abs((begun - began).total_seconds()) < 60


def test_heartbeats_are_sent_on_the_connection_that_renews_locks(scene: Scene) -> None:
    if scene.database.dsn != scene.database.direct:
        pytest.skip("behind PgBouncer each statement may run in another session")
    sessions = "select pid, query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

    async def renewed(_: Any) -> None:
        await asyncio.to_thread(eventually, lambda: any("renew_lock" in query for _, query in scene.rows(sessions)))

    scene.client.update_queue("q", lock_duration=timedelta(seconds=1))
    scene.send("a")
    with scene.working(renewed) as running:
        eventually(lambda: running.worker.tally.completed == 1)
        (renewing,) = (pid for pid, query in scene.rows(sessions) if "renew_lock" in query or "heartbeat" in query)
        for _ in range(3):
            ((seen,),) = scene.rows("select seen_at from pgqueue.worker")
            eventually(lambda: beats(running) and scene.rows("select seen_at from pgqueue.worker") > [(seen,)])  # noqa: B023 - called in this round
        assert [pid for pid, query in scene.rows(sessions) if "heartbeat" in query] == [renewing]
