"""The ledger's silence means something: pointed at a queue, or a client, that lacks a rule, it names the violation.

Each test plays the same story twice: on the engine as it is, in which the ledger finds nothing, and on a twin
with a piece of its text taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import pgqueue
from benchmarks.chaos import evidence
from benchmarks.chaos.deeds import tell
from benchmarks.chaos.draining import Drain
from benchmarks.chaos.evidence import EFFECT, Stuck
from benchmarks.chaos.history import Book, read
from benchmarks.chaos.kinds.acting import Actor, Assignment, Setting
from benchmarks.chaos.kinds.receivers import Bare, Receiver
from benchmarks.chaos.kinds.sessions import AlchemyInSessions, InSessions, TwoPhaseInSessions
from benchmarks.chaos.plan import LOCK_SECONDS
from benchmarks.chaos.rules import Case, judge
from pgqueue import Message, ReceivedMessage
from pgqueue.testing import Database
from tests.chaos.proxy import Cut, Proxy

FUNCTIONS = Path(__file__).parents[3] / "sql" / "functions"
QUEUE, STEPS = "q", "steps"
A_LOCK = timedelta(seconds=LOCK_SECONDS)
A_MINUTE = timedelta(minutes=1)


class Fire:
    """One queue, and actors of any kind, which act on command."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self._setting = Setting(database.direct, None, directory, frozenset(), (QUEUE, STEPS), frozenset({STEPS}))
        self._book = Book(directory, "everybody")
        self._hands = 0
        self._receivers: list[Receiver] = []
        self.client = pgqueue.QueueClient(database.direct)
        self.client.create_queue(QUEUE, lock_duration=A_LOCK)
        self.client.create_queue(STEPS, lock_duration=A_LOCK, requires_session=True)
        with database.connect() as connection:
            connection.execute(evidence.INSTALL)

    def actor(self, queue: str = QUEUE) -> Actor:
        self._hands += 1
        return Actor(self._setting, Assignment(f"actor {self._hands}", "any", queue, seed=self._hands), 0, self._book)

    def receiver(self, kind: type[Receiver] = Receiver) -> Receiver:
        self._receivers.append(kind(self.actor()))
        return self._receivers[-1]

    def send(self, count: int = 1) -> None:
        actor = self.actor()
        messages = actor.new_messages(count)
        with actor.operation("send", ids=messages):
            self.client.queue(QUEUE).send_batch(Message({"id": each}) for each in messages)

    def steps(self, kind: type[InSessions]) -> None:
        """Three messages of a session, received by this kind until there is nothing left."""
        actor = self.actor(STEPS)
        for message in actor.new_messages(3):
            with actor.operation("send", ids=[message], session="s"):
                self.client.queue(STEPS).send(Message({"id": message}, session_id="s"))
        receiver = kind(actor)
        self._receivers.append(receiver)
        receiver.step()
        assert self.client.queue(STEPS).peek() == []

    def pass_a_lock(self) -> None:
        self.database.move_clock(A_LOCK)

    def broken(self, *stuck: Stuck) -> set[str]:
        with self.database.connect() as connection:
            found = evidence.collect(connection, stuck)
        violations = judge(Case(tell(read(self._setting.directory)), found, LOCK_SECONDS))
        return {violation.rule for violation in violations}

    def close(self) -> None:
        for receiver in self._receivers:
            receiver.close()
        self.client.close()
        self._book.close()


@pytest.fixture
def fire(database: Database, tmp_path: Path) -> Iterator[Fire]:
    fire = Fire(database, tmp_path)
    yield fire
    fire.close()


def a_late_worker(fire: Fire) -> set[str]:
    """Completes a message that was delivered to another meanwhile."""
    late, other = fire.receiver(), fire.receiver()
    fire.send()
    [received] = late.receive()
    fire.pass_a_lock()
    other.receive()
    with suppress(pgqueue.LockLostError):
        late.complete(received)
    return fire.broken()


def two_at_once(fire: Fire) -> set[str]:
    """Two receive one after the other, within the time of a lock."""
    fire.send()
    fire.receiver().receive()
    fire.receiver().receive()
    return fire.broken()


def a_killed_visitor(fire: Fire) -> set[str]:
    """Holds a message that the cursor passes. Then the only receiver left has to get it."""
    home, visitor = fire.receiver(), fire.receiver()
    fire.send()
    for received in visitor.receive():
        received.renew_lock(lock_duration=A_MINUTE)  # however slow the machine is
    for _ in range(5):  # turns, a second apart, and traffic that the cursor follows
        fire.send(5)
        fire.database.move_clock(timedelta(seconds=0.6))
        home.step()
    return fire.broken(*Drain(fire.database, {QUEUE: Home(home)}, _nothing, patience=2).run())


def a_dead_letter(fire: Fire) -> set[str]:
    receiver = fire.receiver()
    fire.send()
    for received in receiver.receive():
        with receiver.actor.settling("dead_letter", [received]):
            received.dead_letter("Chaos")
    return fire.broken()


@dataclass
class Home:
    """Stands for the process of a receiver: each time it is looked at, it has lived on for a moment."""

    receiver: Receiver
    looks: int = 0

    @property
    def pulses(self) -> int:
        self.receiver.step()
        self.looks += 1
        return self.looks


def _nothing() -> None: ...


@dataclass(frozen=True)
class Twin:
    """A function, what of its text is replaced by what, the story that shows it, and the rules that see it."""

    function: str
    text: str
    replacement: str
    story: Callable[[Fire], set[str]]
    broken: set[str]


