"""Workers of a queue that requires sessions: one message of each session at a time, in order."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import pgqueue
from pgqueue import Message, RetryPolicy
from pgqueue.errors import InvalidArgumentError, InvalidStateError, SessionCannotBeLockedError
from pgqueue.testing import Database
from pgqueue.worker import sessions
from tests.patience import eventually
from tests.worker.scene import FACES, Running, Scene, effect

SOON = RetryPolicy(first_delay=timedelta(0))
SECOND = timedelta(seconds=1)


class Steps(Scene):
    """A queue that requires sessions."""

    def __enter__(self) -> Steps:
        super().__enter__()
        self.client.create_queue("steps", requires_session=True, lock_duration=timedelta(seconds=20))
        self.queue = self.client.queue("steps")
        return self

    def send_to(self, session_id: str, *bodies: Any) -> None:
        self.queue.send_batch([Message(body, session_id=session_id) for body in bodies])

    def is_free(self, session_id: str) -> bool:
        try:
            session = self.queue.accept_session(session_id)
        except SessionCannotBeLockedError:
            return False
        session.release()
        return True

    def held(self) -> list[str]:
        return [name for (name,) in self.rows("select session_id from pgqueue.session where lock_token is not null")]


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Steps]:
    with Steps(database, request.param) as scene:
        yield scene


class Watch:
    """The bodies that handlers have seen, by session, and how many handlers ran at a time, in all and of a session."""

    def __init__(self) -> None:
        self.seen: defaultdict[str, list[Any]] = defaultdict(list)
        self.running: defaultdict[str, int] = defaultdict(int)
        self.most_at_a_time = 0
        self._lock = threading.Lock()

    def begin(self, message: Any) -> None:
        with self._lock:
            self.running[message.session_id] += 1
            assert self.running[message.session_id] == 1, "two handlers work on one session"
            self.most_at_a_time = max(self.most_at_a_time, sum(self.running.values()))
            self.seen[message.session_id].append(message.body)

    def end(self, message: Any) -> None:
        with self._lock:
            self.running[message.session_id] -= 1

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))


@pytest.mark.parametrize("transaction", [None, "psycopg", "sqlalchemy"])
@pytest.mark.core
def test_messages_of_a_session_are_handled_in_order_and_those_of_others_beside_them(
    scene: Steps, transaction: str | None
) -> None:
    watch = Watch()
    sessions = [f"s{number}" for number in range(20)]
    for name in sessions:
        scene.send_to(name, *range(10))

    def handler(message: Any) -> None:
        watch.begin(message)
        watch.end(message)

    async def handler_in(message: Any, tx: Any) -> None:
        watch.begin(message)
        await effect(tx, message.body)
        watch.end(message)

    options: dict[str, Any] = {"transaction": transaction} if transaction else {}
    with scene.working(handler_in if transaction else handler, concurrency=4, **options) as running:
        eventually(lambda: scene.left() == [])
        eventually(lambda: bool(running.worker.tally.completed == 200))
    assert watch.seen == {name: list(range(10)) for name in sessions}
    assert scene.held() == []
    if transaction:
        assert len(scene.effects()) == 200


def test_sessions_are_worked_side_by_side_up_to_the_concurrency(scene: Steps) -> None:
    watch, together = Watch(), threading.Barrier(3)
    for name in "abcdef":
        scene.send_to(name, 1, 2)

    def handler(message: Any) -> None:
        watch.begin(message)
        together.wait(60)
        watch.end(message)

    with scene.working(handler, concurrency=3):
        eventually(lambda: scene.left() == [])
    assert watch.most_at_a_time == 3


def test_a_failed_message_comes_again_before_its_successors(scene: Steps) -> None:
    seen: list[tuple[Any, int]] = []
    scene.send_to("a", "first", "second", "third")

    def handler(message: Any) -> None:
        seen.append((message.body, message.delivery_count))
        if message.body == "second" and message.delivery_count < 3:
            raise ValueError("not yet")

    with scene.working(handler, retry=SOON):
        eventually(lambda: scene.left() == [])
    assert seen == [("first", 1), ("second", 1), ("second", 2), ("second", 3), ("third", 1)]


def test_a_message_delayed_after_a_failure_holds_up_its_session_alone(scene: Steps) -> None:
    seen: list[Any] = []
    scene.send_to("a", "fails", "waits")

    def handler(message: Any) -> None:
        seen.append((message.session_id, message.body))
        if message.body == "fails" and message.delivery_count == 1:
            raise ValueError("not yet")

    with scene.working(
        handler, retry=RetryPolicy(first_delay=timedelta(hours=1), max_delay=timedelta(hours=1), jitter=0)
    ):
        eventually(lambda: len(seen) == 1)
        scene.send_to("b", "goes on")
        eventually(lambda: len(seen) == 2)
        eventually(lambda: "goes on" not in scene.left())
        scene.database.move_clock(timedelta(hours=1))
        eventually(lambda: scene.left() == [])
    assert seen == [("a", "fails"), ("b", "goes on"), ("a", "fails"), ("a", "waits")]


def test_a_dead_letter_lets_the_next_pass(scene: Steps) -> None:
    seen: list[Any] = []
    scene.send_to("a", "bad", "good")

    def handler(message: Any) -> None:
        seen.append(message.body)
        if message.body == "bad":
            raise pgqueue.DeadLetter("Bad")

    with scene.working(handler):
        eventually(lambda: scene.left() == [])
    assert seen == ["bad", "good"]
    assert [(letter.body, letter.session_id) for letter in scene.dead()] == [("bad", "a")]


def test_the_state_is_set_in_the_transaction_of_the_handler(scene: Steps) -> None:
    """A failed handler's state is rolled back with its effects."""
    scene.send_to("a", 1, 2, 3)

    def work(message: Any, tx: Any) -> None:
        total = (message.get_session_state(transaction=tx) or 0) + message.body
        message.set_session_state(total, transaction=tx)
        tx.execute("insert into effect values (%s)", [total])
        if message.delivery_count < 2:
            raise ValueError("the first delivery fails")

    async def awork(message: Any, tx: Any) -> None:
        total = (await message.get_session_state(transaction=tx) or 0) + message.body
        await message.set_session_state(total, transaction=tx)
        await tx.execute("insert into effect values (%s)", [total])
        if message.delivery_count < 2:
            raise ValueError("the first delivery fails")

    handler = work if scene.face == "threads" else awork
    with scene.working(handler, transaction="psycopg", retry=SOON):
        eventually(lambda: scene.left() == [])
    assert scene.effects() == [1, 3, 6]
    with scene.queue.accept_session("a") as session:
        assert session.get_state() == 6


