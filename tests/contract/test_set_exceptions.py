"""Exceptions that another thread sets in this one, earlier and later: whenever they come, nobody guesses."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pgqueue import Message, QueueClient, ReceivedMessage, ReceiveState, process
from pgqueue.testing import Database

TIMES = 60
#: How much later each comes than the one before it.
LATER = 50e-6


class SetError(Exception):
    """What the other thread sets."""


def in_transaction(queue: Any, received: ReceivedMessage) -> None:
    with received.transaction():
        pass


CALLS: dict[str, Callable[[Any, ReceivedMessage], object]] = {
    "complete": lambda queue, received: received.complete(),
    "complete_batch": lambda queue, received: queue.complete_batch([received]),
    "transaction": in_transaction,
    "process": lambda queue, received: process(received, lambda tx: None),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", CALLS)
def test_an_exception_of_another_thread_leaves_no_wrong_answer(database: Database, call: str) -> None:
    with QueueClient(database.dsn) as owner, database.connect(autocommit=True) as connection:
        owner.create_queue("q")
        for after in range(TIMES):
            with QueueClient(database.dsn) as client:
                queue = client.queue("q")
                queue.send(Message(1))
                (received,) = queue.receive()
                _interrupted(lambda: CALLS[call](queue, received), after * LATER)  # noqa: B023 - it is called here
                state = _settled(received)
            there = connection.execute("select from pgqueue.message where lock_token = %s", [received.lock_token])
            assert (state is ReceiveState.RECEIVED) is bool(there.fetchall())


def _interrupted(call: Callable[[], object], seconds: float) -> None:
    began = threading.Event()

    def run() -> None:
        with suppress(Exception):
            began.set()
            call()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until and thread.is_alive():
        pass
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SetError))
    thread.join()


def _settled(received: ReceivedMessage) -> ReceiveState:
    deadline = time.monotonic() + 60
    while (state := received.resolve()) in (ReceiveState.COMPLETING, ReceiveState.ABANDONING):
        assert time.monotonic() < deadline
    return state
