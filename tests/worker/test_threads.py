"""The messages that threads handle are known at each moment: to stop the worker, and to give handlers up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from pgqueue.flows.locked import LockedMessage
from pgqueue.testing import Database
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.handler_threads import HandlerThreads, Slot
from tests.patience import eventually
from tests.worker.scene import Running, Scene


@pytest.mark.parametrize(
    "step", [(HandlerThreads, "_begin"), (Dispatcher, "finish")], ids=["before the handler", "after the handler"]
)
@pytest.mark.core
def test_stopping_waits_for_messages_that_a_thread_has_taken(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    def slowly(*arguments: Any) -> Any:
        reached.append(True)
        eventually(lambda: turns_of_the_end >= [True, True] or bool(ended))
        return original(*arguments)

    def settle(dispatcher: Dispatcher) -> Any:
        if running.worker.health().is_stopping:
            turns_of_the_end.append(True)
        return settled(dispatcher)

    original, settled = getattr(*step), Dispatcher.settle
    reached: list[bool] = []
    turns_of_the_end: list[bool] = []
    ended: list[bool] = []
    with Scene(database, "threads") as scene:
        scene.send("a")
        monkeypatch.setattr(*step, slowly)
        running = Running(scene.make(lambda _: None, concurrency=1))
        monkeypatch.setattr(Dispatcher, "settle", settle)
        eventually(lambda: bool(reached))
        running.stop()
        ended.append(True)
        assert running.worker.tally.completed == 1
        assert scene.left() == []


def test_the_time_of_a_handler_begins_with_its_own_message(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(threads: HandlerThreads, slot: Slot, messages: Sequence[LockedMessage]) -> None:
        if slot.messages:
            in_hand_since.append(slot.started_at)
        original(threads, slot, messages)

    def handler(_: Any, tx: Any) -> None:
        returned_at.append(time.monotonic())

    original = HandlerThreads._begin
    in_hand_since: list[float] = []
    returned_at: list[float] = []
    monkeypatch.setattr(HandlerThreads, "_begin", begin)
    with Scene(database, "threads") as scene:
        scene.send(*range(20))
        worker = scene.make(handler, transaction="psycopg", concurrency=1)
        worker._driver.services[0].dispatcher._pace.rate = 400.0
        running = Running(worker)
        eventually(lambda: worker.tally.completed == 20)
        running.stop()
    assert in_hand_since
    assert all(since >= before for since, before in zip(in_hand_since, returned_at, strict=False))


def test_the_time_of_a_handler_in_a_batch_begins_with_its_own_call(database: Database) -> None:
    def handler(message: Any, tx: Any) -> None:
        tx.execute("insert into effect values (%s)", [message.body])
        (slot,) = worker._driver.services[0].handlers._slots
        assert slot.current is message
        in_hand_since.append(slot.started_at)
        returned_at.append(time.monotonic())

    in_hand_since: list[float] = []
    returned_at: list[float] = []
    with Scene(database, "threads") as scene:
        scene.send(1, 2, 3)
        worker = scene.make(handler, transaction="psycopg", transaction_batch=3, concurrency=1)
        with scene.running(worker):
            eventually(lambda: worker.tally.completed == 3)
        assert scene.rows("select count(distinct transaction) from effect") == [(1,)]
    assert all(since >= before for since, before in zip(in_hand_since[1:], returned_at, strict=False))
