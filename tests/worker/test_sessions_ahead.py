"""Messages of a session that a worker receives ahead: the order holds when one fails, is lost, or the worker stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from pgqueue import ReceiveState, RetryPolicy
from pgqueue.statements import Statement, settling
from pgqueue.statements.statement import nothing
from pgqueue.testing import Database
from pgqueue.worker.pace import Pace
from tests.patience import PATIENCE, eventually
from tests.worker.scene import FACES, Running
from tests.worker.test_sessions import SECOND, Steps, taken_over

COUNT = 300
#: Of a message that has others ahead of it by then, because the worker knows that its handler is fast.
LATE = 250

LOSE_THE_CONNECTION = Statement("select pg_terminate_backend(pg_backend_pid())", {}, nothing)


@pytest.fixture(autouse=True)
def handlers_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker takes them for fast ones from the beginning: when it would notice depends on the machine."""
    monkeypatch.setattr(Pace, "_look_ahead", lambda pace: setattr(pace, "ahead", 100))


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Steps]:
    with Steps(database, request.param) as scene:
        scene.send_to("a", *range(COUNT))
        yield scene


class Gate:
    """A handler that waits at the first message of ten at which a condition holds, and what it has seen."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition
        self.seen: list[tuple[Any, int]] = []
        self.at: int | None = None
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, message: Any) -> None:
        self.seen.append((message.body, message.delivery_count))
        if self.at is None and message.body % 10 == 0 and self.condition():
            self.at = message.body
            self.reached.set()
            assert self.opened.wait(PATIENCE)

    def is_reached(self) -> int:
        assert self.reached.wait(PATIENCE)
        assert self.at is not None
        return self.at


def locked(scene: Steps) -> int:
    """How many messages have been received under the session's present lock, and are not completed."""
    ((count,),) = scene.rows(
        "select count(*) from pgqueue.message join pgqueue.session using (queue_id, session_id, lock_token)"
    )
    return int(count)


@pytest.mark.core
def test_messages_behind_a_failed_one_are_handled_after_it_and_their_deliveries_are_not_counted_twice(
    scene: Steps,
) -> None:
    seen: list[tuple[Any, int]] = []

    def handler(message: Any) -> None:
        seen.append((message.body, message.delivery_count))
        if message.body == LATE and message.delivery_count == 1:
            raise ValueError("not yet")

    with scene.working(handler, retry=RetryPolicy(first_delay=timedelta(0)), max_messages_per_session=None):
        eventually(lambda: scene.left() == [])
    bodies = [*range(LATE + 1), *range(LATE, COUNT)]
    assert seen == [(body, 2 if nth == LATE + 1 else 1) for nth, body in enumerate(bodies)]


def test_a_worker_that_stops_gives_back_what_it_received_ahead(scene: Steps) -> None:
    gate = Gate(lambda: locked(scene) > 1)
    running = Running(scene.make(gate, max_messages_per_session=None))
    at = gate.is_reached()
    running.worker.stop()
    eventually(lambda: locked(scene) <= 1)
    gate.opened.set()
    running.ended()
    assert gate.seen == [(body, 1) for body in range(at + 1)]
    with scene.queue.accept_session("a") as session:
        left = session.receive(max_messages=COUNT)
    assert [(message.body, message.delivery_count) for message in left] == [(body, 1) for body in range(at + 1, COUNT)]


def test_a_worker_with_a_fast_handler_accepts_more_sessions_than_it_has_handlers(scene: Steps) -> None:
    """Those that no handler has begun are given back when it stops, and their deliveries are not counted."""
    gate = Gate(lambda: len(scene.held()) > 1)
    send_to_short_sessions(scene)
    running = Running(scene.make(gate, concurrency=1, max_messages_per_session=None))
    gate.is_reached()
    running.worker.stop()
    gate.opened.set()
    running.ended()
    assert scene.held() == []
    assert {count for _, count in gate.seen} == {1}
    again: list[tuple[Any, int]] = []
    with scene.working(lambda message: again.append((message.body, message.delivery_count))):
        eventually(lambda: scene.left() == [])
    assert sorted(gate.seen + again) == [(number, 1) for number in range(2 * COUNT)]


