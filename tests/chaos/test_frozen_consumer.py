"""A consumer is frozen beyond its lock and goes on: for what another has taken it commits nothing."""

from __future__ import annotations

import pytest

from tests.chaos.ledger import Balance
from tests.chaos.processes import Consumer
from tests.chaos.scene import QUEUE, Scene

KINDS = ["psycopg", "sqlalchemy"]
COMPLETED_ONCE = Balance(sent=1, completed=1, dead_lettered=0, purged=0, remaining=0, wrong=())


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_proves_the_lock_last_commits_nothing_even_when_it_swallows_the_refusal(
    scene: Scene, kind: str
) -> None:
    scene.send()
    with Consumer("unpinned", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("claimed").go_on().reach("worked")
        consumer.freeze()
        scene.pass_a_lock_duration()
        scene.finish(scene.receive())
        consumer.thaw()
        consumer.go_on().reach("refused").reach("ended")
    assert scene.balance() == COMPLETED_ONCE


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_pins_the_lock_first_never_begins_the_work(scene: Scene, kind: str) -> None:
    scene.send()
    with Consumer("pinned", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("claimed").freeze()
        scene.pass_a_lock_duration()
        received = scene.receive()
        consumer.thaw()
        with pytest.raises(EOFError, match="claimed"):
            consumer.go_on().reach("pinned")
    scene.finish(received)
    assert scene.balance() == COMPLETED_ONCE


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_frozen_with_the_lock_pinned_keeps_the_message_and_may_finish(scene: Scene, kind: str) -> None:
    scene.send()
    with Consumer("pinned", scene.database.dsn, QUEUE, kind) as consumer:
        consumer.reach("claimed").go_on().reach("worked")
        consumer.freeze()
        scene.pass_a_lock_duration()
        assert scene.queue.receive() == []
        consumer.thaw()
        consumer.go_on().reach("committed")
    assert scene.balance() == COMPLETED_ONCE
