"""Senders that are never closed: pending messages are sent all the same, and failures are logged."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

import pgqueue.aio
from pgqueue import Message
from pgqueue.errors import InvalidStateError, PGQueueError
from pgqueue.flows import Source
from tests.contract.world import World


@pytest.fixture
def world(either: World) -> World:
    if either.mode.face != "sync":
        pytest.skip("threads are of the synchronous face")
    return either


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("pgqueue-sender"):
            thread.join(300)
            assert not thread.is_alive()


def the_task() -> asyncio.Task[Any]:
    (task,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("pgqueue-sender")]
    return task


def test_a_program_that_ends_waits_for_what_is_out(world: World) -> None:
    client = f"QueueClient({world.database.dsn!r}, schema={world.database.schema!r})"
    program = f"""
        import logging
        from pgqueue import Message, QueueClient
        logging.basicConfig(format="%(levelname)s %(message)s")
        sender = {client}.queue({world.name!r}).sender(max_in_flight=100)
        for body in range(50):
            sender.send(Message(body))
        {client}.queue("no-such-queue").sender().send(Message(1))
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=True
    )
    assert sorted(world.bodies()) == list(range(50))
    assert "ERROR a sender was not closed: of the sends to no-such-queue, 1 failed" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_sender_that_was_lost_sends_what_is_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.client.update_queue(world.name, max_message_size=10)
    sender = world.queue.sender(max_in_flight=100)
    for body in [*range(30), "x" * 20]:
        sender.send(Message(body))
    del sender
    gc.collect()
    wait_for_threads()
    assert sorted(world.bodies()) == list(range(30))
    assert ["1 failed" in message for message in caplog.messages] == [True]


async def test_an_asynchronous_sender_that_was_lost_sends_what_is_out(
    either: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    either.client.update_queue(either.name, max_message_size=10)
    async with pgqueue.aio.QueueClient(either.database.dsn) as client:
        sender = client.queue(either.name).sender(max_in_flight=100)
        for body in [*range(30), "x" * 20]:
            await sender.send(Message(body))
        task = the_task()
        del sender
        gc.collect()
        await asyncio.wait({task})
        await asyncio.sleep(0)
    assert sorted(either.bodies()) == list(range(30))
    assert ["1 failed" in message for message in caplog.messages] == [True]


async def test_a_task_that_is_cancelled_fails_what_is_out(either: World) -> None:
    async with pgqueue.aio.QueueClient(either.database.dsn) as client:
        sender = client.queue(either.name).sender()
        with either.database.connect() as connection:
            connection.execute("lock table pgqueue.message in share row exclusive mode")
            pending = await sender.send(Message(1))
            await asyncio.sleep(0.05)
            the_task().cancel()
            with pytest.raises(PGQueueError, match="the message is not stored"):
                await pending.result()
        with pytest.raises(InvalidStateError, match="failed: make another"):
            await sender.send(Message(2))
        await sender.close()
    assert either.bodies() == []


async def test_a_cancelled_wait_for_an_outcome_does_not_stop_the_send(either: World) -> None:
    async with (
        pgqueue.aio.QueueClient(either.database.dsn) as client,
        client.queue(either.name).sender(max_in_flight=1) as sender,
    ):
        with either.database.connect() as connection:
            connection.execute("lock table pgqueue.message in share row exclusive mode")
            pending = await sender.send(Message(1))
            waits = [asyncio.create_task(pending.result()), asyncio.create_task(sender.send(Message(2)))]
            await asyncio.sleep(0.05)
            for each in waits:
                each.cancel()
            await asyncio.wait(waits)
        assert await pending.result() > 0
        await sender.send(Message(3))
    assert sorted(either.bodies()) == [1, 3]


def test_a_thread_that_dies_fails_what_is_out_and_what_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Source) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(type(world.queue._source), "line", broken)
    sender = world.queue.sender()
    with pytest.raises(PGQueueError, match="the message is not stored") as failed:
        sender.send(Message(1)).result()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    with pytest.raises(InvalidStateError, match="failed: make another"):
        sender.send(Message(2))
    sender.close()


def test_a_sender_stays_in_the_process_that_made_it(world: World) -> None:
    sender = world.queue.sender()
    sender.send(Message("ours")).result()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for use in (lambda: sender.send(Message("the child's")), sender.close):
            try:
                use()
            except InvalidStateError as refusal:
                os.write(writing, str(refusal).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read().count("make one in this process") == 2
    sender.send(Message("ours too")).result()
    sender.close()
    assert world.bodies() == ["ours", "ours too"]


def test_a_sender_has_a_thread_until_it_is_closed(world: World) -> None:
    with world.queue.sender():
        assert [thread.name for thread in threading.enumerate()].count(f"pgqueue-sender-{world.name}") == 1
    assert f"pgqueue-sender-{world.name}" not in [thread.name for thread in threading.enumerate()]