def send_to_short_sessions(scene: Steps) -> None:
    for number in range(COUNT, 2 * COUNT):
        scene.send_to(f"b{number}", number)


def empty(scene: Steps) -> list[tuple[Any, ...]]:
    """The sessions that the worker holds and has completed."""
    return scene.rows(
        """select session_id from pgqueue.session left join pgqueue.message using (queue_id, session_id)
            where session.lock_token is not null and message.sequence_number is null"""
    )


def test_a_worker_holds_few_sessions_beyond_its_handlers(scene: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgqueue.worker.sessions.SESSIONS_AHEAD", 3)
    send_to_short_sessions(scene)
    held: list[int] = []

    def handler(message: Any) -> None:
        if message.body % 10 == 0:
            held.append(len(scene.held()))

    with scene.working(handler, concurrency=1):
        eventually(lambda: scene.left() == [])
    assert 1 < max(held) <= 1 + 3


def test_a_few_sessions_that_are_over_are_exchanged_though_all_handlers_are_busy(scene: Steps) -> None:
    send_to_short_sessions(scene)
    gate = Gate(lambda: bool(empty(scene)))
    with scene.working(gate, concurrency=1):
        gate.is_reached()
        eventually(lambda: empty(scene) == [])
        gate.opened.set()


def test_an_idle_handler_does_not_wait_for_more_sessions_to_exchange(
    scene: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker holds empty sessions, and may accept few beside them."""
    hour = timedelta(hours=1)
    monkeypatch.setattr("pgqueue.worker.sessions.PUT_OFF", hour.total_seconds())
    for number in range(8):
        scene.send_to(f"b{number}", COUNT + number)
    with scene.working(lambda _: None, concurrency=1, session_idle_timeout=hour):
        eventually(lambda: scene.left() == [])
        assert len(scene.held()) >= 8
        scene.send_to("c", COUNT)
        eventually(lambda: scene.left() == [])


def test_nothing_behind_a_message_whose_session_is_lost_is_handled(scene: Steps) -> None:
    gate = Gate(lambda: locked(scene) > 1)
    with scene.working(gate, concurrency=1, max_messages_per_session=None) as running:
        at = gate.is_reached()
        with taken_over(scene, "a"):
            gate.opened.set()
            eventually(lambda: running.worker.tally.lost > 0)
            eventually(lambda: scene.held() == ["a"])
            handled_when_lost = len(gate.seen)
        eventually(lambda: scene.left() == [])
    again = gate.seen.index((at, 2))
    assert again <= handled_when_lost
    assert [body for body, _ in gate.seen[again:]] == list(range(at, COUNT))


def test_a_worker_that_has_lost_a_session_while_it_handled_a_message_receives_ahead_again(scene: Steps) -> None:
    scene.client.update_queue("steps", lock_duration=2 * SECOND)
    ahead: list[int] = []

    def handler(message: Any) -> None:
        if message.body > LATE:
            ahead.append(locked(scene))
        elif message.body == LATE and message.delivery_count == 1:
            with taken_over(scene, "a"):
                eventually(lambda: message.context.state is ReceiveState.FAULTED)

    with scene.working(handler, concurrency=1, max_messages_per_session=None):
        eventually(lambda: scene.left() == [])
    assert max(ahead) > 1


def test_a_message_that_is_lost_before_its_completion_is_not_overtaken(scene: Steps) -> None:
    """Completions wait for a lock of ours while the next two messages are handled, the first of which is lost then."""
    handled: list[Any] = []
    left_again: list[list[Any]] = []
    with scene.database.connect() as blocker:

        def handler(message: Any) -> None:
            handled.append(message)
            match message.body - LATE, message.delivery_count:
                case -1, 1:
                    blocker.execute("lock table pgqueue.message in share mode")
                case 0, 1:
                    eventually(lambda: scene.rows("select from pg_locks where not granted"))
                case 1, 1:
                    handled[-2].context.lose()
                    blocker.rollback()
                case 0, _:
                    left_again.append(scene.left())

        with scene.working(handler, concurrency=1, max_messages_per_session=None):
            eventually(lambda: scene.left() == [])
    assert [left[:2] for left in left_again] == [[LATE, LATE + 1]]


def test_a_message_that_its_handler_completes_does_not_overtake_its_predecessor(scene: Steps) -> None:
    """The handler completes every third message; the others are completed after it has returned."""
    overtaken: list[int] = []

    def handler(message: Any) -> None:
        if message.body % 3 == 0:
            message.complete()
        elif message.body % 3 == 2 and message.body > COUNT // 2:
            overtaken.extend(body for body in scene.left() if body < message.body)

    async def ahandler(message: Any) -> None:
        if message.body % 3 == 0:
            await message.complete()
        elif message.body % 3 == 2 and message.body > COUNT // 2:
            overtaken.extend(body for body in scene.left() if body < message.body)

    with scene.working(handler if scene.face == "threads" else ahandler, max_messages_per_session=None):
        eventually(lambda: scene.left() == [])
    assert overtaken == []


def test_a_message_whose_callback_may_refuse_its_completion_is_not_overtaken(scene: Steps) -> None:
    seen: list[tuple[Any, int]] = []

    def refuse() -> None:
        raise ValueError("not yet")

    def handler(message: Any) -> None:
        seen.append((message.body, message.delivery_count))
        if (message.body, message.delivery_count) == (LATE, 1):
            message.context.on_complete(refuse)

    with scene.working(handler, concurrency=1):
        eventually(lambda: scene.left() == [])
    assert seen.index((LATE, 2)) == LATE + 1


def test_a_session_is_free_when_a_handler_has_run_longer_than_locks_are_renewed(scene: Steps) -> None:
    scene.client.update_queue("steps", lock_duration=2 * SECOND)
    over = threading.Event()
    with scene.working(lambda _: over.wait(60), concurrency=1, max_lock_renewal_duration=2 * SECOND):
        eventually(lambda: scene.held() == ["a"])
        eventually(lambda: scene.is_free("a"))
        over.set()


def test_a_handler_that_is_idle_after_a_failure_needs_no_poll(scene: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session has others ahead by then, which are given back."""
    for pause in ("dispatcher.SHORTEST_PAUSE", "dispatcher.LONGEST_PAUSE", "service.LONGEST_PAUSE"):
        monkeypatch.setattr(f"pgqueue.worker.{pause}", timedelta(minutes=10).total_seconds())

    def handler(message: Any) -> None:
        if (message.body, message.delivery_count) == (LATE, 1):
            raise ValueError("not yet")

    with scene.working(handler, concurrency=1, retry=RetryPolicy(first_delay=timedelta(0))):
        eventually(lambda: scene.left() == [])


def test_a_session_is_released_when_it_is_unknown_whether_messages_were_given_back(
    scene: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement may reach the server late, when messages received since have the same token."""
    tokens: dict[tuple[Any, int], Any] = {}
    lost = iter([LOSE_THE_CONNECTION])
    release = settling.release_batch
    monkeypatch.setattr(settling, "release_batch", lambda *given: next(lost, None) or release(*given))

    def handler(message: Any) -> None:
        tokens[message.body, message.delivery_count] = message.lock_token
        if (message.body, message.delivery_count) == (LATE, 1):
            raise ValueError("not yet")

    with scene.working(handler, concurrency=1, retry=RetryPolicy(first_delay=timedelta(0))):
        eventually(lambda: scene.left() == [])
    assert [body for body, _ in tokens] == [*range(LATE + 1), *range(LATE, COUNT)]
    assert tokens[LATE, 1] != tokens[LATE, 2]
