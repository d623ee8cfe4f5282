"""Threads take messages from an inbox; one is woken at a time, and wakes the next."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, cast

from pgqueue.worker.handler_threads import Inbox

THREADS = 4


def test_each_waiting_thread_gets_a_message_while_the_others_work() -> None:
    inbox, all_at_work = Inbox(), threading.Barrier(THREADS + 1, timeout=10)

    def work() -> None:
        while inbox.get():
            all_at_work.wait()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        inbox.put(cast("Any", range(THREADS)))
        all_at_work.wait()
    inbox.close()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_message_that_is_put_back_wakes_a_thread() -> None:
    inbox, message = Inbox(), cast("Any", object())
    got: SimpleQueue[Any] = SimpleQueue()

    def work() -> None:
        while taken := inbox.get():
            got.put(taken)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(50):
        inbox.put_back(message)
        assert got.get(timeout=10) == [message]
    inbox.close()
    thread.join(10)
