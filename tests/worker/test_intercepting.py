"""Interceptors around the handlers of a worker: what they raise is a failure of the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import pgqueue
import pgqueue.aio
from pgqueue import DeadLetter, Handlers, Message, RetryPolicy
from tests.contract.intercepting import interceptor
from tests.patience import eventually
from tests.worker.scene import Scene, effect, plain

Handle = Callable[[Any, Any], Any]

ONCE = RetryPolicy(max_attempts=1)


def worker(scene: Scene, handler: Callable[..., Any], handle: Handle, *, several: bool = False, **options: Any) -> Any:
    """A worker of a client with this interceptor."""
    is_async = scene.face == "tasks"
    face: Any = pgqueue.aio if is_async else pgqueue
    given = interceptor("async" if is_async else "sync", handle=handle)
    client = face.QueueClient(scene.database.dsn, interceptors=[given])
    handler = handler if is_async else plain(handler)
    if not several:
        return face.Worker(client.queue("q"), handler, **options)
    handlers = Handlers()
    handlers.handler("q")(handler)
    return face.Worker(client, handlers, **options)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"transaction": "psycopg"}, {"transaction": "psycopg", "transaction_batch": 5}]
)
@pytest.mark.core
def test_each_handler_runs_within_the_interceptor(scene: Scene, options: dict[str, Any], several: bool) -> None:
    steps: list[tuple[str, int]] = []

    def handle(received: Any, call: Any) -> None:
        steps.append(("before", received.body))
        call(received)
        steps.append(("after", received.body))

    async def without(message: Any) -> None:
        steps.append(("handler", message.body))

    async def within(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        steps.append(("handler", message.body))

    scene.send(1, 2, 3)
    handler = within if options else without
    with scene.running(worker(scene, handler, handle, several=several, concurrency=1, **options)) as running:
        eventually(lambda: running.worker.tally.completed == 3)
    assert sorted(steps, key=lambda step: step[1]) == [
        (step, body) for body in (1, 2, 3) for step in ("before", "handler", "after")
    ]
    assert scene.effects() == ([1, 2, 3] if options else [])


@pytest.mark.parametrize(
    "options", [{}, {"transaction": "psycopg"}, {"transaction": "psycopg", "transaction_batch": 5}]
)
@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        (lambda received, call: 1 / 0, "ZeroDivisionError"),
        (lambda received, call: None, "pgqueue.errors.InterceptorError"),
        (lambda received, call: (call(received), call(received)), "pgqueue.errors.InterceptorError"),
    ],
    ids=["raises", "does not call", "calls twice"],
)
def test_an_interceptor_that_fails_is_a_handler_that_fails(
    scene: Scene, options: dict[str, Any], handle: Handle, reason: str
) -> None:
    async def without(message: Any) -> None:
        """Does nothing."""

    async def within(message: Any, tx: Any) -> None:
        await effect(tx, message.body)

    scene.send(1, 2)
    with scene.running(worker(scene, within if options else without, handle, retry=ONCE, **options)):
        eventually(lambda: len(scene.dead()) == 2)
    assert {each.dead_letter_reason for each in scene.dead()} == {reason}
    assert scene.effects() == []


def test_an_interceptor_may_dead_letter(scene: Scene) -> None:
    def refuse(received: Any, call: Any) -> None:
        raise DeadLetter("Unwanted")

    async def handler(message: Any) -> None:
        """Does nothing."""

    scene.send(1)
    with scene.running(worker(scene, handler, refuse)):
        eventually(scene.dead)
    assert scene.dead()[0].dead_letter_reason == "Unwanted"


async def test_a_handler_that_is_cancelled_by_its_timeout_ends_its_interceptor(scene: Scene) -> None:
    if scene.face == "threads":
        pytest.skip("a thread cannot be cancelled")
    ended = []

    class Watching(pgqueue.aio.Interceptor):
        async def handle(self, received: Any, call: Any) -> Any:
            try:
                return await call(received)
            finally:
                ended.append(received.body)

    async def handler(message: Any) -> None:
        await asyncio.Event().wait()

    scene.queue.send(Message(1))
    async with pgqueue.aio.QueueClient(scene.database.dsn, interceptors=[Watching()]) as client:
        made = pgqueue.aio.Worker(
            client.queue("q"), handler, handler_timeout=timedelta(milliseconds=50), retry=RetryPolicy(max_attempts=1)
        )
        running = asyncio.create_task(made.run())
        while not scene.dead():
            await asyncio.sleep(0.01)
        made.stop()
        await running
    assert ended == [1]
    assert scene.dead()[0].dead_letter_reason == "pgqueue.errors.HandlerTimeoutError"
