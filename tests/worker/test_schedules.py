"""Workers send the messages of schedules: idle, busy or disabled, and compute the due times that SQL cannot."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from pgqueue import Message
from pgqueue.worker import dispatcher
from tests.patience import eventually
from tests.worker.scene import Scene

MINUTE = timedelta(minutes=1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers do in a moment what they do every ten seconds, or every minute."""
    monkeypatch.setattr(dispatcher, "TURN_EVERY", 0.05)
    monkeypatch.setattr(dispatcher, "SCHEDULES_PLANNED_EVERY", 0.05)


def sent_elsewhere(scene: Scene) -> None:
    """A schedule for a queue without receivers; returns when its message was sent."""
    scene.client.create_queue("another")
    scene.client.create_schedule("s", queue="another", message=Message("due"), every=MINUTE)
    scene.database.move_clock(MINUTE)
    another = scene.client.queue("another")
    eventually(lambda: [message.body for message in another.peek()] == ["due"])


@pytest.mark.core
def test_a_worker_handles_each_due_time(scene: Scene) -> None:
    handled: list[datetime] = []

    async def handler(message: Any) -> None:
        handled.append(datetime.fromisoformat(message.message_id.removeprefix("s@")))

    def are_completed(count: int) -> bool:
        return len(handled) == count and scene.rows("select from pgqueue.messages") == []

    schedule = scene.client.create_schedule("s", queue="q", message=Message(None), every=MINUTE)
    with scene.working(handler):
        for count in (1, 2, 3):
            scene.database.move_clock(MINUTE)
            eventually(partial(are_completed, count))
    assert handled == schedule.upcoming(3)


@pytest.mark.usefixtures("impatient")
def test_a_worker_whose_handlers_are_busy_sends_for_other_queues(scene: Scene) -> None:
    over = threading.Event()

    def handler(message: Any) -> None:
        over.wait(300)

    scene.send("work")
    with scene.working(handler, concurrency=1):
        try:
            eventually(lambda: scene.rows("select from pgqueue.locked_messages") != [])
            sent_elsewhere(scene)
        finally:
            over.set()


@pytest.mark.usefixtures("impatient")
def test_a_worker_whose_queue_is_disabled_sends_for_other_queues(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        """Nothing arrives."""

    scene.client.update_queue("q", status="RECEIVE_DISABLED")
    with scene.working(handler):
        sent_elsewhere(scene)


@pytest.mark.usefixtures("impatient")
def test_a_worker_computes_the_due_times_of_an_expression_that_came_by_sql(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        """Nothing to do."""

    with scene.working(handler):
        scene.run("select pgqueue.create_schedule('s', 'q', '* * * * *', body => '1')")
        eventually(lambda: scene.client.get_schedule("s").next_due is not None)


@pytest.mark.usefixtures("impatient")
def test_a_worker_that_cannot_compute_due_times_goes_on(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    handled: list[Any] = []

    async def handler(message: Any) -> None:
        handled.append(message.body)

    scene.run("drop function pgqueue.schedules_to_plan")
    with caplog.at_level(logging.WARNING, "pgqueue"), scene.working(handler):
        eventually(lambda: "due times of schedules could not be computed" in caplog.text)
        scene.send(1)
        eventually(lambda: handled == [1])


def test_a_worker_sends_one_message_for_all_that_was_due_in_a_long_outage(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The due times that are stored end before that, so the others are computed first."""
    monkeypatch.setattr(dispatcher, "TURN_EVERY", 0)
    handled: list[str] = []

    async def handler(message: Any) -> None:
        handled.append(message.message_id)

    scene.client.create_schedule("s", queue="q", message=Message(None), cron="0 0 * * *", catch_up="last")
    scene.database.move_clock(timedelta(days=100))
    with scene.working(handler):
        eventually(lambda: handled != [])
    assert len(handled) + len(scene.left()) == 1
