"""A notified receiver polls the database seldom, and still notices in time what no notification announces.

No thread pauses here: a pause moves the time of the database, and the flow's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
import pytest

from pgqueue import Message, QueueClient
from pgqueue.flows import Flow, Pause, receiving
from pgqueue.flows.arrivals import arrivals
from pgqueue.flows.locked import LockedMessage, locked
from pgqueue.model.message import from_row
from pgqueue.model.row import Row
from pgqueue.model.settings import ReceiveMode
from pgqueue.statements import Statement
from pgqueue.statements import receiving as verbs
from pgqueue.testing import Database
from pgqueue.testing.clock import MOVE
from pgqueue.transports.wake_signals import WakeSignal
from pgqueue.worker.dispatcher import Dispatcher
from pgqueue.worker.pace import Pace
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.sessions import SessionLimits
from tests.sql.stage import AWAITED_ARE_OPEN, STAND_STILL

T = TypeVar("T")

LOCK = timedelta(seconds=20)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@dataclass
class Scene:
    """A queue that rings a bell, the statements that were run, and a time that pauses pass."""

    client: QueueClient
    onlooker: psycopg.Connection[Any]
    now: float = 0.0
    statements: int = 0
    wake_signal: WakeSignal = field(default_factory=lambda: WakeSignal("q", lambda: None))

    def __post_init__(self) -> None:
        self.onlooker.execute(STAND_STILL.encode())
        self.client.create_queue("q", lock_duration=LOCK)
        self.queue = self.client.queue("q")
        self.source: Any = self.queue._source
        self.wake_signal.is_live = True

    def listening(self, queue: str) -> WakeSignal:
        return self.wake_signal

    def execute(self, statement: Statement[T]) -> Flow[T]:
        self.statements += 1
        result: T = yield from self.source.execute(statement)
        return result

    def passes(self, pause: timedelta) -> None:
        self.now += pause.total_seconds()
        self.onlooker.execute(MOVE, [pause // timedelta(microseconds=1)])

    def time(self) -> datetime:
        """The time of the database."""
        ((time,),) = self.onlooker.execute("select pgqueue.clock()").fetchall()
        return cast(datetime, time)

    def run(self, flow: Flow[T]) -> T:
        given: Any = None
        while True:
            try:
                step = flow.send(given)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                self.passes(step.duration)
                given = None
            else:
                given = self.now if step is time.monotonic else step()


class Told:
    """Where the statements of a scene run."""

    def __init__(self, scene: Scene) -> None:
        self.execute = scene.execute
        self.wake_signal = scene.listening


#: Waits for a minute at the most; answers whether something came.
Waits = Callable[[], bool]


def waits(scene: Scene) -> Waits:
    statement = verbs.receive("q", max_messages=1, lock_duration=None, locked_by="me")
    return lambda: bool(scene.run(receiving.wait_for("q", statement, Told(scene), MINUTE)))


def waits_to_delete(scene: Scene) -> Waits:
    statement = verbs.receive_and_delete("q", max_messages=1)
    turns = receiving.Turns("q", Told(scene))
    return lambda: bool(scene.run(receiving.receive_and_delete(statement, turns, Told(scene), None, MINUTE)))


def iterates(scene: Scene, mode: ReceiveMode) -> Waits:
    def make(row: Row) -> LockedMessage:
        return from_row(LockedMessage, "q", row)

    coming = arrivals("q", mode, 0, "me", Told(scene), make)

    def wait() -> bool:
        until = scene.now + MINUTE.total_seconds()
        while scene.now < until:
            if scene.run(coming.next()) is not None:
                return True
        return False

    return wait


class NoRenewals:
    def keep(self, *_: object) -> None: ...


def dispatcher_of(scene: Scene, concurrency: int) -> Dispatcher:
    renewals: Any = NoRenewals()
    source: Any = Told(scene)
    limits = SessionLimits(concurrency, 0, None)
    make, pace = partial(locked, LockedMessage), Pace(concurrency, 0)
    return Dispatcher("q", source, make, pace, renewals, limits, lambda _: RetryPolicy(), scene.wake_signal)


def works(scene: Scene) -> Waits:
    dispatcher = dispatcher_of(scene, concurrency=1)

    def wait() -> bool:
        until = scene.now + MINUTE.total_seconds()
        while scene.now < until:
            if scene.run(dispatcher.claim(running=0, waiting=0)):
                return True
            scene.passes(timedelta(seconds=dispatcher.pause() or 0))
        return False

    return wait


FACES = [
    pytest.param(waits, id="receive"),
    pytest.param(waits_to_delete, id="receive_and_delete"),
    pytest.param(partial(iterates, mode=ReceiveMode.PEEK_LOCK), id="receiver"),
    pytest.param(partial(iterates, mode=ReceiveMode.RECEIVE_AND_DELETE), id="receiver that deletes"),
    pytest.param(works, id="Worker"),
]
each_face = pytest.mark.parametrize("face", FACES)

Face = Callable[[Scene], Waits]


@pytest.fixture
def scene(database: Database) -> Iterator[Scene]:
    with QueueClient(database.dsn, listen=False) as client, database.connect(autocommit=True) as onlooker:
        yield Scene(client, onlooker)


def quiet(scene: Scene, wait: Waits) -> None:
    """Until an idle minute costs no more than it shall."""
    for _ in range(5):
        while scene.onlooker.execute(AWAITED_ARE_OPEN.encode()).fetchone() == (True,):
            pass
        before = scene.statements
        assert not wait()
        if scene.statements - before <= MINUTE.total_seconds() * 0.4:
            return
    raise AssertionError("five idle minutes were not enough")


@each_face
def test_an_idle_minute_takes_few_statements(scene: Scene, face: Face) -> None:
    scene.queue.send(Message("a"))
    wait = face(scene)
    assert wait()
    scene.client.purge_queue("q")
    quiet(scene, wait)


@each_face
def test_a_lock_that_runs_out_is_noticed_within_a_second(scene: Scene, face: Face) -> None:
    scene.queue.send(Message("a"))
    scene.queue.receive(lock_duration=MINUTE / 2)
    began, wait = scene.now, face(scene)
    assert wait()
    assert 30 <= scene.now - began <= 31


@each_face
@pytest.mark.parametrize("way", ["schedule", "abandon"])
@pytest.mark.parametrize("seconds", [0.5, 3, 10])
def test_a_message_that_is_due_is_noticed_within_a_second(scene: Scene, face: Face, way: str, seconds: float) -> None:
    scene.queue.send(Message("a"))
    (received,) = scene.queue.receive(lock_duration=timedelta(hours=1))
    wait = face(scene)
    quiet(scene, wait)
    if way == "schedule":
        scene.queue.schedule(Message("b"), at=scene.time() + timedelta(seconds=seconds))
    else:
        received.abandon(delay=timedelta(seconds=seconds))
    scene.wake_signal.set()
    began = scene.now
    assert wait()
    assert seconds <= scene.now - began <= seconds + 1


@each_face
def test_a_notified_receiver_polls_at_once(scene: Scene, face: Face) -> None:
    wait = face(scene)
    quiet(scene, wait)
    scene.queue.send(Message("a"))
    scene.wake_signal.set()
    began = scene.now
    assert wait()
    assert scene.now == began


def test_a_receiver_whose_poll_failed_polls_again_at_once(scene: Scene) -> None:
    """The notification that it was woken by does not come a second time."""
    wait = iterates(scene, ReceiveMode.PEEK_LOCK)
    quiet(scene, wait)
    scene.queue.send(Message("a"))
    scene.wake_signal.set()
    scene.source = None
    with pytest.raises(AttributeError):
        wait()
    scene.source = scene.queue._source
    began = scene.now
    assert wait()
    assert scene.now == began


def test_a_worker_that_left_nothing_behind_claims_again_when_it_is_notified(scene: Scene) -> None:
    dispatcher = dispatcher_of(scene, concurrency=2)
    scene.queue.send(Message("a"))
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1
    before = scene.statements
    assert scene.run(dispatcher.claim(running=0, waiting=0)) == ()
    assert scene.statements == before
    assert dispatcher.pause() == 1.0

    scene.queue.send(Message("b"))
    scene.wake_signal.set()
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1


def test_a_worker_whose_claim_failed_claims_again_at_once(scene: Scene) -> None:
    """The notification that it was woken by does not come a second time."""
    dispatcher = dispatcher_of(scene, concurrency=1)
    assert not scene.run(dispatcher.claim(running=0, waiting=0))
    scene.queue.send(Message("a"))
    scene.wake_signal.set()
    scene.source = None
    with pytest.raises(AttributeError):
        scene.run(dispatcher.claim(running=0, waiting=0))
    scene.source = scene.queue._source
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1


def test_a_worker_that_found_as_many_as_it_wanted_claims_again_at_once(scene: Scene) -> None:
    dispatcher = dispatcher_of(scene, concurrency=2)
    scene.queue.send_batch([Message("a"), Message("b"), Message("c")])
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 2
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1


def test_a_worker_that_is_not_notified_claims_again_soon(scene: Scene) -> None:
    dispatcher = dispatcher_of(scene, concurrency=2)
    scene.queue.send(Message("a"))
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1
    scene.wake_signal.is_live = False
    scene.queue.send(Message("b"))
    assert len(scene.run(dispatcher.claim(running=0, waiting=0))) == 1
