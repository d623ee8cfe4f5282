"""How soon a message that is sent comes to its handler, at a steady rate; the sender is a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Sequence

import psycopg

import pgqueue
from benchmarks.working.scene import BODY, Scene

SETTLING = 2.0

SEND = """
with sent as (insert into floor (sequence_number, position, enqueued_time, queue_id, lane, body)
              values (nextval('floor_number'), currval('floor_number'), clock_timestamp(), 1, 1, %s::text::jsonb))
select pg_notify('floor', '')"""

TAKE = """
with free as (select ctid as place from floor order by position limit 10 for update skip locked)
delete from floor using free where floor.ctid = free.place returning body"""


def measure(scene: Scene, rate: int, seconds: float, runs: int) -> str:
    """A table: the medians of each run's percentiles; pgqueue and raw psycopg take turns."""
    ways: dict[str, Callable[[Scene, int, float], list[float]]] = {"pgqueue": worker, "raw: LISTEN and delete": raw}
    percentiles: dict[str, list[tuple[float, float]]] = {title: [] for title in ways}
    scene.connection.execute("create sequence if not exists floor_number")
    for _ in range(runs):
        for title, way in ways.items():
            scene.clear()
            percentiles[title].append(_percentiles(way(scene, rate, seconds)))
    lines = [f"| {rate} messages/s | p50 (ms) | p99 (ms) |", "| --- | ---: | ---: |"]
    for title, found in percentiles.items():
        p50, p99 = (statistics.median(run[place] for run in found) for place in (0, 1))
        lines.append(f"| {title} | {p50:.2f} | {p99:.2f} |")
    return "\n".join(lines)


def worker(scene: Scene, rate: int, seconds: float) -> list[float]:
    """From just before the send to the first line of the handler."""
    delays: list[float] = []

    def handler(message: pgqueue.ReceivedMessage) -> None:
        delays.append(time.monotonic() - message.body["sent"])

    worker = pgqueue.Worker(scene.queue, handler)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(SETTLING)
    _from_another_process(send_at_a_rate, scene, rate, seconds)
    worker.stop()
    thread.join()
    return delays


def raw(scene: Scene, rate: int, seconds: float) -> list[float]:
    delays: list[float] = []
    over = threading.Event()

    def listen() -> None:
        with psycopg.connect(scene.dsn, autocommit=True) as ear, psycopg.connect(scene.dsn, autocommit=True) as hand:
            ear.execute("listen floor")
            while not over.is_set():
                for _ in ear.notifies(timeout=1, stop_after=1):
                    while rows := hand.execute(TAKE).fetchall():
                        delays.extend(time.monotonic() - body["sent"] for (body,) in rows)

    thread = threading.Thread(target=listen)
    thread.start()
    time.sleep(SETTLING)
    _from_another_process(_send_raw, scene, rate, seconds)
    over.set()
    thread.join()
    return delays


def _from_another_process(send: Callable[..., None], scene: Scene, rate: int, seconds: float) -> None:
    sender = multiprocessing.get_context("spawn").Process(target=send, args=(scene.dsn, rate, int(rate * seconds)))
    sender.start()
    sender.join()
    time.sleep(SETTLING)


def send_at_a_rate(dsn: str, rate: int, count: int) -> None:
    with pgqueue.QueueClient(dsn) as client:
        queue = client.queue("bench")
        _steadily(rate, count, lambda: queue.send(pgqueue.Message(BODY | {"sent": time.monotonic()})))


def _send_raw(dsn: str, rate: int, count: int) -> None:

    with psycopg.connect(dsn, autocommit=True) as connection:
        _steadily(rate, count, lambda: connection.execute(SEND, [json.dumps(BODY | {"sent": time.monotonic()})]))


def _steadily(rate: float, count: int, send: Callable[[], object]) -> None:
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(began + number / rate - time.monotonic(), 0))
        send()


def _percentiles(delays: Sequence[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(delays, n=100)
    return cuts[49] * 1000, cuts[98] * 1000
