"""Worker processes that are killed, frozen and cut off; at the end the books balance."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import pgqueue
from pgqueue import Message
from pgqueue.testing import Database
from tests.chaos.scene import QUEUE, Scene
from tests.patience import eventually

LIBRARY = str(Path(pgqueue.__file__).parents[1])
LOCK_DURATION = timedelta(seconds=1)
MANY = 400

HANDLERS = """
import pathlib, random, signal, threading, time
from tests.chaos.ledger import Ledger

def post(message, tx):
    Ledger("").completed(tx, message.sequence_number)
    time.sleep(random.random() / 50)

async def apost(message, tx):
    await Ledger("").acompleted(tx, message.sequence_number)

def stay(message):
    pathlib.Path("begun").touch()
    while not pathlib.Path("go-on").exists():
        time.sleep(0.01)
    pathlib.Path("done").touch()

def stop(message):
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
"""

pytestmark = pytest.mark.chaos


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


@contextmanager
def worker(database: Database, directory: Path, handler: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "pgqueue", "worker", f"handlers:{handler}", QUEUE, "--dsn", database.dsn, *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": LIBRARY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def all_is_posted(scene: Scene) -> bool:
    balance = scene.balance()
    assert balance.wrong == ()
    return balance.completed == balance.sent


@pytest.mark.parametrize("handler", ["post", "apost"])
@pytest.mark.parametrize("batch", ["1", "5"])
def test_workers_that_are_killed_lose_and_double_nothing(
    scene: Scene, directory: Path, handler: str, batch: str
) -> None:
    scene.client.update_queue(QUEUE, lock_duration=LOCK_DURATION, max_delivery_count=100)
    scene.send(MANY)
    luck = random.Random(7)
    with ExitStack() as stack:
        crew = [
            stack.enter_context(worker(scene.database, directory, handler, "--transaction-batch", batch))
            for _ in range(2)
        ]
        for _ in range(4):
            before = scene.balance().completed
            eventually(lambda before=before: scene.balance().completed > min(before + 10, MANY - 1))  # type: ignore[misc]
            victim = luck.choice(crew)
            victim.kill()
            victim.wait()
            crew.remove(victim)
            crew.append(stack.enter_context(worker(scene.database, directory, handler, "--transaction-batch", batch)))
        eventually(lambda: all_is_posted(scene))
        for process in crew:
            process.terminate()
        # One that has only just been started may not have got to listening for signals.
        assert {process.wait(300) for process in crew} <= {0, -signal.SIGTERM}
    assert scene.queue.peek() == []


@pytest.mark.core
def test_a_frozen_worker_completes_nothing_when_it_wakes(scene: Scene, directory: Path) -> None:
    scene.client.update_queue(QUEUE, lock_duration=LOCK_DURATION)
    scene.queue.send(Message("a"))
    with worker(scene.database, directory, "stay") as frozen:
        eventually((directory / "begun").exists)
        frozen.send_signal(signal.SIGSTOP)
        (received,) = scene.queue.receive(wait=60 * LOCK_DURATION)
        assert received.delivery_count == 2
        time.sleep(2 * LOCK_DURATION.total_seconds())
        received.renew_lock(lock_duration=timedelta(minutes=1))
        (directory / "go-on").touch()
        frozen.send_signal(signal.SIGCONT)
        eventually((directory / "done").exists)
        frozen.terminate()
        assert frozen.wait(300) == 0
    assert [message.sequence_number for message in scene.queue.peek()] == [received.sequence_number]
    received.complete()


def test_a_signal_that_another_thread_gets_stops_a_worker(scene: Scene, directory: Path) -> None:
    scene.queue.send(Message("a"))
    with worker(scene.database, directory, "stop") as stopped:
        assert stopped.wait(60) == 0
    assert scene.queue.peek() == []


def test_sessions_that_are_cut_under_worker_processes(scene: Scene, directory: Path) -> None:
    scene.send(MANY)
    terminate = """
        select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()"""
    with worker(scene.database, directory, "post") as one, worker(scene.database, directory, "apost") as other:
        with scene.database.connect(autocommit=True) as connection:  # a worker that is cut while it starts ends
            eventually(lambda: connection.execute("select count(*) from pgqueue.workers").fetchall() == [(2,)])
        for _ in range(4):
            before = scene.balance().completed
            eventually(lambda before=before: scene.balance().completed > min(before + 10, MANY - 1))  # type: ignore[misc]
            with scene.database.connect(autocommit=True) as connection:
                connection.execute(terminate)
        eventually(lambda: all_is_posted(scene))
        assert (one.poll(), other.poll()) == (None, None)