def test_a_message_outside_of_sessions_has_none(scene: Steps) -> None:
    plain = scene.client.queue("q")
    plain.send(Message(1))
    (received,) = plain.receive()
    with pytest.raises(InvalidStateError, match="belongs to no session"):
        received.get_session_state()


def test_a_long_session_gives_way_to_others(scene: Steps) -> None:
    seen: list[str] = []
    scene.send_to("long", *range(9))
    scene.send_to("short", *range(2))
    with scene.working(lambda message: seen.append(message.session_id), concurrency=1, max_messages_per_session=3):
        eventually(lambda: scene.left() == [])
    assert seen == ["long"] * 3 + ["short"] * 2 + ["long"] * 6


def test_an_empty_session_is_released_at_once(scene: Steps) -> None:
    scene.send_to("a", 1)
    with scene.working(lambda _: None):
        eventually(lambda: scene.left() == [] and scene.held() == [])
        assert scene.is_free("a")


def test_an_empty_session_is_held_for_the_idle_timeout(scene: Steps) -> None:
    """Meanwhile others do not get it, and what arrives in it is handled without accepting it again."""
    seen: list[Any] = []
    scene.send_to("a", 1)

    def handler(message: Any) -> None:
        seen.append((message.body, message.lock_token))

    with scene.working(handler, session_idle_timeout=timedelta(hours=1)):
        eventually(lambda: scene.left() == [])
        assert not scene.is_free("a")
        scene.send_to("a", 2)
        eventually(lambda: scene.left() == [])
        assert not scene.is_free("a")
    assert scene.is_free("a")
    (first, token), (second, same) = seen
    assert (first, second, token) == (1, 2, same)


def test_an_idle_session_is_released_after_the_timeout_and_another_one_accepted(scene: Steps) -> None:
    seen: list[Any] = []
    scene.send_to("a", 1)
    with scene.working(
        lambda message: seen.append(message.body), concurrency=1, session_idle_timeout=timedelta(seconds=0.3)
    ):
        eventually(lambda: seen == [1])
        scene.send_to("b", 2)
        eventually(lambda: seen == [1, 2])


