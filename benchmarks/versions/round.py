"""A week: versions join, the database is migrated to each, days pass, and pods are rescheduled; then a verdict."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from multiprocessing import forkserver
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from typing import Any

import pgqueue
from benchmarks.chaos.evidence import Stuck
from benchmarks.chaos.history import Book, Outcome, read
from benchmarks.chaos.kinds.acting import Assignment, Setting
from benchmarks.chaos.nemesis import SEND, Nemesis
from benchmarks.chaos.next_version import make
from benchmarks.chaos.plan import Plan, Process
from benchmarks.chaos.processes import Member
from benchmarks.chaos.round import TICK, Result, Round, Watch
from benchmarks.versions import rules
from benchmarks.versions.kinds import EXPIRING, INSTALL, OURS, REPORTS
from benchmarks.versions.rules import QUIET, SCHEDULES, Migration, Pickup, Week
from pgqueue import Message
from pgqueue.schema import files
from pgqueue.testing import Database, ThrowawayServer

ROOT = Path(__file__).parents[2]
QUEUES = ("transaction", "process", "batches", "worker-threads", "worker-tasks", "stubborn")
#: These keep a history.
KEEPING = ("transaction", "worker-threads")
VERSIONS = (1, 2, 3)
#: The clock goes on by steps: three a day, and a third of the week for each version.
STEP, STEPS = timedelta(hours=8), 7
#: Seconds for which a version is there before the database is migrated to it, and for which a pickup is waited for.
EARLY, PATIENCE = 2.0, 60.0
#: Senders of a longer week send less, so that its records fit into memory.
LONG = 600.0

MIGRATE = """
import sys
from pgqueue import errors, schema

try:
    print(schema.migrate(sys.argv[1]))
except errors.PGQueueError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""

LISTENING = """
select count(*)
  from pgqueue.queue
 where name = any (%s)
   and exists (select from pgqueue.waiting_consumer where queue_id = id and waits_until > pgqueue.clock())"""
DONE = "select count(*) from chaos.effect where message = %s"
REPORTED = "select due from chaos.report"
KEPT = """
select queue, count(*) from pgqueue.history where queue = any (%s) and outcome = 'COMPLETED' group by queue"""


@dataclass(frozen=True)
class Release:
    """A version, and where its library is."""

    version: int
    library: Path

    @cached_property
    def server(self) -> ForkServer:
        """It imports the library of this version, once for all processes."""
        server = ForkServer()
        server.set_forkserver_preload(["benchmarks.chaos.processes", "benchmarks.versions.kinds"])
        return server

    def migrate(self, dsn: str) -> str | None:
        """Migrate the database by this version; return the error, if there is any."""
        command = [sys.executable, "-c", MIGRATE, dsn]
        environment = {**os.environ, "PYTHONPATH": str(self.library)}
        ended = subprocess.run(command, cwd="/", env=environment, check=False, capture_output=True, text=True)
        return ended.stderr.strip() if ended.returncode else None


def releases(directory: Path, *, breaking: bool = False) -> list[Release]:
    """This version and two after it; ``breaking`` has the next one drop a verb that this one calls."""
    two = make(directory, 2, movable=True, breaking=breaking)
    three = make(directory, 3, two, movable=True)
    return [Release(1, files.PACKAGE.parent), Release(2, two), Release(3, three)]


class Pod(Member):
    """A process of one version."""

    kinds = OURS

    def __init__(self, setting: Setting, plan: Process, release: Release) -> None:
        self.release = release
        super().__init__(setting, plan)

    def _start(self) -> None:
        """By the fork server of its version."""
        usual = forkserver.connect_to_new_process
        sys.path.insert(0, str(self.release.library))
        path = os.pathsep.join(map(str, (self.release.library, ROOT)))
        os.environ |= {
            "PYTHONPATH": path,
            "PYTHONSAFEPATH": "1",
        }  # else the folder where the server starts comes first
        forkserver.connect_to_new_process = self.release.server.connect_to_new_process
        try:
            super()._start()
        finally:
            forkserver.connect_to_new_process = usual
            del os.environ["PYTHONPATH"], os.environ["PYTHONSAFEPATH"]
            sys.path.remove(str(self.release.library))


@dataclass
class Phase:
    """From one migration to the next, in monotonic seconds and by the machine's clock."""

    schema: int
    began: float = field(default_factory=time.monotonic)
    began_at: float = field(default_factory=time.time)
    ended: float = float("inf")
    ended_at: float = float("inf")

    def end(self) -> None:
        self.ended, self.ended_at = time.monotonic(), time.time()


