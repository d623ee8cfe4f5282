"""One round: a database and processes of its own, faults for a while, calm, and a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pgqueue
from benchmarks.chaos import evidence as evidences
from benchmarks.chaos.deeds import Deeds, tell
from benchmarks.chaos.draining import PATIENCE, Drain
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.history import Book, Outcome, read
from benchmarks.chaos.kinds.acting import READY, REST, Setting
from benchmarks.chaos.nemesis import FAILURES, Nemesis
from benchmarks.chaos.pair import Pair
from benchmarks.chaos.plan import LOCK_SECONDS, SPARK, Plan
from benchmarks.chaos.processes import Member
from benchmarks.chaos.rules import Case, Violation, judge
from pgqueue.testing import Database, ThrowawayServer

TICK = 0.05
#: The same patience for all receivers, where a stream of Spark may have to start again.
WITH_SPARK = 6 * PATIENCE
#: For how long a sender may take to end what it has begun, before it is killed.
SENDERS_END = 30.0


@dataclass(frozen=True)
class Moment:
    """The progress of a round, for display."""

    phase: str
    seconds: float
    faults: Counter[str]
    database: Database


@dataclass(frozen=True)
class Result:
    """The result of a round."""

    plan: Plan
    deeds: Deeds
    evidence: Evidence
    violations: tuple[Violation, ...]
    faults: Counter[str]
    seconds: float
    books: Path

    @property
    def acknowledged(self) -> int:
        return sum(send.operation.outcome is Outcome.OK for send in self.deeds.sends.values())


Watch = Callable[[Moment], None]


@dataclass
class Round:
    """``pooled`` leads to the same database through PgBouncer, where there is one; ``pair`` is there for a failover;
    ``pace`` makes the pauses of senders so many times as long."""

    plan: Plan
    database: Database
    server: ThrowawayServer
    pooled: str | None
    books: Path
    watch: Watch
    pair: Pair | None = None
    pace: float = 1.0
    _began: float = field(default_factory=time.monotonic)

    def run(self) -> Result:
        self._prepare()
        plan = self.plan
        setting = Setting(
            self.database.direct, self.pooled, self.books, plan.mischief, plan.queues, plan.sessions, self.pace
        )
        with self._members(setting) as members, self._book() as book:
            nemesis = self._nemesis(book, members)
            self._fire(nemesis)
            self._calm(nemesis, members)
            homes = {actor.queue: each for each in members if each.plan.role == "home" for actor in each.plan.actors}
            sweeps = nemesis.counts["rewind"] > 0
            patience = WITH_SPARK if self.plan.has_spark else PATIENCE
            stuck = Drain(
                self.database, homes, lambda: self._show("draining", nemesis), patience=patience, sweeps=sweeps
            ).run()
        return self._judge(nemesis, stuck)

    def _prepare(self) -> None:
        self.books.mkdir(parents=True)
        with pgqueue.QueueClient(self.database.direct) as client:
            for queue in self.plan.queues:
                client.create_queue(
                    queue,
                    lock_duration=timedelta(seconds=LOCK_SECONDS),
                    max_delivery_count=100,
                    requires_session=queue in self.plan.sessions,
                )
        with self.database.connect() as connection:
            connection.execute(evidences.INSTALL)

    def _nemesis(self, book: Book, members: list[Member]) -> Nemesis:
        return Nemesis(self.database, self.server, book, self.plan.plain, members, self.pair)

    @contextmanager
    def _members(self, setting: Setting) -> Iterator[list[Member]]:
        members: list[Member] = []
        try:
            for process in sorted(self.plan.processes, key=lambda each: each.name != SPARK):
                members.append(Member(setting, process))
                self._await_spark(members[-1])
            while not all(member.pulses for member in members):
                time.sleep(TICK)
            self._began = time.monotonic()
            yield members
        finally:
            for member in members:
                member.kill()

    def _await_spark(self, member: Member) -> None:
        """Spark takes long to start: the others wait for it."""
        while member.plan.name == SPARK and not (self.books / READY).exists():
            assert member.pulses >= 0, "it is alive"
            time.sleep(TICK)

    @contextmanager
    def _book(self) -> Iterator[Book]:
        book = Book(self.books, "nemesis")
        try:
            yield book
        finally:
            book.close()

    def _fire(self, nemesis: Nemesis) -> None:
        faults = list(self.plan.faults)
        while (elapsed := time.monotonic() - self._began) < self.plan.seconds:
            nemesis.undo_what_is_due(time.monotonic())
            if faults and faults[0].at <= elapsed:
                nemesis.strike(faults.pop(0))
            self._show("under fire", nemesis)
            time.sleep(TICK)

    def _calm(self, nemesis: Nemesis, members: list[Member]) -> None:
        """Faults end, senders finish, and visitors are killed, wherever they are."""
        (self.books / REST).touch()
        self._show("calming", nemesis)
        nemesis.rest()
        for member in members:
            if member.plan.role == "visitor":
                member.kill()
        for member in members:
            if member.plan.role == "sender":
                member.finish(SENDERS_END)
        for queue in self.plan.floods:
            with suppress(*FAILURES):
                nemesis.flood(queue)

    def _judge(self, nemesis: Nemesis, stuck: tuple[evidences.Stuck, ...]) -> Result:
        with pgqueue.QueueClient(self.database.direct) as client:
            client.sweep()
        with self.database.connect() as connection:
            evidence = evidences.collect(connection, stuck)
        deeds = tell(read(self.books))
        violations = tuple(judge(Case(deeds, evidence, LOCK_SECONDS)))
        (self.books / "violations.txt").write_text("\n\n".join(map(str, violations)))
        return Result(
            plan=self.plan,
            deeds=deeds,
            evidence=evidence,
            violations=violations,
            faults=nemesis.counts,
            seconds=time.monotonic() - self._began,
            books=self.books,
        )

    def _show(self, phase: str, nemesis: Nemesis) -> None:
        self.watch(Moment(phase, time.monotonic() - self._began, nemesis.counts, self.database))
