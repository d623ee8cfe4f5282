"""A round of a disaster: load, the disaster, what the doctor finds, load again, calm, and a verdict."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg

import pgqueue
from benchmarks.chaos import evidence as evidences
from benchmarks.chaos.deeds import Deeds
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.history import Book, Operation, Outcome
from benchmarks.chaos.nemesis import Nemesis
from benchmarks.chaos.plan import Fault, Plan
from benchmarks.chaos.processes import Member
from benchmarks.chaos.round import Moment, Result, Round
from benchmarks.chaos.rules import Violation
from benchmarks.disasters import load
from benchmarks.disasters.cluster import Cluster, dsn
from pgqueue import Message
from pgqueue.doctor import examine
from pgqueue.errors import ConnectionLostError
from pgqueue.schema import migrate
from pgqueue.testing import Database

NAME = "shop"
#: So many messages wait in the first queue when the load begins, twice as many in the second, and so on.
BACKLOG = 20
#: In place of a check, when the doctor cannot connect.
UNREACHABLE = "unreachable"
#: Seconds of load before and after a disaster.
BEFORE, AFTER = 3.0, 3.0


class Disaster(ABC):
    """A disaster, and the servers that it happens to; the first of them is the primary when the load begins."""

    name: str
    fault: str
    #: The steps of a person, in words.
    person: str
    #: The checks of the doctor that have to find something when it is over, before a person has done anything.
    found: frozenset[str] = frozenset()
    #: SQLSTATEs that would be a surprise elsewhere.
    expected: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.servers = self.make()

    @abstractmethod
    def make(self) -> Sequence[Cluster]:
        """The servers, none created yet."""

    def start(self) -> None:
        """Create and start the first server."""
        self.servers[0].create()
        self.servers[0].start()

    @classmethod
    def can_happen(cls) -> bool:
        """Whether this machine and account allow it."""
        return True

    def dsn(self) -> str:
        """The DSN of the load."""
        return dsn(self.servers, NAME)

    def doctor_dsn(self) -> str:
        """The DSN of the doctor."""
        return self.dsn()

    def change(self, plan: Plan) -> Plan:
        """The plan of the load, as this disaster needs it."""
        return plan

    def prepare(self) -> None:  # noqa: B027 (most need nothing)
        """Called when the database has been migrated, before there is any load."""

    @abstractmethod
    def strike(self, fate: Fate) -> None:
        """Let it happen, and do what a person does until a server accepts writes again."""

    def tidy_up(self) -> None:  # noqa: B027
        """Called when the queues are empty, before the doctor's last look."""

    def remove(self) -> None:
        for server in self.servers:
            if server.directory.exists() and server.is_running():
                server.kill()
            server.remove()


@dataclass(frozen=True)
class Finding:
    """A finding of the doctor, and its command."""

    check: str
    what: str
    command: str


def findings(database: str) -> list[Finding]:
    return [
        Finding(result.check, found.what, found.mend)
        for result in examine(database, invariants=True).results
        for found in result.findings
    ]


class Fate(Nemesis):
    """Carries out the disaster of a round."""

    def __init__(self, disaster: Disaster, database: Database, book: Book, members: Sequence[Member]) -> None:
        super().__init__(database, disaster.servers[0], book, (), members)
        self._disaster = disaster
        self.had: Evidence | None = None
        self.found: list[Finding] = []

    def strike(self, fault: Fault) -> None:
        self._disaster.strike(self)
        self.counts[fault.name] += 1
        self.examine()
        self.work(AFTER)

    def work(self, seconds: float) -> None:
        """Let the load go on for a while."""
        time.sleep(seconds)

    def look(self, server: Cluster, database: str = NAME) -> None:
        """Write down what a new server has, before any client can reach it."""
        with closing(psycopg.connect(server.dsn(database))) as connection:
            connection.read_only = True
            self.had = evidences.collect(connection)

    def send(self, server: Cluster, database: str, count: int) -> None:
        """Send so many new messages, some to each queue."""
        with pgqueue.QueueClient(server.dsn(database)) as client:
            for place, queue in enumerate(load.QUEUES):
                messages = [f"nemesis-{next(self._numbers)}" for _ in range(place, count, len(load.QUEUES))]
                with self._operation("send", queue, doubt=True, ids=messages):
                    client.queue(queue).send_batch(Message({"id": each}) for each in messages)

    def move_clock(self, by: timedelta) -> None:
        """Move the clock of the database, and write that down."""
        with self._operation("clock", "all", doubt=True, by=by.total_seconds()):
            self._database.move_clock(by)

    def examine(self, server: str | None = None) -> None:
        """Note the doctor's findings while the disaster goes on."""
        try:
            self.found += findings(server or self._disaster.doctor_dsn())
        except ConnectionLostError as error:
            self.found.append(Finding(UNREACHABLE, str(error), ""))

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """The new server need not have what is committed from now on, until this ends."""
        with self._operation("forget", "all", doubt=True) as operation:
            began = time.time()
            yield
            operation.facts["locked_between"] = [began, time.time()]