def test_the_next_session_has_its_turn_when_one_has_been_empty_for_the_idle_timeout(scene: Steps) -> None:
    """The worker looks for messages more often than that."""
    seen: list[Any] = []
    scene.send_to("a", 1)
    with scene.working(lambda message: seen.append(message.body), concurrency=1, session_idle_timeout=2 * SECOND):
        eventually(lambda: seen == [1])
        scene.send_to("b", 2)
        eventually(lambda: seen == [1, 2])


def test_the_lock_of_a_session_is_renewed_while_a_handler_works_and_while_it_is_idle(scene: Steps) -> None:
    scene.client.update_queue("steps", lock_duration=3 * SECOND)
    over, seen = threading.Event(), []
    scene.send_to("a", 1, 2)

    def handler(message: Any) -> None:
        seen.append((message.body, message.delivery_count, message.lock_token))
        over.wait(60)

    with scene.working(handler, session_idle_timeout=timedelta(hours=1)):
        eventually(lambda: len(seen) == 1)
        threading.Event().wait(4)
        assert not scene.is_free("a")
        over.set()
        eventually(lambda: scene.left() == [])
        threading.Event().wait(4)
        assert not scene.is_free("a")
    assert [(body, count) for body, count, _ in seen] == [(1, 1), (2, 1)]
    assert len({token for _, _, token in seen}) == 1


