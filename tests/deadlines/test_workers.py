"""A worker whose database does not answer logs it, stops in time, and goes on when there are answers again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import pgqueue
from pgqueue.testing.database import created
from tests.deadlines.server import LATE, Silenced
from tests.patience import eventually
from tests.worker.scene import FACES, Running, Scene, effect

LIBRARY = str(Path(pgqueue.__file__).parents[1])
GRACE = timedelta(seconds=1)


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, silenced: Silenced) -> Iterator[Scene]:
    with created(silenced.server.dsn(), silenced.template) as database, Scene(database, request.param) as scene:
        yield scene


@pytest.mark.parametrize("transaction", [None, "psycopg", "sqlalchemy"])
def test_a_worker_stops_in_time_while_the_server_is_frozen(
    silenced: Silenced, scene: Scene, transaction: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.leases.loop.SILENT_AFTER", timedelta(seconds=1))

    async def with_transaction(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    async def without(_: Any) -> None:
        """Nothing to do."""

    handler = without if transaction is None else with_transaction
    running = Running(scene.make(handler, transaction=transaction, grace_period=GRACE, concurrency=2))
    scene.send(*range(5))
    eventually(lambda: running.worker.tally.completed == 5)
    with silenced.frozen():
        eventually(lambda: "no answer" in str(running.worker.health().failing))
        _stops_in_time(running)


@pytest.mark.core
def test_a_worker_on_sessions_stops_in_time_while_the_server_is_frozen(silenced: Silenced, scene: Scene) -> None:
    async def handler(_: Any) -> None:
        """Nothing to do."""

    scene.client.create_queue("steps", requires_session=True)
    scene.queue = scene.client.queue("steps")
    idle = timedelta(minutes=10)
    running = Running(scene.make(handler, grace_period=GRACE, session_idle_timeout=idle))
    scene.queue.send(pgqueue.Message(1, session_id="a"))
    eventually(lambda: running.worker.tally.completed == 1)
    with silenced.frozen():
        _stops_in_time(running)


def test_a_worker_stops_in_time_while_commits_wait_for_a_lost_standby(silenced: Silenced, scene: Scene) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    running = Running(scene.make(handler, transaction="psycopg", grace_period=GRACE))
    eventually(lambda: running.worker.health().is_alive)
    with silenced.without_standby():
        _stops_in_time(running)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_worker_processes_end_in_time_while_the_server_is_frozen(
    silenced: Silenced, tmp_path: Path, processes: str
) -> None:
    (tmp_path / "handlers.py").write_text("def handle(message):\n    pass\n")
    with created(silenced.server.dsn(), silenced.template) as database, Scene(database, "threads") as scene:
        options = ["--dsn", database.dsn, "--processes", processes, "--grace-period", "1s"]
        command = [sys.executable, "-m", "pgqueue", "worker", "handlers:handle", "q", *options]
        with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": LIBRARY}) as parent:
            try:
                working = "select 1 from pgqueue.workers where state = 'SERVING'"
                eventually(lambda: len(scene.rows(working)) == int(processes))
                with silenced.frozen():
                    parent.send_signal(signal.SIGTERM)
                    assert parent.wait(GRACE.total_seconds() + LATE) == 0
            finally:
                parent.kill()


def _stops_in_time(running: Running) -> None:
    began_at = time.monotonic()
    running.stop()
    assert time.monotonic() - began_at < GRACE.total_seconds() + LATE


def test_a_worker_reports_a_silent_database_and_resumes(
    silenced: Silenced, scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    monkeypatch.setattr("pgqueue.transports.deadlines.SILENCE", 1.0)
    monkeypatch.setattr("pgqueue.leases.loop.SILENT_AFTER", timedelta(seconds=1))
    with scene.working(handler, transaction="psycopg") as running:
        scene.send(0)
        eventually(lambda: running.worker.tally.completed == 1)
        with silenced.frozen():
            eventually(lambda: "no answer" in str(running.worker.health().failing))
            eventually(lambda: "no answer from the server on" in caplog.text)
        scene.send(*range(1, 20))
        eventually(lambda: not running.worker.health().failing)
        eventually(lambda: scene.left() == [])
    assert scene.effects() == list(range(20))
