"""``pgqueue worker --processes``: processes that are killed are replaced, and none is left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

import pgqueue
from pgqueue import Message
from pgqueue.model.backoff import Backoff
from pgqueue.testing import Database
from pgqueue.worker import processes
from pgqueue.worker.child import Reporter
from pgqueue.worker.processes import Processes
from tests.chaos.scene import QUEUE, Scene
from tests.patience import eventually

LIBRARY = str(Path(pgqueue.__file__).parents[1])
LOCK_DURATION = timedelta(seconds=1)
MANY = 300

HANDLERS = """
import asyncio, os, pathlib, random, time
from prometheus_client import Counter, Gauge
from tests.chaos.ledger import Ledger

MEALS = Counter("meals", "Meals.")
HUNGER = Gauge("hunger", "Hunger.")

def post(message, tx):
    Ledger("").completed(tx, message.sequence_number)
    time.sleep(random.random() / 50)

async def apost(message, tx):
    await Ledger("").acompleted(tx, message.sequence_number)
    await asyncio.sleep(random.random() / 50)

def meet(message):
    pathlib.Path(f"met-{os.getpid()}").touch()
    while len(list(pathlib.Path().glob("met-*"))) < 2:
        time.sleep(0.01)
    MEALS.inc()
    HUNGER.set(7)

def stay(message):
    pathlib.Path(f"begun-{os.getpid()}").touch()
    while not pathlib.Path("go-on").exists():
        time.sleep(0.01)

async def astay(message):
    pathlib.Path(f"begun-{os.getpid()}").touch()
    while not pathlib.Path("go-on").exists():
        await asyncio.sleep(0.01)
