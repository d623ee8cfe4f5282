"""The cost of ten thousand notifications that are pending and not ready: next to nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgqueue import QueueClient
from pgqueue.flows import Flow
from pgqueue.notifications import Pace, QueuedTransmitter, ReceiptStatus
from pgqueue.testing import Database
from tests.notifications.place import MINUTE, Order, types
from tests.sql.stage import Session, Stage
from tests.sql.test_plans import Explainer, assert_cheap

MANY = 10_000
VERBS = "receive", "postpone", "complete", "clock"


class Counting:
    """Where a transmitter's statements run, counted by their verbs."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.verbs: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: Any) -> Flow[Any]:
        self.verbs[next(verb for verb in VERBS if f"pgqueue.{verb}(" in statement.sql)] += 1
        return self._inner.execute(statement)  # type: ignore[no-any-return]


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    """A queue with many notifications that rest for an hour."""
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows(
            "select pgqueue.send_batch('q', array_agg(%(body)s::jsonb), content_types => array_agg(%(kind)s::text))"
            "  from generate_series(1, %(many)s)",
            body='{"notification": "order", "version": 1, "data": {"number": 1}, "attempts": 1}',
            kind="application/vnd.pgqueue.notification+json",
            many=MANY,
        )
        ann.settle_batch("abandon_batch", ann.receive(MANY), delay=60 * MINUTE)
        ann.rows("vacuum (analyze) pgqueue.message, pgqueue.scheduled_message")
        yield stage


@pytest.fixture
def transmitter(stage: Stage, database: Database) -> Iterator[tuple[QueuedTransmitter, Counting]]:
    with QueueClient(database.dsn) as client:
        transmitter = QueuedTransmitter(client.queue("q"), types, pace=Pace(MINUTE, 2.0, 60 * MINUTE))
        processing: Any = transmitter._processing
        processing.source = counting = Counting(processing.source)
        yield transmitter, counting


@pytest.mark.core
def test_polling_for_ready_notifications_is_one_statement(transmitter: tuple[QueuedTransmitter, Counting]) -> None:
    told, counting = transmitter
    for _ in range(3):
        assert told.process_pending().total == 0
    assert counting.verbs == {"receive": 3}


def test_one_that_is_ready_costs_the_same_as_alone(
    stage: Stage, transmitter: tuple[QueuedTransmitter, Counting]
) -> None:
    told, counting = transmitter
    told.register(lambda _: ReceiptStatus.PENDING)
    for number in range(3):
        stage.session(f"sender {number}").rows(
            "select pgqueue.send('q', %(body)s::jsonb)",
            body=json.dumps(types.to_body(Order(number))),
        )
        counting.verbs.clear()
        assert told.process_pending().kept == 1
        assert counting.verbs == {"receive": 2, "clock": 1, "postpone": 1}


def test_a_receive_looks_at_a_few_pages(stage: Stage) -> None:
    explainer = Explainer(stage.session("bob"))
    for _ in range(3):
        assert_cheap(explainer.fewest(explainer.session.receive))
        stage.passes(MINUTE)


def test_putting_one_back_and_fetching_it_again_looks_at_a_few_pages(stage: Stage) -> None:
    explainer = Explainer(stage.session("bob"))
    bob: Session = explainer.session
    bob.send("order")

    def put_back() -> None:
        (received,) = bob.receive()
        bob.settle("postpone", received, delay=MINUTE, body=Jsonb({"attempts": 2}))
        stage.passes(2 * MINUTE)

    assert_cheap(explainer.fewest(put_back))
    assert_cheap(explainer.fewest(bob.receive))
