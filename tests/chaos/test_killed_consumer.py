"""A consumer is killed at every step: nothing is lost, nothing counts twice, its old token is worth nothing."""

from __future__ import annotations

import psycopg
import pytest

from tests.chaos.ledger import Balance
from tests.chaos.processes import Consumer
from tests.chaos.scene import QUEUE, Scene

KINDS = ["psycopg", "sqlalchemy"]
SENT_AND_COMPLETED = Balance(sent=1, completed=1, dead_lettered=0, purged=0, remaining=0, wrong=())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["claimed", "pinned", "worked", "deleted"])
def test_the_message_of_a_killed_consumer_is_redelivered_after_one_lock_duration(
    scene: Scene, step: str, kind: str
) -> None:
    [number] = scene.send()
    with Consumer("pinned", scene.database.dsn, QUEUE, kind) as consumer:
        token = consumer.reach("claimed").said["lock_token"]
        if step != "claimed":
            consumer.go_on().reach(step)
        consumer.kill()

    assert scene.queue.receive() == []
    scene.pass_a_lock_duration()
    received = scene.receive()
    assert (received.sequence_number, received.delivery_count) == (number, 2)
    with pytest.raises(psycopg.Error) as refusal:
        scene.complete(number, token)
    assert refusal.value.sqlstate == "PQ001"
    scene.finish(received)
    assert scene.balance() == SENT_AND_COMPLETED


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_goes_through_although_its_client_was_killed_meanwhile(scene: Scene, kind: str) -> None:
    scene.send()
    with scene.slow_commits() as let_go, Consumer("pinned", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("committing").kill()
        scene.pass_a_lock_duration()
        assert scene.queue.receive() == [], "while the COMMIT is under way no other receiver gets the message"
        let_go()
        scene.await_workers()
    scene.pass_a_lock_duration()
    assert scene.queue.receive() == []
    assert scene.balance() == SENT_AND_COMPLETED


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_was_broken_off_on_both_sides_is_undone_and_the_message_comes_again(
    scene: Scene, kind: str
) -> None:
    scene.send()
    with scene.slow_commits() as let_go, Consumer("pinned", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("committing").kill()
        scene.terminate_committing()
        let_go()
    scene.pass_a_lock_duration()
    received = scene.receive()
    assert received.delivery_count == 2
    scene.finish(received)
    assert scene.balance() == SENT_AND_COMPLETED


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_taken_in_a_killed_consumers_transaction_is_back_at_once(scene: Scene, kind: str) -> None:
    [number] = scene.send()
    with Consumer("transacted", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("taken").kill()
        received = scene.receive()
    assert (received.sequence_number, received.delivery_count) == (number, 1)
    scene.finish(received)
    assert scene.balance() == SENT_AND_COMPLETED
