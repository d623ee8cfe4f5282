"""Ten sends one after the other against ten that overlap, at a distance: it is the round trips that count."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

import pgqueue
import pgqueue.aio
from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.chaos.distance import Distance

QUEUE = "far-away"
ROUNDS = 5


@pytest.fixture
def far(database: Database) -> Iterator[Distance]:
    with QueueClient(database.dsn) as client:
        client.create_queue(QUEUE)
    with Distance(database.dsn, latency=timedelta(milliseconds=20)) as distance:
        yield distance


def test_ten_that_overlap_take_a_third_of_ten_in_a_row(database: Database, far: Distance) -> None:
    in_a_row, overlapped = [], []
    with QueueClient(far.dsn) as client:
        orders = client.queue(QUEUE)
        orders.send(Message("to have connected"))
        for _ in range(ROUNDS):
            with Watch(far) as watch:
                for body in range(10):
                    orders.send(Message(body))
            in_a_row.append(watch)
            with Watch(far) as watch, orders.sender(max_in_flight=10) as sender:
                for body in range(10):
                    sender.send(Message(body))
            overlapped.append(watch)
    judge(in_a_row, overlapped)


async def test_ten_that_overlap_take_a_third_of_ten_in_a_row_when_awaited(database: Database, far: Distance) -> None:
    in_a_row, overlapped = [], []
    async with pgqueue.aio.QueueClient(far.dsn) as client:
        orders = client.queue(QUEUE)
        await orders.send(Message("to have connected"))
        for _ in range(ROUNDS):
            with Watch(far) as watch:
                for body in range(10):
                    await orders.send(Message(body))
            in_a_row.append(watch)
            with Watch(far) as watch:
                async with orders.sender(max_in_flight=10) as sender:
                    for body in range(10):
                        await sender.send(Message(body))
            overlapped.append(watch)
    judge(in_a_row, overlapped)


class Watch:
    """How long a block took, and how many round trips."""

    def __init__(self, distance: Distance) -> None:
        self._distance = distance

    def __enter__(self) -> Watch:
        self._began = time.monotonic(), self._distance.round_trips
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began[0]
        self.round_trips = self._distance.round_trips - self._began[1]


def judge(in_a_row: list[Watch], overlapped: list[Watch]) -> None:
    assert min(watch.round_trips for watch in in_a_row) >= 10
    assert max(watch.round_trips for watch in overlapped) <= 3
    assert min(watch.seconds for watch in in_a_row) > 3 * min(watch.seconds for watch in overlapped)
