"""The rate of a closed loop while a snapshot is held, so that no dead row can be vacuumed."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack

import psycopg

import pgqueue
from benchmarks.working.scene import BODY, Scene

CIRCULATING = 1_000
#: The share of the time, at its end, whose rates are compared.
LAST = 6


def measure(scene: Scene, seconds: float) -> str:
    free, held = _loop(scene, seconds, hold=False), _loop(scene, seconds, hold=True)
    return (
        f"| closed loop, the last {seconds / LAST:.0f} of {seconds:.0f} s | messages/s |\n| --- | ---: |\n"
        f"| no snapshot is held | {free:,.0f} |\n| a snapshot is held | {held:,.0f} |\n"
        f"| ratio | {held / free:.2f} |"
    )


def _loop(scene: Scene, seconds: float, *, hold: bool) -> float:
    """Every message that is handled sends the next one; answers with messages a second towards the end."""
    scene.fill(CIRCULATING)
    handled = itertools.count()
    with scene.queue.sender(max_in_flight=CIRCULATING) as sender, ExitStack() as stack:

        def handler(_: pgqueue.ReceivedMessage) -> None:
            next(handled)
            sender.send(pgqueue.Message(BODY))

        worker = pgqueue.Worker(scene.queue, handler)
        thread = threading.Thread(target=worker.run)
        if hold:
            holder = stack.enter_context(psycopg.connect(scene.dsn))
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select count(*) from pgqueue.message")
        thread.start()
        time.sleep(seconds - seconds / LAST)
        before = next(handled)
        time.sleep(seconds / LAST)
        rate = (next(handled) - before) / (seconds / LAST)
        worker.stop()
        thread.join()
    return rate
