"""The connection breaks during COMMIT: what became of it is asked, not guessed, and acted upon."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from pgqueue import QueueClient, ReceivedMessage, ReceiveState, process
from pgqueue.errors import ConnectionLostError, MessageAlreadySettledError
from tests.chaos.ledger import Balance
from tests.chaos.proxy import Cut, Proxy
from tests.chaos.scene import Scene
from tests.chaos.sources import BROKEN, SOURCES, TRANSACTIONS, source

SENT = Balance(sent=1, completed=0, dead_lettered=0, purged=0, remaining=1, wrong=())
COMPLETED = replace(SENT, completed=1, remaining=0)


@pytest.fixture
def received(scene: Scene) -> ReceivedMessage:
    scene.send()
    return scene.receive()


@pytest.mark.parametrize("kind", SOURCES)
def test_a_transaction_ends_well_when_its_commit_went_through_unheard(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str
) -> None:
    proxy.cut(Cut.AFTER)
    with source(kind, proxy.dsn) as begin_from, received.transaction(begin_from) as transaction:
        scene.ledger.completed(transaction, received.sequence_number)
    assert received.state is ReceiveState.COMPLETED
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize("kind", SOURCES)
def test_a_transaction_fails_when_its_commit_never_arrived_and_the_message_is_still_ours(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str
) -> None:
    proxy.cut(Cut.BEFORE)
    with (
        source(kind, proxy.dsn) as begin_from,
        pytest.raises(ConnectionLostError),
        received.transaction(begin_from) as transaction,
    ):
        scene.ledger.completed(transaction, received.sequence_number)
    assert received.state is ReceiveState.RECEIVED
    assert scene.balance() == SENT
    scene.finish(received)
    assert scene.balance() == COMPLETED


@pytest.mark.core
@pytest.mark.parametrize("kind", ["sqlalchemy engine", "sqlalchemy session maker"])
@pytest.mark.parametrize(("cut", "times"), [(Cut.BEFORE, 2), (Cut.AFTER, 1)])
def test_process_works_again_only_when_the_commit_never_arrived(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, cut: Cut, times: int, kind: str
) -> None:
    proxy.cut(cut)
    with source(kind, proxy.dsn) as begin_from:
        assert process(received, Work(scene), begin_from) == times
    assert received.state is ReceiveState.COMPLETED
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize(("cut", "truth"), [(Cut.BEFORE, ReceiveState.RECEIVED), (Cut.AFTER, ReceiveState.COMPLETED)])
@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_resolve_returns_the_outcome_of_the_callers_commit(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str, cut: Cut, truth: ReceiveState
) -> None:
    proxy.cut(cut)
    with source(kind, proxy.dsn) as transaction:
        scene.ledger.completed(transaction, received.sequence_number)
        received.complete(transaction=transaction)
        with pytest.raises(BROKEN):
            transaction.commit()
        assert received.context.state is ReceiveState.COMPLETING, "the outcome is not known yet"
        scene.await_workers()
        assert received.resolve() is truth
    assert scene.balance() == (COMPLETED if truth is ReceiveState.COMPLETED else SENT)


@pytest.mark.parametrize("let_it", ["go through", "be terminated"])
def test_process_waits_for_a_commit_that_is_still_under_way(scene: Scene, let_it: str) -> None:
    scene.send()
    with scene.slow_commits() as let_go, Proxy(scene.database.dsn) as proxy, QueueClient(proxy.dsn) as client:
        [received] = client.queue(scene.queue.name).receive()
        proxy.cut(Cut.DURING)
        in_progress = proxy.answered(b"in progress")
        with ThreadPoolExecutor() as thread:
            processing = thread.submit(process, received, Work(scene))
            in_progress.wait()
            if let_it == "be terminated":
                scene.terminate_committing()
            let_go()
            assert processing.result() == (1 if let_it == "go through" else 2)
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_resolve_returns_completing_while_the_callers_commit_is_still_under_way(
    scene: Scene, proxy: Proxy, received: ReceivedMessage, kind: str
) -> None:
    proxy.cut(Cut.DURING)
    with scene.slow_commits() as let_go, source(kind, proxy.dsn) as transaction:
        scene.ledger.completed(transaction, received.sequence_number)
        received.complete(transaction=transaction)
        with pytest.raises(BROKEN):
            transaction.commit()
        assert received.resolve() is ReceiveState.COMPLETING
        let_go()
        scene.await_workers()
        assert received.resolve() is ReceiveState.COMPLETED
    assert scene.balance() == COMPLETED


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_settlement_of_its_own_that_was_not_answered_can_be_called_again(scene: Scene, cut: Cut) -> None:
    scene.send()
    with Proxy(scene.database.dsn) as proxy, QueueClient(proxy.dsn) as client:
        [received] = client.queue(scene.queue.name).receive()
        proxy.cut(cut, b"pgqueue.complete(")
        with pytest.raises(ConnectionLostError):
            received.complete()
        assert received.context.state is ReceiveState.COMPLETING, "the outcome is not known yet"
        if cut is Cut.BEFORE:
            received.complete()
        else:
            with pytest.raises(MessageAlreadySettledError):
                received.complete()
        assert received.state is ReceiveState.COMPLETED
    assert scene.balance().remaining == 0


class Work:
    """Counts how often it was done; answers with that."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._times = 0

    def __call__(self, message: ReceivedMessage, transaction: Any) -> int:
        self._times += 1
        self._scene.ledger.completed(transaction, message.sequence_number)
        return self._times
