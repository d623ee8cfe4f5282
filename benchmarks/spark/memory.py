"""Whether the driver needs more memory for more messages."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import psutil

from benchmarks.spark import ways
from benchmarks.spark.ways import Scene

MEGABYTE = 1024 * 1024


def measure(scene: Scene, sizes: list[int]) -> str:
    """The largest resident sizes while ``sizes`` rows are written, drained and read, after a first round that fills the
    JVM's heap as far as it likes: the JVM, and all Python processes together."""
    scene.clear()
    _round_trip(scene, min(sizes))
    lines = ["| | seconds | JVM (MB) | Python (MB) |", "| --- | ---: | ---: | ---: |"]
    for size in sizes:
        watch = Watch()
        lasted = watch.over(lambda size=size: _round_trip(scene, size))
        lines.append(f"| {size:,} messages | {lasted:,.0f} | {watch.jvm:,.0f} | {watch.python:,.0f} |")
    return "\n".join(lines)


def _round_trip(scene: Scene, rows: int) -> None:
    ways.write_as_a_job(scene, scene.rows(rows))
    ways.read_by_pgqueue(scene)
    ways.drain(scene)
    assert scene.count("pgqueue.message") == 0


class Watch:
    """The largest that the processes of this one have been, in megabytes."""

    def __init__(self) -> None:
        self.jvm = 0.0
        self.python = 0.0

    def over(self, work: Callable[[], None]) -> float:
        done = threading.Event()
        watching = threading.Thread(target=self._watch, args=[done])
        watching.start()
        begun = time.monotonic()
        try:
            work()
        finally:
            done.set()
            watching.join()
        return time.monotonic() - begun

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.2):
            jvm, python = 0.0, 0.0
            for process in psutil.Process(os.getpid()).children(recursive=True):
                try:
                    size, name = process.memory_info().rss / MEGABYTE, process.name()
                except psutil.NoSuchProcess:
                    continue
                if name == "java":
                    jvm += size
                elif name.startswith("python"):
                    python += size
            self.jvm, self.python = max(self.jvm, jvm), max(self.python, python)
