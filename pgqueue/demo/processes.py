"""The processes of a run. Ctrl-C reaches only the conductor, and no process outlives it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from psycopg_pool import ConnectionPool

from pgqueue.demo.consumer import Consumer
from pgqueue.demo.plan import Plan
from pgqueue.demo.sender import send_departures
from pgqueue.worker.signals import interrupts_held_back

SPAWN = multiprocessing.get_context("spawn")
GRACE = 5.0


@dataclass(frozen=True)
class Child:
    """A process that was started, and the pipe on which it reports its error."""

    name: str
    process: BaseProcess
    _last_words: Connection

    def last_words(self) -> str:
        try:
            return str(self._last_words.recv())
        except EOFError:
            return f"{self.name} ended with exit code {self.process.exitcode}"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process for the duration of the block."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.join()

    def _signal(self, number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)


def start_sender(plan: Plan) -> Child:
    return start("the sender", send_departures, plan)


def start_consumer(plan: Plan, name: str) -> Child:
    return start(name, _consume, plan, name)


def stop(children: list[Child]) -> None:
    """Let each process finish its current work; kill those that do not end in time."""
    for child in children:
        child.process.terminate()
    for child in children:
        child.process.join(GRACE)
        child.kill()


def start(name: str, work: Callable[..., None], *arguments: object) -> Child:
    """Start a process that calls ``work``."""
    hear, speak = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_live, args=(speak, work, *arguments), name=name, daemon=True)
    with interrupts_held_back():  # the child inherits that
        process.start()
    speak.close()
    return Child(name, process, hear)


def _live(speak: Connection, work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=_die_with_the_conductor, daemon=True).start()
    try:
        work(*arguments)
    except Exception as error:  # noqa: BLE001 (whatever it was, the conductor tells the user)
        speak.send(" ".join(f"{type(error).__name__}: {error}".split()))
        sys.exit(1)


def _die_with_the_conductor() -> None:
    conductor = multiprocessing.parent_process()
    assert conductor is not None
    conductor.join()
    os._exit(1)


def _consume(plan: Plan, name: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    options: dict[str, Any] = {"application_name": name}
    with (
        ConnectionPool(plan.dsn, min_size=1, max_size=2, kwargs=options) as pool,
        closing(Consumer.of(plan, name, pool)) as consumer,
    ):
        while not stopping.is_set():
            consumer.turn()