"""

pytestmark = pytest.mark.chaos


class Several:
    """A parent with worker processes, in a process group of their own, with their log and output."""

    def __init__(self, database: Database, directory: Path, handler: str, *options: str) -> None:
        self.directory = directory
        self._log = directory / "log"
        self._said = directory / "said"
        with self._log.open("wb") as log, self._said.open("wb") as said:
            self.parent = subprocess.Popen(
                [sys.executable, "-m", "pgqueue", "worker", handler, QUEUE, "--dsn", database.dsn, *options],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": LIBRARY, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def said(self) -> list[str]:
        return self._said.read_text().splitlines()

    @property
    def children(self) -> dict[int, int]:
        """The process ids by number, as they were started last."""
        return {int(number): int(pid) for number, pid in re.findall(r"process (\d+) of \d+ .* pid (\d+)", self.log)}

    def group(self) -> list[int]:
        """The processes left of all that it has started."""
        return [
            process.pid
            for process in psutil.process_iter()
            if _group(process.pid) == self.parent.pid and process.status() != psutil.STATUS_ZOMBIE
        ]

    def kill(self, number: int) -> None:
        os.kill(self.children[number], signal.SIGKILL)

    def _page(self, path: str) -> tuple[int, bytes]:
        eventually(lambda: any(line.startswith("health on port") for line in self.said))
        port = self.said[0].removeprefix("health on port ")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=300) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def health(self) -> tuple[int, dict[str, Any]]:
        status, body = self._page("health")
        return status, json.loads(body)

    def is_healthy(self) -> bool:
        """Whether all have reported, and are well."""
        status, health = self.health()
        return status == 200 and not any("start" in loop for loop in health["loops"])

    def metrics(self) -> dict[tuple[str, str], float]:
        """Values by name and process."""
        _, body = self._page("metrics")
        return {
            (sample.name, sample.labels.get("process", "")): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@contextmanager
def several(database: Database, directory: Path, handler: str, *options: str) -> Iterator[Several]:
    (directory / "handlers.py").write_text(HANDLERS)
    started = Several(database, directory, f"handlers:{handler}", *options)
    try:
        yield started
    finally:
        started.parent.kill()
        started.parent.wait()
        eventually(lambda: not started.group())


@pytest.mark.parametrize("handler", ["post", "apost"])
def test_processes_that_are_killed_are_replaced_and_every_message_takes_effect_once(
    scene: Scene, tmp_path: Path, handler: str
) -> None:
    scene.client.update_queue(QUEUE, lock_duration=LOCK_DURATION, max_delivery_count=100)
    scene.send(MANY)
    luck = random.Random(7)
    with several(scene.database, tmp_path, handler, "--processes", "2", "--concurrency", "4") as workers:
        for _ in range(3):
            before = scene.balance().completed
            eventually(lambda before=before: scene.balance().completed > min(before + 10, MANY - 1))  # type: ignore[misc]
            killed = dict(workers.children)
            victim = luck.choice(list(killed))
            workers.kill(victim)
            eventually(lambda killed=killed, victim=victim: workers.children[victim] != killed[victim])  # type: ignore[misc]
        eventually(lambda: scene.balance().completed == MANY)
        workers.parent.terminate()
        assert workers.parent.wait(300) == 0, workers.log
    assert scene.balance().wrong == ()
    assert scene.queue.peek() == []
    assert workers.log.count("was killed by SIGKILL") == 3


@pytest.mark.parametrize("handler", ["stay", "astay"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_for_the_whole_group_lets_all_finish_their_work(
    scene: Scene, tmp_path: Path, handler: str, number: signal.Signals
) -> None:
    scene.queue.send_batch([Message("a"), Message("b")])
    with several(scene.database, tmp_path, handler, "--processes", "2", "--concurrency", "1") as workers:
        eventually(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
        os.killpg(workers.parent.pid, number)
        eventually(lambda: workers.log.count(f"{number.name}: stopping") == 3)
        for pid in workers.children.values():
            os.kill(pid, number)
        (tmp_path / "go-on").touch()
        assert workers.parent.wait(300) == 0, workers.log
        eventually(lambda: not workers.group())
    assert workers.said == ["stopped"]
    assert scene.queue.peek() == []


def test_a_second_signal_ends_all_at_once(scene: Scene, tmp_path: Path) -> None:
    scene.queue.send(Message("a"))
    with several(scene.database, tmp_path, "stay", "--processes", "2") as workers:
        eventually(lambda: any(tmp_path.glob("begun-*")))
        workers.parent.terminate()
        eventually(lambda: "SIGTERM: stopping" in workers.log)
        workers.parent.terminate()
        assert workers.parent.wait(300) == 128 + signal.SIGTERM
        eventually(lambda: not workers.group())
    assert len(scene.queue.peek()) == 1


def test_processes_do_not_outlive_their_parent(scene: Scene, tmp_path: Path) -> None:
    scene.queue.send(Message("a"))
    with several(scene.database, tmp_path, "stay", "--processes", "2") as workers:
        eventually(lambda: any(tmp_path.glob("begun-*")))
        assert len(workers.group()) >= 3
        workers.parent.kill()
        eventually(lambda: not workers.group())
    assert len(scene.queue.peek()) == 1


def test_one_that_stops_on_its_own_is_replaced(scene: Scene, tmp_path: Path) -> None:
    with several(scene.database, tmp_path, "post", "--processes", "2", "--health-port", "0") as workers:
        eventually(workers.is_healthy)
        first = workers.children[1]
        os.kill(first, signal.SIGTERM)
        eventually(lambda: workers.children[1] != first)
        assert workers.log.count("process 1 of 2 has started") == 2
        eventually(workers.is_healthy)


def test_the_pages_are_those_of_all_and_remember_the_dead(scene: Scene, tmp_path: Path) -> None:
    options = ["--processes", "2", "--concurrency", "1", "--health-port", "0", "--health-file", "health"]
    scene.queue.send_batch([Message(number) for number in range(20)])
    with several(scene.database, tmp_path, "meet", *options) as workers:
        eventually(lambda: workers.metrics().get(("pgqueue_messages_completed_total", "")) == 20)
        eventually(lambda: workers.metrics().get(("meals_total", "")) == 20)
        met = {int(file.name.removeprefix("met-")) for file in tmp_path.glob("met-*")}
        assert met == set(workers.children.values())
        seen = workers.metrics()
        assert seen["hunger", "1"] == seen["hunger", "2"] == 7
        assert seen["pgqueue_handling_seconds_count", ""] == 20
        assert seen["pgqueue_worker_processes", ""] == 2
        assert seen["pgqueue_worker_processes_replaced_total", ""] == 0
        eventually(lambda: workers.metrics()["pgqueue_queue_ready", ""] == 0)

        killed = workers.children[2]
        workers.kill(2)
        eventually(lambda: workers.children[2] != killed)
        eventually(workers.is_healthy)
        eventually(lambda: ("hunger", "2") in workers.metrics())
        seen = workers.metrics()
        assert seen["pgqueue_messages_completed_total", ""] == 20
        assert seen["meals_total", ""] == 20
        assert seen["pgqueue_handling_seconds_count", ""] == 20
        assert (seen["hunger", "1"], seen["hunger", "2"]) == (7, 0)
        assert seen["pgqueue_worker_processes_replaced_total", ""] == 1
        eventually(lambda: "process 2: claims" in (tmp_path / "health").read_text())
        assert {loop.split(":")[0] for loop in workers.health()[1]["loops"]} == {"process 1", "process 2"}


def wait_for_ever(_: Reporter) -> None:
    while True:
        signal.pause()


def test_they_are_not_alive_while_one_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PAUSES", Backoff(1_000.0, 1_000.0))
    all_of_them = Processes(2, wait_for_ever, "")
    running = threading.Thread(target=all_of_them.run)
    running.start()
    try:
        eventually(lambda: all_of_them.health().loops.keys() == {"process 1: start", "process 2: start"})
        assert all_of_them.health().is_alive
        (process,) = [each for each in multiprocessing.active_children() if each.name == "pgqueue-worker-2"]
        process.kill()
        eventually(lambda: not all_of_them.health().is_alive)
        assert all_of_them.health().failing == {"process 2": f"was killed by SIGKILL: pid {process.pid}"}
    finally:
        all_of_them.stop()
        running.join()
    assert all_of_them.health().is_alive


def test_a_process_that_is_frozen_is_seen(scene: Scene, tmp_path: Path) -> None:
    with several(scene.database, tmp_path, "post", "--processes", "2", "--health-port", "0") as workers:
        eventually(workers.is_healthy)
        os.kill(workers.children[2], signal.SIGSTOP)
        ages = [0.0]
        while ages[-1] < 3:
            ages.append(workers.health()[1]["loops"]["process 2: claims"])
            time.sleep(0.1)
        os.kill(workers.children[2], signal.SIGCONT)
        eventually(lambda: workers.health()[1]["loops"]["process 2: claims"] < 3)


@pytest.mark.parametrize(
    ("handler", "code", "complaint"),
    [("missing", 2, "handlers has no missing"), ("post", 1, "queue create")],
    ids=["no handler", "the queue is deleted"],
)
def test_an_error_that_waiting_cannot_repair_ends_all_processes_with_one_line(
    scene: Scene, tmp_path: Path, handler: str, code: int, complaint: str
) -> None:
    with several(scene.database, tmp_path, handler, "--processes", "2", "--health-port", "0") as workers:
        if code == 1:
            eventually(workers.is_healthy)
            scene.client.delete_queue(QUEUE)
        assert workers.parent.wait(300) == code, workers.log
        eventually(lambda: not workers.group())
    (line,) = [line for line in workers.log.splitlines() if line.startswith("pgqueue: ")]
    assert complaint in line
