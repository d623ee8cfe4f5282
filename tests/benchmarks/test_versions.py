"""A week of seconds with three versions, its control, and the rules on stories made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.chaos.__main__ import Arena, arena
from benchmarks.chaos.evidence import Evidence, Stored
from benchmarks.chaos.history import Operation, Outcome
from benchmarks.versions import report
from benchmarks.versions.round import VERSIONS, Played, play
from benchmarks.versions.rules import SCHEDULES, Migration, Pickup, Week, judge
from pgqueue.testing.database import created

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SECONDS = 6.0


@pytest.fixture(scope="module")
def place() -> Iterator[Arena]:
    with arena() as place:
        yield place


def a_week(place: Arena, directory: Path, *, breaking: bool = False) -> Played:
    with created(place.server.dsn(), place.template) as database:
        return play(place.server, database, 1, SECONDS, directory, breaking=breaking)


@pytest.mark.timeout(900)  # a slow machine takes long to migrate and to drain
def test_three_versions_side_by_side_lose_and_double_nothing(place: Arena, tmp_path: Path) -> None:
    played = a_week(place, tmp_path)
    assert played.result.violations == (), "\n".join(map(str, played.result.violations[:5]))
    rows = list(report.rows(played))
    assert [row.phase for row in rows] == ["schema 1", "schema 2", "schema 3"]
    assert all(row.messages and row.refused for row in rows)
    assert [pickup.version for pickup in played.week.pickups] == [1, 1, 2]
    assert played.week.passed > timedelta(days=7)


@pytest.mark.timeout(900)
def test_a_migration_that_drops_a_verb_of_old_clients_is_found(place: Arena, tmp_path: Path) -> None:
    found = a_week(place, tmp_path, breaking=True).result.violations
    assert {"errors", "liveness"} <= {each.rule for each in found}
    assert any("function pgqueue.complete(" in each.text for each in found)


def call(verb: str, version: int, began: float, error: str | None = None, **facts: object) -> Operation:
    """Of an error, its first word may be an SQLSTATE."""
    if error:
        sqlstate = error.partition(" ")[0] if error[:2] in ("40", "42", "PQ", "XX") else None
        facts |= {"error": error, "sqlstate": sqlstate}
    outcome = Outcome.FAIL if error else Outcome.OK
    actor = f"version {version} home at q.0"
    return Operation(f"{verb}-{version}-{began}", verb, actor, "q", began, began + 0.5, outcome, facts)


def missing(verb: str) -> str:
    return (
        f"SchemaVersionError: the pgqueue schema is missing or too old here (function pgqueue.{verb}(queue => text)"
        " does not exist): run `pgqueue migrate`, with --schema unless that is pgqueue, or client.migrate()"
    )


BACK = "SchemaVersionError: the database is at revision 'x'. A newer pgqueue migrated the database; install that one."
TO_2, TO_3 = Migration(2, 10, 12), Migration(3, 20, 22)
DUE = datetime(2030, 1, 1, 2, tzinfo=UTC)
OPERATIONS = (
    call("wait", 1, 1, ids=["one"]),
    call("send", 1, 13, ids=["one"]),
    call("receive", 2, 5, missing("receive")),
    call("receive", 1, 11, missing("_take_turn")),
    call("settle", 1, 11, "42804 structure of query does not match function result type"),
    call("migrate", 1, 13, BACK),
    call("receive", 3, 15, missing("receive")),
    call("settle", 2, 16, "PQ001 the lock is lost"),
    call("peek", 1, 24, missing("peek")),
    call("migrate", 2, 25, BACK),
)
GOOD = Week(
    operations=OPERATIONS,
    migrations=(TO_2, TO_3),
    pickups=(Pickup("one", 1, TO_2, 0.02),),
    evidence=Evidence({}, (Stored("late", "dead", "expiring"),)),
    reports=[
        f"{name}@{(DUE + n * apart).isoformat()}"
        for name, apart in SCHEDULES.items()
        for n in range(7 * timedelta(days=1) // apart)
    ],
    passed=timedelta(days=7),
    expiring="expiring",
    kept={"transaction": (5, 5)},
)


def broken(week: Week) -> set[str]:
    return {violation.rule for violation in judge(week)}


def with_call(operation: Operation) -> Week:
    return replace(GOOD, operations=(*OPERATIONS, operation))


def cancelled(queue: str) -> Operation:
    return replace(call("settle", 2, 5, "CancelledError"), queue=queue)


def without(number: int) -> Week:
    return replace(GOOD, operations=(*OPERATIONS[:number], *OPERATIONS[number + 1 :]))


def test_a_week_in_which_all_is_refused_by_name_is_good() -> None:
    assert judge(GOOD) == []


@pytest.mark.parametrize(
    "operation",
    [
        call("settle", 1, 13, missing("complete")),  # nothing that a next version may drop
        call("peek", 1, 14, missing("peek")),  # dropped by the migration after this one
        call("peek", 2, 24, missing("peek")),  # this version has to know better
        call("receive", 2, 14, missing("receive")),  # the migration is over
        call("receive", 1, 14, missing("_take_turn")),
        call("settle", 1, 14, "42804 structure of query does not match function result type"),
        call("settle", 1, 11, "40P01 deadlock detected"),
        call("peek", 1, 24, "PGQueueError: function pgqueue.peek(queue => text) does not exist"),
        call("peek", 1, 24, missing("peek").partition(": run")[0]),  # without the remedy
        call("surprise", 1, 11, "KeyError: 'note_2'"),
    ],
    ids=lambda operation: f"{operation.name}, {operation.facts['error'][:24]}",
)
def test_an_error_that_no_migration_explains(operation: Operation) -> None:
    assert broken(with_call(operation)) == {"errors"}


def test_a_worker_that_misses_what_no_version_has_dropped() -> None:
    assert broken(replace(GOOD, logged=[missing("_take_turn_2"), missing("receive")])) == set()
    assert broken(replace(GOOD, logged=[missing("complete_batch")])) == {"errors"}


def test_a_version_that_is_not_refused_before_its_migration() -> None:
    assert broken(without(2)) == {"refusals"}


def test_a_way_back_that_is_open_or_that_is_not_tried() -> None:
    assert broken(with_call(call("migrate", 2, 26))) == {"refusals"}
    assert broken(without(9)) == {"refusals"}


def test_a_dropped_verb_that_still_answers_or_is_not_called() -> None:
    assert broken(with_call(call("peek", 1, 26))) == {"refusals"}
    assert broken(without(8)) == {"refusals"}


def test_a_listener_that_is_not_woken_or_polls() -> None:
    assert broken(replace(GOOD, pickups=(Pickup("one", 1, TO_2, None),))) == {"listening"}
    assert broken(replace(GOOD, operations=(*OPERATIONS[1:], call("wait", 1, 12.8, ids=["one"])))) == {"listening"}


def test_a_due_time_that_is_left_out_or_done_twice() -> None:
    assert broken(replace(GOOD, reports=[*GOOD.reports[:50], *GOOD.reports[51:]])) == {"schedules"}
    assert broken(replace(GOOD, reports=[*GOOD.reports, GOOD.reports[50]])) == {"schedules"}
    assert broken(replace(GOOD, passed=timedelta(days=9))) == {"schedules"}


def test_a_worker_cancels_tasks_whose_locks_are_lost_and_nothing_else_is_cancelled() -> None:
    assert broken(with_call(cancelled("worker-tasks"))) == set()
    assert broken(with_call(cancelled("transaction"))) == {"errors"}


def test_a_message_that_outlives_its_time() -> None:
    waiting = Evidence({}, (Stored("late", "waiting", "expiring"), Stored("dead", "dead", "expiring")))
    assert broken(replace(GOOD, evidence=waiting)) == {"expiry"}
    assert broken(replace(GOOD, evidence=Evidence({}))) == {"expiry"}


def test_a_history_without_a_message_that_was_done() -> None:
    assert broken(replace(GOOD, kept={"transaction": (5, 4)})) == {"history"}


@pytest.mark.core
def test_the_page_has_a_row_for_every_phase() -> None:
    table = PAGE.read_text().partition(report.HEADING)[2].partition("\n<!--")[0]
    assert [line.split(" | ")[0] for line in table.strip().splitlines()] == [f"| schema {each}" for each in VERSIONS]