def test_a_lost_session_completes_nothing_and_the_worker_takes_another(
    scene: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    """The lock is taken away as when it had expired."""
    begun, over = threading.Event(), threading.Event()
    seen: list[Any] = []
    scene.send_to("a", 1, 2)

    def handler(message: Any) -> None:
        seen.append((message.session_id, message.body, message.delivery_count))
        if len(seen) == 1:
            begun.set()
            over.wait(60)

    with scene.working(handler, concurrency=1), caplog.at_level(logging.WARNING, "pgqueue"):
        assert begun.wait(60)
        with taken_over(scene, "a"):
            over.set()
            scene.send_to("b", 3)
            eventually(lambda: len(seen) == 2)
        eventually(lambda: scene.left() == [])
    assert seen == [("a", 1, 1), ("b", 3, 1), ("a", 1, 2), ("a", 2, 1)]
    assert any(getattr(record, "session_id", None) == "a" for record in caplog.records)


def test_the_claim_loop_waits_while_the_handler_of_a_lost_session_runs(
    scene: Steps, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    pauses: list[float] = []
    pause = sessions.Sessions.pause

    def noted(self: sessions.Sessions, now: float) -> float:
        pauses.append(pause(self, now))
        return pauses[-1]

    monkeypatch.setattr(sessions.Sessions, "pause", noted)
    scene.send_to("a", 1)

    def handler(message: Any) -> None:
        begun.set()
        over.wait(60)

    with scene.working(handler, concurrency=1), caplog.at_level(logging.WARNING, "pgqueue"):
        assert begun.wait(60)
        with taken_over(scene, "a"):
            scene.send_to("a", 2)
            eventually(lambda: any(getattr(record, "session_id", None) == "a" for record in caplog.records))
            pauses.clear()
            scene.send_to("a", 3)
            eventually(lambda: bool(pauses))
            assert min(pauses) > 0
        over.set()
        eventually(lambda: scene.left() == [])


def test_an_idle_session_that_is_lost_is_dropped(scene: Steps) -> None:
    seen: list[Any] = []
    scene.send_to("a", 1)
    with scene.working(lambda message: seen.append(message.body), session_idle_timeout=timedelta(hours=1)):
        eventually(lambda: scene.left() == [])
        with taken_over(scene, "a") as session:
            scene.send_to("a", 2)
            (received,) = session.receive()
            received.complete()
            scene.send_to("a", 3)
        eventually(lambda: scene.left() == [])
    assert seen == [1, 3]


def taken_over(scene: Steps, session_id: str) -> pgqueue.Session[Any]:
    """Accept a session whose lock has expired, as soon as the worker that held it does not just receive from it."""
    accepted: list[pgqueue.Session[Any]] = []

    def take() -> bool:
        scene.run("update pgqueue.session set locked_until = pgqueue.clock() - interval '1 second'")
        with suppress(SessionCannotBeLockedError):
            accepted.append(scene.queue.accept_session(session_id))
        return bool(accepted)

    eventually(take)
    return accepted[0]


@pytest.mark.core
def test_a_worker_that_stops_gives_its_sessions_back(scene: Steps) -> None:
    """Messages that no handler has started are given back without counting the delivery."""
    begun, over = threading.Event(), threading.Event()
    scene.send_to("a", 1, 2)
    scene.send_to("b", 3)

    def handler(message: Any) -> None:
        begun.set()
        over.wait(60)

    running = Running(scene.make(handler, concurrency=2))
    assert begun.wait(60)
    eventually(lambda: len(scene.held()) == 2)
    running.worker.stop()
    over.set()
    running.ended()
    assert scene.held() == []
    with scene.queue.accept_session("a") as session:
        (received,) = session.receive()
        assert (received.body, received.delivery_count) == (2, 1)


def test_a_session_that_is_just_being_renewed_is_released_after_that(
    scene: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RELEASES", 1_000)
    begun, over = threading.Event(), threading.Event()
    scene.send_to("a", 1)

    def handler(message: Any) -> None:
        begun.set()
        over.wait(60)

    running = Running(scene.make(handler))
    assert begun.wait(60)
    with scene.database.connect() as renewing:
        renewing.execute("select from pgqueue.session for no key update")
        running.worker.stop()
        over.set()
        eventually(lambda: scene.left() == [])
        assert scene.held() == ["a"]
    running.ended()
    assert scene.held() == []


def test_a_worker_survives_the_loss_of_its_connections_and_the_order_holds(scene: Steps) -> None:
    """A receive whose answer is lost may have handed out a message: the session is accepted again."""
    seen: list[int] = []
    scene.send_to("a", *range(60))

    async def handler(message: Any, tx: Any) -> None:
        await effect(tx, message.body)
        seen.append(message.body)

    cut = """select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()"""
    with scene.working(handler, transaction="psycopg", max_messages_per_session=None):
        for reached in (5, 20, 40):
            eventually(lambda reached=reached: len(seen) > reached)  # type: ignore[misc]
            scene.run(cut)
        eventually(lambda: scene.rows("select from pgqueue.message") == [])
    effects = [number for (number,) in scene.rows("select number from effect order by transaction")]
    assert effects == list(range(60))


def test_a_paused_queue_gets_its_sessions_back_and_is_worked_when_it_goes_on(scene: Steps) -> None:
    seen: list[Any] = []
    with scene.working(lambda message: seen.append(message.body), session_idle_timeout=timedelta(hours=1)):
        scene.send_to("a", 1)
        eventually(lambda: scene.left() == [])
        scene.client.update_queue("steps", status="RECEIVE_DISABLED")
        eventually(lambda: scene.held() == [])
        scene.send_to("a", 2)
        scene.client.update_queue("steps", status="ACTIVE")
        eventually(lambda: seen == [1, 2])


@pytest.mark.parametrize("transaction_batch", [1, 5])
def test_messages_of_several_sessions_share_a_transaction(scene: Steps, transaction_batch: int) -> None:
    watch = Watch()
    for number in range(8):
        scene.send_to(f"s{number}", *range(5))

    async def handler(message: Any, tx: Any) -> None:
        watch.begin(message)
        await effect(tx, message.body)
        watch.end(message)
        if message.body == 3 and message.delivery_count == 1:
            raise ValueError("taken apart")

    with scene.working(handler, transaction="psycopg", transaction_batch=transaction_batch, retry=SOON):
        eventually(lambda: scene.left() == [])
    assert sorted(scene.effects()) == sorted(list(range(5)) * 8)


def test_an_idle_worker_polls_seldom(scene: Steps) -> None:
    """It polls once a second at most while it is notified."""
    if scene.database.dsn != scene.database.direct:
        pytest.skip("PgBouncer keeps sessions that count no calls")
    scene.run(
        "do $$ begin execute format('alter database %I set track_functions = %L', current_database(), 'all'); end $$"
    )
    with scene.working(lambda _: None, concurrency=2, session_idle_timeout=timedelta(hours=1)) as running:
        scene.send_to("a", 1)
        eventually(lambda: bool(running.worker.tally.completed == 1))

        def calls() -> int:
            """Of statistics that each session of the database reports once a second."""
            threading.Event().wait(2)
            ((count,),) = scene.rows(
                """select sum(calls)::integer from pg_stat_user_functions
                    where funcname in ('accept_session', 'receive_from_session_batch')"""
            )
            return int(count)

        before = calls()
        assert before > 0
        assert calls() - before <= 8


def test_wrong_limits_are_refused(scene: Steps) -> None:
    with pytest.raises(InvalidArgumentError, match="max_messages_per_session must be 1 or more"):
        scene.make(lambda _: None, max_messages_per_session=0)
    with pytest.raises(InvalidArgumentError, match="session_idle_timeout must not be negative"):
        scene.make(lambda _: None, session_idle_timeout=timedelta(seconds=-1))
