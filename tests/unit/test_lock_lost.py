"""``if message.lock_lost:`` is true once the lock is lost, and not before."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

import pgqueue
import pgqueue.aio
from pgqueue.aio.lock_lost import LockLost as AsyncLockLost
from pgqueue.flows.flow import Source
from pgqueue.flows.locked import locked
from pgqueue.model.lock_lost import LockLost
from pgqueue.statements.sessions import SessionLock
from pgqueue.transports.wake_signals import WakeSignal

FACES = [pgqueue, pgqueue.aio]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("end", ["before", "after"])
def test_a_message_knows_whether_its_lock_is_lost(face: Any, end: str) -> None:
    message = locked(face.ReceivedMessage, "q", (1,), cast("Source", None))
    if end == "before":
        message.fault()
    else:
        assert not message.lock_lost
        assert not message.lock_lost.is_set()
        message.fault()
    assert message.lock_lost
    assert message.lock_lost.is_set()


@pytest.mark.parametrize("face", FACES)
def test_a_session_knows_whether_its_lock_is_lost(face: Any) -> None:
    session = face.Session("q", "s", None, SessionLock("q", "s", "token"), None)
    assert not session.lock_lost
    session.lock_lost.set()
    assert session.lock_lost


def test_a_thread_waits_for_the_loss() -> None:
    lost = LockLost()
    assert not lost.wait(0)
    thread = threading.Thread(target=lost.set)
    thread.start()
    assert lost.wait(300)
    thread.join()


async def test_a_task_waits_for_a_loss_that_a_thread_finds() -> None:
    lost = AsyncLockLost()
    assert not await lost.wait(0)
    waiting = [asyncio.ensure_future(lost.wait(300)), asyncio.ensure_future(wait(lost))]
    await asyncio.sleep(0)
    threading.Thread(target=lost.set).start()
    assert await asyncio.gather(*waiting) == [True, True]
    assert await lost


async def test_a_task_that_waits_no_more_leaves_nothing() -> None:
    lost = AsyncLockLost()
    waiting = asyncio.ensure_future(wait(lost))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not await lost.wait(0)
    assert lost._waiting == []


@pytest.mark.parametrize("kind", ["lock", "messages"])
def test_a_thread_may_wake_a_task_whose_loop_is_closed(kind: str) -> None:
    lost, signal = AsyncLockLost(), WakeSignal("q", lambda: None)
    loop = asyncio.new_event_loop()
    task = loop.create_task(lost.wait(300) if kind == "lock" else signal.arrives(300, signal.count))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    lost.set()
    signal.set()
    assert not task.done()


async def wait(lost: AsyncLockLost) -> bool:
    return await lost
