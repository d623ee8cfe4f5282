"""As ``test_commit_in_doubt``, through the asynchronous face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pgqueue import ReceiveState
from pgqueue.aio import QueueClient, ReceivedMessage, process
from pgqueue.errors import ConnectionLostError
from tests.chaos.ledger import Balance
from tests.chaos.proxy import Cut, Proxy
from tests.chaos.scene import Scene
from tests.chaos.sources import BROKEN, SOURCES, TRANSACTIONS, async_source, begun

SENT = Balance(sent=1, completed=0, dead_lettered=0, purged=0, remaining=1, wrong=())
COMPLETED = replace(SENT, completed=1, remaining=0)


@pytest.fixture
async def client(scene: Scene, proxy: Proxy) -> AsyncIterator[QueueClient]:
    async with QueueClient(proxy.dsn) as client:
        yield client


@pytest.fixture
async def received(scene: Scene, client: QueueClient) -> ReceivedMessage:
    scene.send()
    [received] = await client.queue(scene.queue.name).receive()
    return received


@pytest.mark.parametrize("kind", SOURCES)
async def test_a_transaction_ends_well_when_its_commit_went_through_unheard(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str
) -> None:
    proxy.cut(Cut.AFTER)
    async with async_source(kind, proxy.dsn) as begin_from, received.transaction(begin_from) as transaction:
        await scene.ledger.acompleted(transaction, received.sequence_number)
    assert received.state is ReceiveState.COMPLETED
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize("kind", SOURCES)
async def test_a_transaction_fails_when_its_commit_never_arrived_and_the_message_is_still_ours(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str
) -> None:
    proxy.cut(Cut.BEFORE)
    async with async_source(kind, proxy.dsn) as begin_from:
        with pytest.raises(ConnectionLostError):
            async with received.transaction(begin_from) as transaction:
                await scene.ledger.acompleted(transaction, received.sequence_number)
    assert received.state is ReceiveState.RECEIVED
    assert scene.balance() == SENT
    async with received.transaction() as transaction:
        await scene.ledger.acompleted(transaction, received.sequence_number)
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize(("cut", "times"), [(Cut.BEFORE, 2), (Cut.AFTER, 1)])
async def test_process_works_again_only_when_the_commit_never_arrived(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, cut: Cut, times: int
) -> None:
    proxy.cut(cut)
    assert await process(received, Work(scene)) == times
    assert received.state is ReceiveState.COMPLETED
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize(("cut", "truth"), [(Cut.BEFORE, ReceiveState.RECEIVED), (Cut.AFTER, ReceiveState.COMPLETED)])
@pytest.mark.parametrize("kind", TRANSACTIONS)
async def test_resolve_returns_the_outcome_of_the_callers_commit(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str, cut: Cut, truth: ReceiveState
) -> None:
    proxy.cut(cut)
    async with async_source(kind, proxy.dsn) as transaction:
        ends = await begun(transaction)
        await scene.ledger.acompleted(transaction, received.sequence_number)
        await received.complete(transaction=transaction)
        with pytest.raises(BROKEN):
            await ends.commit()
        assert received.state is ReceiveState.COMPLETING, "the outcome is not known yet"
        scene.await_workers()
        assert await received.resolve() is truth
    assert scene.balance() == (COMPLETED if truth is ReceiveState.COMPLETED else SENT)


@pytest.mark.parametrize("let_it", ["go through", "be terminated"])
async def test_process_waits_for_a_commit_that_is_still_under_way(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, let_it: str
) -> None:
    with scene.slow_commits() as let_go:
        proxy.cut(Cut.DURING)
        in_progress = proxy.answered(b"in progress")
        processing = asyncio.create_task(process(received, Work(scene)))
        await asyncio.to_thread(in_progress.wait)
        if let_it == "be terminated":
            scene.terminate_committing()
        let_go()
        assert await processing == (1 if let_it == "go through" else 2)
    assert scene.balance() == COMPLETED


class Work:
    """Counts how often it was done; answers with that."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._times = 0

    async def __call__(self, message: ReceivedMessage, transaction: Any) -> int:
        self._times += 1
        await self._scene.ledger.acompleted(transaction, message.sequence_number)
        return self._times