class Operator(Nemesis):
    """Migrates, moves the clock, and sends to those who listen."""

    def __init__(self, database: Database, server: ThrowawayServer, book: Book, members: Sequence[Member]) -> None:
        super().__init__(database, server, book, QUEUES, members)
        self.migrations: list[Migration] = []
        self.pickups: list[Pickup] = []

    def migrate(self, release: Release) -> None:
        began = time.monotonic()
        if error := release.migrate(self._database.direct):
            raise RuntimeError(error)
        self.migrations.append(Migration(release.version, began, time.monotonic()))
        self.counts["migration"] += 1

    def go_back(self, release: Release) -> None:
        """Have an earlier version migrate, which has to be refused."""
        with self._book.operation("migrate", f"version {release.version}", "all", doubt=False) as operation:
            if error := release.migrate(self._database.direct):
                operation.outcome = Outcome.FAIL
                operation.facts["error"] = error

    def pass_time(self, by: timedelta) -> None:
        with self._operation("clock", "all", doubt=True, by=by.total_seconds()):
            self._database.move_clock(by)
        self.counts["step"] += 1

    def await_listeners(self, versions: Sequence[int]) -> None:
        """Until all have subscribed, by the clock that was moved."""
        queues = [listening(version) for version in versions]
        with self._database.connect(autocommit=True) as connection:
            while connection.execute(LISTENING, [queues]).fetchone() != (len(queues),):
                time.sleep(TICK)

    def send_to_listener(self, version: int) -> None:
        message = f"probe-{next(self._numbers)}"
        with self._database.connect(autocommit=True) as connection:
            with self._operation("send", listening(version), ids=[message], doubt=True):
                connection.execute(SEND, [listening(version), message])
            sent, seconds = time.monotonic(), 0.0
            while connection.execute(DONE, [message]).fetchone() == (0,) and seconds < PATIENCE:
                time.sleep(0.005)
                seconds = time.monotonic() - sent
        picked_up = seconds if seconds < PATIENCE else None
        self.pickups.append(Pickup(message, version, self.migrations[-1], picked_up))


