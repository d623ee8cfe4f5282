"""Notifies recipients in a process of its own, to be killed. Run as a script, see ``test_killed.py``.

It pauses before and after every statement, and in its recipient; there it reports the step, a JSON line on stdout,
and waits for a line on stdin.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

import pgqueue
from pgqueue.flows import Flow
from pgqueue.notifications import (
    NotificationTypes,
    Pace,
    QueuedTransmitter,
    QueueNotification,
    ReceiptStatus,
)
from tests.chaos.consumer import stand

MOMENT = timedelta(milliseconds=1)
ROUNDS = 3
VERBS = "receive", "postpone", "complete", "pin", "clock"

types = NotificationTypes()


@types.register("counted")
@dataclass
class Counted(QueueNotification):
    """Is over after so many rounds; its state is how many there have been."""


class Standing:
    """A connection or transaction that pauses before and after each statement."""

    def __init__(self, inner: Any, finished: list[int]) -> None:
        self._inner = inner
        self._finished = finished

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: Any) -> Flow[Any]:
        verb = next(verb for verb in VERBS if re.search(rf"pgqueue\._?{verb}(_delivery)?\(", statement.sql))
        return self._around(verb, self._inner.execute(statement))

    def begin(self) -> Flow[Any]:
        return Standing((yield from self._inner.begin()), self._finished)

    def commit(self, last: Any = None) -> Flow[None]:
        return self._around("commit", self._inner.commit(last))

    def _around(self, step: str, flow: Flow[Any]) -> Flow[Any]:
        stand(f"before {step}", finished=self._finished[0])
        result = yield from flow
        if step in ("commit", "postpone") and not (step == "postpone" and hasattr(self._inner, "handle")):
            self._finished[0] += 1
        stand(f"after {step}", finished=self._finished[0])
        return result


def counting(dsn: str, pause: Any) -> Any:
    """A recipient that writes what it sees, at once and for good."""

    def recipient(counted: Counted) -> ReceiptStatus:
        seen = counted.state or 0
        with psycopg.connect(dsn, autocommit=True) as outside:
            outside.execute("insert into notified values (default, %s)", [seen])
        pause("telling")
        counted.state = seen + 1
        counted.complete = counted.state == ROUNDS
        pause("told")
        return ReceiptStatus.PENDING

    return recipient


def taking_part(dsn: str, pause: Any) -> Any:
    """The same, and it writes into the transaction, too."""
    told = counting(dsn, pause)

    def recipient(counted: Counted, transaction: Any) -> ReceiptStatus:
        transaction.execute("insert into effect values (%s)", [counted.state or 0])
        receipt: ReceiptStatus = told(counted)
        return receipt

    return recipient


RECIPIENTS = {"alone": counting, "transaction": taking_part}


def transmitter(client: pgqueue.QueueClient, dsn: str, name: str, kind: str, pause: Any) -> QueuedTransmitter:
    made = QueuedTransmitter(client.queue(name), types, pace=Pace(MOMENT, 1.0, MOMENT))
    made.register(RECIPIENTS[kind](dsn, pause))
    return made


def main(dsn: str, name: str, kind: str) -> None:
    finished = [0]
    with pgqueue.QueueClient(dsn) as client:
        made = transmitter(client, dsn, name, kind, lambda step: stand(step, finished=finished[0]))
        processing: Any = made._processing
        processing.source = Standing(processing.source, finished)
        processing._begin = processing.source.begin
        while not made.process_pending().removed:
            pass
    stand("over", finished=finished[0])


if __name__ == "__main__":
    main(*sys.argv[2:])