@dataclass
class DisasterRound(Round):
    """Its plan has one fault, the disaster."""

    disaster: Disaster = field(kw_only=True)
    fate: Fate = field(init=False)

    def _nemesis(self, book: Book, members: list[Member]) -> Nemesis:
        self.fate = Fate(self.disaster, self.database, book, members)
        return self.fate

    def _prepare(self) -> None:
        super()._prepare()
        book = Book(self.books, "backlog")
        with pgqueue.QueueClient(self.database.direct) as client:
            for place, queue in enumerate(load.QUEUES, 1):
                messages = [f"{queue}-backlog-{number}" for number in range(BACKLOG * place)]
                with book.operation("send", "backlog", queue, doubt=True, ids=messages):
                    client.queue(queue).send_batch(Message({"id": each}) for each in messages)
        book.close()
        self.disaster.prepare()


@dataclass(frozen=True)
class Aftermath:
    """The result of a round, the doctor's findings when the disaster was over, and those that were left at the end."""

    disaster: Disaster
    result: Result
    violations: tuple[Violation, ...]
    never_there: int
    found: tuple[Finding, ...]
    left: tuple[Finding, ...]

    @property
    def lost(self) -> int:
        return sum("LOST" in each.text for each in self.violations)

    @property
    def doubled(self) -> int:
        return sum(each.rule == "exactly once" for each in self.violations)

    @property
    def others(self) -> int:
        return len(self.violations) - self.lost - self.doubled


def play(disaster: Disaster, seed: int, settle: str, books: Path) -> Aftermath:
    """A round of the disaster, on servers of its own."""
    try:
        disaster.start()
        disaster.servers[0].execute(f"create database {NAME}")
        migrate(disaster.servers[0].dsn(NAME))
        plan = disaster.change(load.plan(seed, disaster.name, settle, BEFORE))
        database = Database(disaster.dsn())
        played = DisasterRound(plan, database, disaster.servers[0], None, books, _look_away, disaster=disaster)
        result = played.run()
        had = played.fate.had
        violations = (*unexplained(result.violations, disaster.expected), *(kept(had, result.evidence) if had else ()))
        disaster.tidy_up()
        left = tuple(findings(disaster.doctor_dsn()))
        violations += tuple(silence(disaster.found, played.fate.found, left))
        return Aftermath(
            disaster, result, violations, never_there(result.deeds, had) if had else 0, tuple(played.fate.found), left
        )
    finally:
        disaster.remove()


def unexplained(violations: Sequence[Violation], expected: frozenset[str]) -> Iterator[Violation]:
    """The violations, without errors that this disaster explains."""
    for violation in violations:
        sqlstates = {each.facts.get("sqlstate") for each in violation.operations}
        if violation.rule != "surprises" or not sqlstates & expected:
            yield violation


def kept(had: Evidence, now: Evidence) -> Iterator[Violation]:
    """All that the new server had at its beginning is done, or there."""
    for message in {*had.effects, *had.by_message}:
        if not now.places(message):
            yield Violation("conservation", f"message {message} was on the new server, and is nowhere: LOST")
    for message, attempts in had.effects.items():
        if not set(attempts) <= set(now.effects.get(message, ())):
            yield Violation("conservation", f"the effect of message {message} is gone from the new server: LOST")


def never_there(deeds: Deeds, had: Evidence) -> int:
    """Messages that the old server acknowledged, and the new one never had."""
    return sum(_was_acknowledged(send.operation) and not had.places(message) for message, send in deeds.sends.items())


def _was_acknowledged(send: Operation) -> bool:
    """Whether it ended well in the time that may be forgotten, which makes its outcome unknown."""
    return "forgotten" in send.facts and "error" not in send.facts and send.outcome is Outcome.UNKNOWN


def silence(expected: frozenset[str], found: Sequence[Finding], left: Sequence[Finding]) -> Iterator[Violation]:
    """The doctor finds what it has to, and nothing is left at the end."""
    for check in expected - {each.check for each in found}:
        yield Violation("doctor", f"the doctor was silent: {check} has found nothing")
    for finding in left:
        yield Violation("doctor", f"at the end the doctor still finds {finding.check}: {finding.what}")


def _look_away(moment: Moment) -> None: ...
