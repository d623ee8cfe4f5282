"""Whether the driver needs more memory for more messages."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
from pyspark.sql import SparkSession

from benchmarks.spark import ways
from benchmarks.spark.ways import Scene

MEGABYTE = 1024 * 1024


def measure(scene: Scene, sizes: list[int]) -> str:
    """The largest that the driver was while ``sizes`` rows were written, read and drained, after a round of warming up.

    A JVM keeps memory that it once had, up to its limit, so its resident size proves little; the heap counts that is in
    use when all garbage has been collected. Collecting it every second is why this is slow.
    """
    scene.clear()
    _round_trip(scene, min(sizes))
    lines = [
        "| | seconds | heap in use (MB) | JVM, resident (MB) | Python, resident (MB) |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for size in sizes:
        watch = Watch(scene.spark)
        lasted = watch.over(lambda size=size: _round_trip(scene, size))
        lines.append(
            f"| {size:,} messages | {lasted:,.0f} | {watch.heap:,.0f} | {watch.jvm:,.0f} | {watch.python:,.0f} |"
        )
    return "\n".join(lines)


def _round_trip(scene: Scene, rows: int) -> None:
    ways.write_as_a_job(scene, scene.rows(rows))
    ways.read_by_pgqueue(scene)
    ways.drain(scene)
    assert scene.count("pgqueue.message") == 0


class Watch:
    """The largest that the driver's heap and the processes of this one have been, in megabytes."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self.heap = 0.0
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
        while not done.wait(1):
            self.heap = max(self.heap, heap_in_use(self._jvm))
            jvm, python = resident()
            self.jvm, self.python = max(self.jvm, jvm), max(self.python, python)


def heap_in_use(jvm: Any) -> float:
    """Megabytes of the heap that are in use when all garbage has been collected."""
    jvm.java.lang.System.gc()
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    return float(memory.getHeapMemoryUsage().getUsed()) / MEGABYTE


def resident() -> tuple[float, float]:
    """Megabytes in which the JVMs that this process has started are resident, and the Pythons."""
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
    return jvm, python
