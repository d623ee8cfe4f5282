"""The processes of a round: started, frozen, killed and restarted. None outlives the one that started it.

They are forked from a server process that has everything imported and no thread and no connection of its own, so a new
one costs nothing worth mentioning.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.history import Book
from benchmarks.chaos.kinds import KINDS
from benchmarks.chaos.kinds.acting import Actor, Assignment, Kind, Setting, live
from benchmarks.chaos.plan import SPARK, Process
from benchmarks.chaos.wrong_clock import set_wrong

#: Seconds between two signs of life.
PULSE = 0.5
#: Spark has few processes, each slow to start, and would get too little of the machine beside all others.
POLITE = 10

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["benchmarks.chaos.processes"])


class Member:
    """A process of the plan, in its present generation; one that is killed is followed by the next."""

    #: All kinds that its actors may be of.
    kinds: Mapping[str, type[Kind]] = KINDS

    def __init__(self, setting: Setting, plan: Process) -> None:
        self.plan = plan
        self.generation = 0
        self._setting = setting
        self._start()

    def replace(self) -> None:
        """SIGKILL, wherever it stands, and another in its place."""
        self.kill()
        self.generation += 1
        self._start()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """With the processes that it has started, of which Spark has some."""
        if self._process.is_alive() and self._process.pid is not None:
            with suppress(ProcessLookupError):  # it has only just begun
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()

    def finish(self, seconds: float) -> None:
        """Waits for one that ends by itself, so long at the most."""
        self._process.join(seconds)
        self.kill()

    @property
    def process_id(self) -> int:
        assert self._process.pid is not None, "it has been started"
        return self._process.pid

    @property
    def pulses(self) -> int:
        """How many signs of life it has given: one that gets no processor gives none. None ends by itself."""
        if not self._process.is_alive():
            raise RuntimeError(f"{self.plan.name} has ended by itself: see its log in {self._setting.directory}")
        with suppress(FileNotFoundError):
            return _pulse_file(self._setting.directory, self.plan.name).stat().st_size
        return 0

    def _start(self) -> None:
        arguments = (self._setting, self.plan, self.generation, self.kinds)
        self._process = FORKED.Process(target=_work, args=arguments, name=self.plan.name, daemon=True)
        self._process.start()

    def _signal(self, number: int) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)


def _work(setting: Setting, plan: Process, generation: int, kinds: Mapping[str, type[Kind]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the conductor
    os.setpgid(0, 0)
    if SPARK in setting.queues and plan.name != SPARK:
        os.nice(POLITE)
    _write_to(setting.directory / f"{plan.name}.{generation}.log")
    die_with_the_conductor()
    if plan.clock_error:
        set_wrong(plan.clock_error)
    book = Book(setting.directory, f"{plan.name}.{generation}")
    threads = [
        threading.Thread(target=_act, args=(setting, plan, each, kinds[each.kind], generation, book))
        for each in plan.actors
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    with _pulse_file(setting.directory, plan.name).open("ab", buffering=0) as pulses:
        while any(thread.is_alive() for thread in threads):
            time.sleep(PULSE)
            pulses.write(b".")


def _act(
    setting: Setting, plan: Process, assignment: Assignment, kind: type[Kind], generation: int, book: Book
) -> None:
    actor = Actor(setting, assignment, generation, book)
    live(actor, kind, until_rest=plan.role == "sender")


def _write_to(log: Path) -> None:
    """Output of libraries goes beside the books, not onto the screen."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable()


def die_with_the_conductor() -> None:
    """End this process when the one that started it has ended, even if that was killed."""
    conductor = multiprocessing.parent_process()
    assert conductor is not None

    def wait() -> None:
        conductor.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _pulse_file(directory: Path, process: str) -> Path:
    return directory / f"{process}.pulses"
