"""Rules of a week: what a call may fail with, and what is due when days pass. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.history import Operation, Outcome
from benchmarks.chaos.next_version import DROPPED, RENAMED, SUCCESSOR
from benchmarks.chaos.rules import Violation

#: The version of an actor, by its name.
VERSION = re.compile(r"version (\d)\b")
#: A verb that a schema lacks, as an error names it; in plain SQL without the library's remedy.
HELPERS = "|".join(rf"{name}(?:_\d)?" for name in RENAMED)
MISSING = r"function pgqueue\.{}\(.*\) does not exist"
REMEDY = "run `pgqueue migrate`"
NEWER = "A newer pgqueue migrated the database"

#: That of a lock that is lost, as each lock is when the clock is moved by hours.
LOCK_LOST = "PQ001"
#: Of calls that meet a migration: other columns than a function had, a function that is gone.
OF_A_MIGRATION = ("42804", "XX000")
#: A listener has waited for so many seconds when a message is sent to it.
QUIET = 0.5

#: Schedules of a week: name, and how far apart their due times are.
SCHEDULES = {"hourly": timedelta(hours=1), "nightly": timedelta(days=1)}


@dataclass(frozen=True)
class Migration:
    """To the schema of a version, in monotonic seconds."""

    to: int
    began: float
    ended: float

    def overlaps(self, operation: Operation) -> bool:
        return operation.invoked <= self.ended and operation.ended >= self.began


@dataclass(frozen=True)
class Pickup:
    """A message to a listener of an earlier version after a migration: how long it took, or never."""

    message: str
    version: int
    after: Migration
    seconds: float | None


@dataclass(frozen=True)
class Week:
    """``reports`` are the messages of schedules that were done; ``passed`` is how long the schedules ran by the
    database's clock. ``logged`` is what the library has logged. ``kept`` has for each queue how many messages were
    done, and how many are in its history."""

    operations: Sequence[Operation]
    migrations: Sequence[Migration]
    pickups: Sequence[Pickup]
    evidence: Evidence
    reports: Sequence[str]
    passed: timedelta
    expiring: str
    logged: Sequence[str] = ()
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)


def version_of(operation: Operation) -> int | None:
    found = VERSION.match(operation.actor)
    return int(found[1]) if found else None


def is_refused_by_name(operation: Operation, migrations: Sequence[Migration]) -> bool:
    """Whether the error names the thing that the schema lacks, or the version that it is of, and the remedy."""
    error, version = str(operation.facts.get("error")), version_of(operation)
    if version is None or not error.startswith("SchemaVersionError: "):
        return False
    if operation.verb == "migrate":
        return NEWER in error
    newest = max((each.to for each in migrations if each.began <= operation.ended), default=1)
    settled = max((each.to for each in migrations if each.ended <= operation.invoked), default=1)
    is_early = version > settled and re.search(MISSING.format(r"\w+"), error)
    is_late = version == 1 and newest == 3 and re.search(MISSING.format(DROPPED), error)
    return bool(is_early or is_late) and REMEDY in error


def is_of_a_migration(operation: Operation, migrations: Sequence[Migration]) -> bool:
    """Whether the call met a migration, and no error but those that this explains came of it."""
    error, sqlstate = str(operation.facts.get("error")), operation.facts.get("sqlstate")
    if not any(each.overlaps(operation) for each in migrations):
        return False
    return sqlstate in OF_A_MIGRATION or bool(re.search(MISSING.format(f"({HELPERS})"), error))


def is_of_a_lost_lock(operation: Operation) -> bool:
    """Whether the lock had run out: a call is refused, and a worker cancels the task that holds it."""
    is_cancelled = operation.queue == "worker-tasks" and operation.facts.get("error") == "CancelledError"
    return is_cancelled or operation.facts.get("sqlstate") == LOCK_LOST


def errors(week: Week) -> Iterator[Violation]:
    """Each error is a refusal by name, one of a migration, or of a lock that ran out when the clock was moved."""
    for operation in week.operations:
        if "error" not in operation.facts or is_of_a_lost_lock(operation):
            continue
        if not is_refused_by_name(operation, week.migrations) and not is_of_a_migration(operation, week.migrations):
            yield Violation("errors", f"no migration explains this: {operation.facts['error']}", (operation,))


def logs(week: Week) -> Iterator[Violation]:
    """Workers, whose errors are in their logs, missed only what is gone, or what is not there yet."""
    for line in week.logged:
        missed = re.search(MISSING.format(r"(\w+)"), line)
        if missed and not re.fullmatch(f"{HELPERS}|receive|{SUCCESSOR}", missed[1]):
            yield Violation("errors", f"a worker missed what no version has dropped: {line}")


def too_early(week: Week) -> Iterator[Violation]:
    """A version that came before its migration was refused by name."""
    named = [each for each in week.operations if is_refused_by_name(each, week.migrations)]
    for migration in week.migrations:
        if not any(version_of(each) == migration.to and each.invoked < migration.began for each in named):
            yield Violation("refusals", f"version {migration.to} was not refused before the migration to it")


def ways_back(week: Week) -> Iterator[Violation]:
    """No earlier version migrates a newer schema."""
    tried = [each for each in week.operations if each.verb == "migrate"]
    for each in tried:
        if each.outcome is Outcome.OK:
            yield Violation("refusals", "an earlier version was let migrate a newer schema", (each,))
    for migration in week.migrations:
        if not any(each.invoked > migration.ended and version_of(each) == migration.to - 1 for each in tried):
            yield Violation("refusals", f"version {migration.to - 1} has not tried to migrate schema {migration.to}")


def dropped(week: Week) -> Iterator[Violation]:
    """The verb that version 3 has dropped is refused to version 1, which calls it."""
    for last in (each for each in week.migrations if each.to == 3):
        peeks = [each for each in week.operations if each.verb == "peek" and each.invoked > last.ended]
        late = [each for each in peeks if version_of(each) == 1]
        if not late:
            yield Violation("refusals", f"version 1 never called {DROPPED} on schema 3")
        for each in late:
            if each.outcome is Outcome.OK:
                yield Violation("refusals", f"{DROPPED} is gone, and was not refused", (each,))


def listening(week: Week) -> Iterator[Violation]:
    """A listener, which does not poll, gets the message that comes after a migration in the call by which it waits."""
    for pickup in week.pickups:
        calls = [
            each for each in week.operations if each.verb == "wait" and pickup.message in each.facts.get("ids", ())
        ]
        sent = [each for each in week.operations if each.verb == "send" and pickup.message in each.facts["ids"]]
        waited = [each for each in calls if any(each.invoked + QUIET < send.invoked for send in sent)]
        if pickup.seconds is None or not waited:
            how = "was not picked up" if pickup.seconds is None else "was picked up by a poll"
            yield Violation(
                "listening", f"message {pickup.message} to version {pickup.version} {how}", tuple(calls), pickup.message
            )


def schedules(week: Week) -> Iterator[Violation]:
    """Each due time of a schedule has one message, whichever version sent it."""
    for name, apart in SCHEDULES.items():
        due = sorted(
            datetime.fromisoformat(time)
            for each, _, time in (text.partition("@") for text in week.reports)
            if each == name
        )
        if any(later - earlier != apart for earlier, later in pairwise(due)):
            yield Violation("schedules", f"{name}: a due time was left out or done twice: {', '.join(map(str, due))}")
        if abs(len(due) - week.passed / apart) > 1:
            yield Violation("schedules", f"{name}: {len(due)} due times were done in {week.passed}")


def expiry(week: Week) -> Iterator[Violation]:
    """Messages whose time is over are dead letters when a sweep has run."""
    places = [each.place for each in week.evidence.stored if each.queue == week.expiring]
    if "waiting" in places or not places:
        yield Violation("expiry", f"{places.count('waiting')} expired messages wait, {places.count('dead')} are dead")


def history(week: Week) -> Iterator[Violation]:
    """The history has each message that was done."""
    for queue, (done, kept) in week.kept.items():
        if done != kept or not done:
            yield Violation("history", f"{done} messages of {queue} were done, and the history has {kept}")


RULES = (errors, logs, too_early, ways_back, dropped, listening, schedules, expiry, history)


def judge(week: Week) -> list[Violation]:
    return [violation for rule in RULES for violation in rule(week)]