TWINS = {
    "no fence": Twin("_lock_proven", " and lock_token = token", "", a_late_worker, {"fence"}),
    "no lock": Twin(
        "receive", "and (locked_until is null or locked_until <= moment)", "", two_at_once, {"exclusivity"}
    ),
    "no cursor watch": Twin(
        "_watch_passed",
        "select queue_id, lane, position, due from passed\n",
        "select queue_id, lane, position, due from passed where false\n",
        a_killed_visitor,
        {"liveness", "invariants"},
    ),
    "no dead letters": Twin(
        "_move_to_dead_letters",
        "      from gone;\nend",
        "      from gone where false;\nend",
        a_dead_letter,
        {"conservation"},
    ),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
def test_a_queue_that_lacks_a_rule_is_seen(fire: Fire, twin: Twin) -> None:
    (file,) = FUNCTIONS.rglob(f"{twin.function}.sql")
    source = file.read_text()
    assert source.count(twin.text) >= 1
    with fire.database.connect() as connection:
        connection.execute(source.replace(twin.text, twin.replacement).encode())
    assert twin.story(fire) == twin.broken


@pytest.mark.parametrize("story", [twin.story for twin in TWINS.values()], ids=TWINS.keys())
def test_the_unchanged_queue_has_no_violations(fire: Fire, story: Callable[[Fire], set[str]]) -> None:
    assert story(fire) == set()


def test_a_message_that_an_engine_loses_is_seen(fire: Fire) -> None:
    fire.send(2)
    assert fire.broken() == set()
    with fire.database.connect() as connection:
        connection.execute("delete from pgqueue.message where position = (select max(position) from pgqueue.message)")
    assert fire.broken() == {"conservation"}


def test_a_message_whose_queue_is_gone_is_seen(fire: Fire) -> None:
    fire.send()
    with fire.database.connect() as connection:
        connection.execute("delete from pgqueue.queue")
    assert "conservation" in fire.broken()


class Careless(Receiver):
    """Commits the effect first, and completes in another transaction. It is killed in between, once."""

    was_killed = False

    def complete(self, received: ReceivedMessage) -> None:
        with self.actor.settling("complete", [received], effect=True) as operation:
            with psycopg.connect(self.actor.setting.dsn) as connection:
                connection.execute(EFFECT, [received.body["id"], operation.name])
            if not self.was_killed:
                self.was_killed = True
                operation.leave_open()
                return
            received.complete()


def test_a_client_that_completes_outside_of_its_transaction_is_seen(fire: Fire) -> None:
    careless = fire.receiver(Careless)
    fire.send()
    careless.step()
    fire.pass_a_lock()
    careless.step()
    assert fire.broken() == {"exactly once"}


@pytest.mark.parametrize(("guess", "broken"), [("received", {"truth"}), (None, set())])
def test_a_client_that_guesses_after_a_lost_commit_is_seen(
    fire: Fire, proxy: Proxy, guess: str | None, broken: set[str]
) -> None:
    receiver = fire.receiver()
    fire.send()
    [received] = receiver.receive()
    with (
        psycopg.connect(proxy.dsn) as connection,
        suppress(psycopg.OperationalError),
        receiver.actor.settling("complete", [received], effect=True) as operation,
    ):
        operation.facts["states"] = [guess]
        connection.execute(EFFECT, [received.body["id"], operation.name])
        received.complete(transaction=connection)
        proxy.cut(Cut.AFTER)
        operation.doubt = True
        connection.commit()
    assert fire.broken() == broken


class Denying(Bare):
    """Reports a completion as not done."""

    def complete(self, received: ReceivedMessage) -> None:
        with self.actor.settling("complete", [received]) as operation:
            received.complete()
            operation.facts["states"] = ["received"]


def test_a_client_that_denies_a_completion_is_seen(fire: Fire) -> None:
    denying = fire.receiver(Denying)
    fire.send()
    denying.step()
    assert fire.broken() == {"truth"}


def test_an_error_that_no_fault_explains_is_seen(fire: Fire) -> None:
    actor = fire.actor()
    with fire.database.connect() as connection, suppress(psycopg.Error), actor.operation("receive"):
        connection.execute("select from pgqueue.no_such_table")
    assert fire.broken() == {"surprises"}


class Skipping(InSessions):
    """Completes without an effect now and then."""

    def complete(self, received: ReceivedMessage) -> None:
        if received.body["id"].endswith("-1"):
            with self.actor.settling("complete", [received], effect=True):
                received.complete()
        else:
            super().complete(received)


class Doubling(InSessions):
    """Writes its effect twice."""

    def complete(self, received: ReceivedMessage) -> None:
        connection = self.connection()
        connection.execute(EFFECT, [received.body["id"], "another"])
        connection.commit()
        super().complete(received)


class Swapping(InSessions):
    """Completes what it has received in the reverse order."""

    def _receive_from(self, session: pgqueue.Session) -> Sequence[ReceivedMessage]:
        return super()._receive_from(session)[::-1]


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (InSessions, set()),
        (TwoPhaseInSessions, set()),
        (AlchemyInSessions, set()),
        (Skipping, {"conservation", "truth"}),
        (Doubling, {"exactly once", "state"}),
        (Swapping, {"order"}),
    ],
)
def test_a_receiver_of_sessions_that_breaks_a_promise_is_seen(
    fire: Fire, kind: type[InSessions], broken: set[str]
) -> None:
    fire.steps(kind)
    assert fire.broken() == broken