@dataclass
class WeekRound(Round):
    """Its plan has the processes of all versions, each of which joins before the migration to it."""

    releases: Sequence[Release] = field(kw_only=True)
    operator: Operator = field(init=False)
    phases: list[Phase] = field(init=False, default_factory=list)
    pods: list[Pod] = field(init=False, default_factory=list)
    week: Week = field(init=False)
    _setting: Setting = field(init=False)
    _lasted: list[Any] = field(init=False, default_factory=list)

    def _prepare(self) -> None:
        super()._prepare()
        with self.database.connect() as connection:
            connection.execute(INSTALL)
        with pgqueue.QueueClient(self.database.direct) as client:
            for queue in KEEPING:
                client.update_queue(queue, retain_history=timedelta(days=30))
            client.create_queue(EXPIRING, dead_lettering_on_message_expiration=True)
            for queue in (REPORTS, *map(listening, VERSIONS)):
                client.create_queue(queue, max_delivery_count=100)
            report = Message({"id": "report"})
            every, cron = SCHEDULES["hourly"], "0 2 * * *"
            client.create_schedule("hourly", queue=REPORTS, message=report, every=every, catch_up="all")
            client.create_schedule("nightly", queue=REPORTS, message=report, cron=cron, catch_up="all")
        self._lasted.append(self.database.clock.now())

    def _nemesis(self, book: Book, members: Sequence[Member]) -> Nemesis:
        self.operator = Operator(self.database, self.server, book, members)
        return self.operator

    @contextmanager
    def _members(self, setting: Setting) -> Iterator[list[Member]]:
        self._setting = setting
        try:
            self._join(self.releases[0])
            self._began = time.monotonic()
            yield self.pods  # type: ignore[misc]  # others join
        finally:
            for pod in self.pods:
                pod.kill()

    def _join(self, release: Release) -> None:
        prefix = f"version-{release.version}-"
        joining = [
            Pod(self._setting, process, release) for process in self.plan.processes if process.name.startswith(prefix)
        ]
        self.pods += joining
        while not all(pod.pulses for pod in joining):
            time.sleep(TICK)

    def _fire(self, nemesis: Nemesis) -> None:
        self.phases.append(Phase(1))
        self._pass_days()
        for release in self.releases[1:]:
            self._upgrade(release)
            self._pass_days()

    def _upgrade(self, release: Release) -> None:
        earlier = self.releases[: release.version - 1]
        self._join(release)
        self._work(EARLY)
        self.operator.await_listeners([each.version for each in earlier])
        self.phases[-1].end()
        self.phases.append(Phase(release.version))
        self.operator.migrate(release)
        self.operator.await_listeners([each.version for each in earlier])
        self._work(2 * QUIET)
        for each in earlier:
            self.operator.send_to_listener(each.version)
        for each in earlier:
            self.operator.go_back(each)
        for pod in self.pods:
            if pod.release in earlier:
                self._reschedule(pod)

    def _pass_days(self) -> None:
        """The last third of each day has a pod rescheduled."""
        for step in range(STEPS):
            self._work(self.plan.seconds / STEPS / len(self.releases))
            self.operator.pass_time(STEP)
            if step % 3 == 2:
                self._reschedule(random.Random(f"{self.plan.seed}-{self.operator.counts}").choice(self.pods))
        self._work(EARLY)

    def _reschedule(self, pod: Pod) -> None:
        """A listener stays, because it shows that it waits on."""
        if "listener" not in pod.plan.name:
            pod.replace()
            self.operator.counts["restart"] += 1

    def _work(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._show(f"schema {self.phases[-1].schema}", self.operator)
            time.sleep(min(left, 0.5))

    def _calm(self, nemesis: Nemesis, members: list[Member]) -> None:
        super()._calm(nemesis, members)
        with pgqueue.QueueClient(self.database.direct) as client:
            client.sweep()
            for schedule in SCHEDULES:
                client.pause_schedule(schedule)
            self._lasted.append(self.database.clock.now())
        self.phases[-1].end()
        self.operator.pass_time(timedelta(days=1))

    def _judge(self, nemesis: Nemesis, stuck: tuple[Stuck, ...]) -> Result:
        result = super()._judge(nemesis, stuck)
        began, ended = self._lasted
        self.week = Week(
            operations=read(self.books),
            migrations=self.operator.migrations,
            pickups=self.operator.pickups,
            evidence=result.evidence,
            reports=[due for (due,) in self._rows(REPORTED)],
            passed=ended - began,
            expiring=EXPIRING,
            logged=[line for log in self.books.glob("*.log") for line in log.read_text().splitlines()],
            kept=self._kept(result),
        )
        known = [each for each in result.violations if each.rule != "surprises"]  # rules.errors judges them
        violations = (*known, *rules.judge(self.week))
        (self.books / "violations.txt").write_text("\n\n".join(map(str, violations)))
        return replace(result, violations=violations)

    def _kept(self, result: Result) -> dict[str, tuple[int, int]]:
        sent = {message: send.operation.queue for message, send in result.deeds.sends.items()}
        queues = [sent[message] for message in result.evidence.effects if message in sent]
        kept = dict(self._rows(KEPT, list(KEEPING)))
        return {queue: (queues.count(queue), kept.get(queue, 0)) for queue in KEEPING}

    def _rows(self, query: str, *arguments: Any) -> list[Any]:
        with self.database.connect() as connection:
            return connection.execute(query.encode(), arguments).fetchall()


def listening(version: int) -> str:
    return f"listening-{version}"


def plan(seed: int, seconds: float) -> Plan:
    """The processes of all versions: each queue has its home in one of them, which alone empties it in the end."""
    chance = random.Random(seed)
    sender = "patient sender" if seconds > LONG else "sender"

    def actor(version: int, name: str, kind: str, queue: str) -> Assignment:
        return Assignment(f"version {version} {name} at {queue}", kind, queue, chance.getrandbits(32))

    def process(version: int, name: str, role: str, *actors: Assignment) -> Process:
        return Process(f"version-{version}-{name}", role, actors)

    def processes(version: int) -> Iterator[Process]:
        at_home = QUEUES[version - 1 :: len(VERSIONS)]
        homes = [actor(version, "home", queue, queue) for queue in at_home]
        guests = [actor(version, "visitor", chance.choice(QUEUES), queue) for queue in QUEUES if queue not in at_home]
        reports = actor(version, "reporter", "reports", REPORTS)
        is_last = version == VERSIONS[-1]
        yield process(version, "home", "home", *homes, *([reports] if is_last else []))
        yield process(version, "visitor", "visitor", *guests, *([] if is_last else [reports]))
        yield process(
            version,
            "sender",
            "sender",
            actor(version, "sender", sender, "any"),
            actor(version, "upkeep", "upkeep", "any"),
        )
        yield process(version, "listener", "home", actor(version, "listener", "listener", listening(version)))

    return Plan(
        seed=seed,
        seconds=seconds,
        faults=(),
        floods=(),
        mischief=frozenset(),
        processes=tuple(each for version in VERSIONS for each in processes(version)),
        queues=QUEUES,
    )


@dataclass(frozen=True)
class Played:
    """A week, and what came of it."""

    result: Result
    week: Week
    phases: Sequence[Phase]


def play(
    server: ThrowawayServer,
    database: Database,
    seed: int,
    seconds: float,
    directory: Path,
    *,
    breaking: bool = False,
    watch: Watch = lambda _: None,
) -> Played:
    """A week of so many seconds, besides joining and calming down; libraries and books go into the directory.

    One that is ``breaking`` ends with the first migration.
    """
    played = WeekRound(
        plan(seed, seconds),
        database,
        server,
        None,
        directory / "books",
        watch,
        releases=releases(directory, breaking=breaking)[: 2 if breaking else 3],
    )
    result = played.run()
    return Played(result, played.week, played.phases)
