"""A process that handles flights: each becomes a delay, which is sent in the transaction that completes the flight."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import psycopg

from pgqueue import Message, QueueClient, ReceivedMessage, RetryPolicy, Worker
from pgqueue.demo.spark.plan import CANCELLED, DELAYS, FLIGHTS
from pgqueue.errors import DeadLetter

TOGETHER = 50


def work(dsn: str, accepts_cancelled: bool, *_: object) -> None:
    """Run a worker until SIGTERM."""
    logging.getLogger("pgqueue").setLevel(logging.CRITICAL)  # the failures are on purpose
    with QueueClient(dsn) as client:
        delays = client.queue(DELAYS)

        def handler(message: ReceivedMessage, transaction: psycopg.Connection[Any]) -> None:
            delays.send(_delay(message, accepts_cancelled), transaction=transaction)

        Worker(
            client.queue(FLIGHTS),
            handler,
            concurrency=2,
            transaction="psycopg",
            transaction_batch=TOGETHER,
            retry=RetryPolicy(first_delay=timedelta(milliseconds=200), max_delay=timedelta(seconds=1)),
        ).run()


def _delay(message: ReceivedMessage, accepts_cancelled: bool) -> Message:
    """The message for a flight. Some fail at the first delivery; cancelled flights are refused or accepted."""
    flight = message.body
    if message.delivery_count == 1 and int(flight["flight"]) % 200 == 7:
        raise TimeoutError(f"{flight['origin']} does not answer")
    was_cancelled = flight["dep_delay"] == "NA"
    if was_cancelled and not accepts_cancelled:
        raise DeadLetter(CANCELLED, f"{flight['carrier']} {flight['flight']} never left {flight['origin']}")
    delay = None if was_cancelled else int(flight["dep_delay"])
    body = {"carrier": flight["carrier"], "origin": flight["origin"], "delay": delay}
    return Message(body, message_id=message.message_id, subject=flight["carrier"])
