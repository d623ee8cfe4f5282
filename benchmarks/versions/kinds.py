"""Actors of a week, besides those of :mod:`benchmarks.chaos`: each version has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import psycopg

import pgqueue
from benchmarks.chaos.evidence import EFFECT
from benchmarks.chaos.kinds import KINDS
from benchmarks.chaos.kinds.acting import Actor, Kind
from benchmarks.chaos.kinds.senders import Sender
from pgqueue import Message, ReceivedMessage
from pgqueue.flows import receiving
from pgqueue.model.backoff import Backoff
from pgqueue.statements import looking

#: Without receivers: its messages expire.
EXPIRING = "expiring"
#: Gets the messages of schedules.
REPORTS = "reports"
LIVES = timedelta(hours=1)
#: A message is scheduled for so many hours ahead at the most.
AHEAD = 24
#: A listener waits so long, and does not poll meanwhile.
NEVER = timedelta(hours=6)

INSTALL = "create table chaos.report (due text not null)"
REPORT = "insert into chaos.report (due) values (%s)"


class Upkeep:
    """Sends what is due after hours or expires within them, sweeps, and peeks."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._client = pgqueue.QueueClient(actor.setting.dsn)
        self._connection = psycopg.connect(actor.setting.dsn, autocommit=True)
        self._acts: list[Callable[[], None]] = [self._schedule, self._send_to_expire, self._sweep, self._peek]

    def step(self) -> None:
        self._actor.pause(self._actor.chance.uniform(0.05, 0.3))
        self._actor.chance.choice(self._acts)()

    def _schedule(self) -> None:
        queue, [message] = self._actor.chance.choice(self._actor.setting.queues), self._actor.new_messages()
        [now] = self._connection.execute("select pgqueue.clock()").fetchone() or [None]
        at = now + timedelta(hours=self._actor.chance.uniform(0, AHEAD))
        with self._actor.operation("send", queue, ids=[message], scheduled=True, doubt=True):
            self._client.queue(queue).schedule(Message({"id": message}), at=at)

    def _send_to_expire(self) -> None:
        [message] = self._actor.new_messages()
        with self._actor.operation("send", EXPIRING, ids=[message], doubt=True):
            self._client.queue(EXPIRING).send(Message({"id": message}, time_to_live=LIVES))

    def _sweep(self) -> None:
        with self._actor.operation("sweep"):
            self._client.sweep()

    def _peek(self) -> None:
        queue = self._actor.chance.choice(self._actor.setting.queues)
        with self._actor.operation("peek", queue):
            self._client.queue(queue).peek()


class Waiting:
    """Receives one message after the other, and completes it in the transaction of what it writes about it."""

    wait = timedelta(seconds=1)

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._queue = pgqueue.QueueClient(actor.setting.dsn).queue(actor.queue)
        self._connection = psycopg.connect(actor.setting.dsn)

    def step(self) -> None:
        with self._actor.operation("wait", doubt=True) as operation:
            received = self._queue.receive(wait=self.wait)
            operation.facts["ids"] = [each.body["id"] for each in received]
        for each in received:
            with self._actor.operation("note", ids=[each.body["id"]]), self._connection.transaction():
                self._write(each)
                each.complete(transaction=self._connection)

    def _write(self, received: ReceivedMessage) -> None:
        self._connection.execute(REPORT, [received.message_id])


class Listener(Waiting):
    """Waits for a NOTIFY and never polls, nor does any other actor of its process."""

    wait = NEVER

    def __init__(self, actor: Actor) -> None:
        super().__init__(actor)
        receiving.POLLS = Backoff(NEVER, NEVER)  # type: ignore[attr-defined]  # that of this module alone
        looking.SHORTEST_PAUSE = NEVER.total_seconds()
        looking.pause_until = lambda _: NEVER.total_seconds()

    def _write(self, received: ReceivedMessage) -> None:
        self._connection.execute(EFFECT, [received.body["id"], self._actor.name])


class PatientSender(Sender):
    """A sender whose records of an hour fit into memory."""

    def step(self) -> None:
        super().step()
        self._actor.pause(self._actor.chance.uniform(0, 0.5))


OURS: Mapping[str, type[Kind]] = {
    **KINDS,
    "upkeep": Upkeep,
    "reports": Waiting,
    "listener": Listener,
    "patient sender": PatientSender,
}
