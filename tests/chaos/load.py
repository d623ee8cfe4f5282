"""A queue under load: messages come in and consumer processes work on them, whatever is done to the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import psycopg

from pgqueue import Message, PGQueueError
from tests.chaos.processes import Consumer
from tests.chaos.scene import QUEUE, Scene

KINDS = ["psycopg", "sqlalchemy", "psycopg", "sqlalchemy"]
QUIET = 0.5  # seconds


class Load:
    """The sender, a thread of ours, and the consumers, processes of their own."""

    def __init__(self, scene: Scene, batches: int) -> None:
        self._scene = scene
        self._deliveries: SimpleQueue[int] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._consumers = [Consumer("endless", scene.database.dsn, QUEUE, kind) for kind in KINDS]
        for consumer in self._consumers:
            self._follow(consumer)
        self._sender = self._run(self._send, batches)

    def deliveries(self, count: int) -> None:
        """Waits until this many more deliveries were processed."""
        for _ in range(count):
            while self._is_quiet():
                self._scene.pass_a_lock_duration()

    def replace_consumer(self, place: int) -> None:
        """Kills a consumer wherever it stands, and hires another."""
        self._consumers[place].kill()
        self._consumers[place] = Consumer("endless", self._scene.database.dsn, QUEUE, KINDS[place])
        self._follow(self._consumers[place])

    def drain(self) -> None:
        """Waits until all has been sent and the queue is empty.

        When there are no faults, each remaining message is locked by a receiver
        that has lost it, or waits for a redelivery: both end.
        """
        self._sender.join()
        while True:
            while not self._is_quiet():
                continue
            if not self._scene.balance().remaining:
                return
            self._scene.pass_a_lock_duration()

    def end(self) -> None:
        self._over.set()
        for consumer in self._consumers:
            consumer.kill()
        for thread in self._threads:
            thread.join()

    def _is_quiet(self) -> bool:
        """Takes note of the next delivery; whether there was none for a while."""
        try:
            self._deliveries.get(timeout=QUIET)
        except Empty:
            return True
        return False

    def _follow(self, consumer: Consumer) -> None:
        self._run(self._listen, consumer.reach("ready"))

    def _listen(self, consumer: Consumer) -> None:
        with suppress(EOFError):
            while True:
                if consumer.listen()["step"] == "done":
                    self._deliveries.put(consumer.said["sequence_number"])

    def _send(self, batches: int) -> None:
        """A batch whose connection breaks was sent, or was not: the ledger knows, and another is sent in its place."""
        while batches and not self._over.is_set():
            try:
                self._send_batch()
                batches -= 1
            except (psycopg.Error, PGQueueError):
                self._over.wait(0.02)

    def _send_batch(self) -> None:
        with self._scene.database.connect() as connection:
            messages = [Message({"poison": place == 0}) for place in range(10)]
            numbers = self._scene.queue.send_batch(messages, transaction=connection)
            self._scene.ledger.sent(connection, numbers)

    def _run(self, target: Any, *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()
        return thread


@contextmanager
def load(scene: Scene, batches: int) -> Iterator[Load]:
    running = Load(scene, batches)
    try:
        yield running
    finally:
        running.end()
