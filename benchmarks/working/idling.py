"""The statements of a worker with nothing to do."""

from __future__ import annotations

import threading
import time
from typing import LiteralString

import pgqueue
from benchmarks.working.scene import Scene

#: A worker looks more often at first, and backends report their statistics late.
SETTLING = 10.0

COMMITTED = "select xact_commit from pg_stat_database where datname = current_database()"


def measure(scene: Scene, seconds: float) -> str:
    scene.clear()
    _vacuum_by_itself(scene, "off")  # its transactions count, too
    quiet = _transactions(scene, seconds)
    worker = pgqueue.Worker(scene.queue, lambda _: None)
    thread = threading.Thread(target=worker.run)
    thread.start()
    busy = _transactions(scene, seconds)
    worker.stop()
    thread.join()
    _vacuum_by_itself(scene, "on")
    return f"An idle worker: {busy - quiet:.2f} transactions a second, over {seconds:.0f} s."


def _transactions(scene: Scene, seconds: float) -> float:
    time.sleep(SETTLING)
    before = scene.connection.execute(COMMITTED).fetchall()[0][0]
    time.sleep(seconds)
    after = scene.connection.execute(COMMITTED).fetchall()[0][0]
    return float(after - before) / seconds


def _vacuum_by_itself(scene: Scene, state: LiteralString) -> None:
    scene.connection.execute(f"alter system set autovacuum = {state}")
    scene.connection.execute("select pg_reload_conf()")
