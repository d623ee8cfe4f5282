"""The bounds of a soak of hours, its parts, and half a minute of it; ``make soak HOURS=8`` is the long one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.chaos.__main__ import MANY, arena
from benchmarks.soak import bounds, day, hours
from benchmarks.soak.day import SCHEDULES, Day
from benchmarks.soak.resources import Memory, Sample, ServerLog
from pgqueue.testing import Database
from tests.patience import eventually

CALM = [
    Sample(
        minutes=minute, rate=50, oldest=1, processes=500, threads=400, files=500, connections=200, backend=3,
        largest=7, settings=14, tables=50, dead_rows=5_000, pages=300, multixacts=0.2, log_lines=20, client_lines=200,
    )
    for minute in range(1, 121)
]  # fmt: skip


def changed(name: str, times: float, when: Callable[[float], bool]) -> list[Sample]:
    return [
        replace(sample, **{name: getattr(sample, name) * times}) if when(sample.minutes) else sample for sample in CALM
    ]


def test_constant_figures_are_within_their_bounds() -> None:
    assert list(bounds.excesses(CALM)) == []
    assert all(row.is_within for row in bounds.rows(CALM))


@pytest.mark.core
@pytest.mark.parametrize("name", bounds.BOUNDS)
def test_a_figure_that_stays_higher_is_out_of_bounds(name: str) -> None:
    [excess] = bounds.excesses(changed(name, 20, lambda minute: minute > 85))
    assert excess.startswith(bounds.BOUNDS[name].title)
    assert "at the end" in excess


@pytest.mark.parametrize("name", bounds.BOUNDS)
def test_a_figure_may_be_higher_while_a_snapshot_is_held_but_not_without_end(name: str) -> None:
    found = list(bounds.excesses(changed(name, 100, lambda minute: 60 < minute <= 75)))
    if name in ("tables", "dead_rows"):  # as much as the snapshot keeps
        assert found == []
    else:
        assert [excess.split(":")[0] for excess in found] == [bounds.BOUNDS[name].title]
    [bounded] = [row for row in bounds.rows(CALM) if row.title == bounds.BOUNDS[name].title]
    assert bounded.held_bound > bounded.bound


def test_a_figure_that_is_higher_only_at_the_start_or_for_a_moment_is_within_its_bound() -> None:
    assert list(bounds.excesses(changed("pages", 20, lambda minute: minute < 10 or minute in (50, 110)))) == []


@pytest.mark.parametrize(("when", "since"), [("while the snapshot was held", 61), ("after the snapshot", 80)])
def test_fewer_messages_a_second_are_out_of_bounds(when: str, since: float) -> None:
    [excess] = bounds.excesses(changed("rate", 0.5, lambda minute: since <= minute <= since + 35))
    assert excess == f"messages/s: 25.0 {when}; at least 40.0"


def test_the_table_and_the_picture_show_each_figure() -> None:
    table = bounds.table(changed("pages", 2, lambda minute: minute == 70))
    assert "| pages a message | 300 | 600 | 300 | 360 |" in table.splitlines()
    assert all(f"| {bound.title} |" in table for bound in bounds.BOUNDS.values())
    picture = bounds.picture(CALM)
    assert all(f">{bounds.BOUNDS[name].title}<" in picture for name in bounds.CURVES)


def test_the_server_log_counts_entries_and_the_memory_of_backends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "16:00 UTC [7] shop worker LOG:  logging memory contexts of PID 7\n"
        "16:00 UTC [7] shop worker LOG:  level: 1; GUCMemoryContext: 24576 total in 2 blocks; 9640 free; 14936 used\n"
        "16:00 UTC [8] shop worker ERROR:  canceling statement due to user request\n"
        "16:00 UTC [8] shop worker STATEMENT:  select 1\n"
        "16:00 UTC [7] shop worker LOG:  Grand total: 16519 bytes in 2 blocks; 6 free (8 chunks); 10295"
    )
    log = ServerLog(path)
    log.read()
    assert (log.lines, log.memory) == (1, {})
    with path.open("a") as file:
        file.write(" used\n")
    log.read()
    assert (log.lines, log.memory) == (1, {7: Memory(10295, 14936)})
    assert path.read_text() == ""


def test_due_times_between_two_moments() -> None:
    minutely, hourly, nightly = SCHEDULES
    midnight = datetime(2026, 11, 28, tzinfo=UTC)
    later = midnight + timedelta(hours=3, seconds=1)
    assert [each.due(midnight, later) for each in (minutely, hourly, nightly)] == [180, 3, 1]
    assert nightly.due(later, later + timedelta(hours=23)) == 0
    assert minutely.due(midnight - timedelta(seconds=1), midnight) == 1


def test_a_day_passes_and_each_due_time_sends_one_message(database: Database) -> None:
    passing = Day(database, seconds=1.44)
    for _ in range(100):
        database.move_clock(day.MINUTE)
    assert list(passing.end()) == []


def test_a_due_time_that_sends_nothing_is_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = Day(database, seconds=1.44)
    with database.connect(autocommit=True) as connection:
        connection.execute("select pgqueue.pause_schedule('hourly')")
        database.move_clock(day.HOUR)
        eventually(lambda: connection.execute(day.COUNT, ["minutely"]).fetchone() == (60,))
    monkeypatch.setattr(day, "PATIENCE", 0)
    assert list(passing.end()) == ["'hourly' was due 1 times, and sent 0 messages"]


@pytest.mark.timeout(600)
def test_half_a_minute_keeps_all_promises(tmp_path: Path) -> None:
    with arena(MANY) as place:
        played = hours.soak(place, 30, tmp_path / "books", seed=1, pace=4, every=2)
    assert played.broken == []
    assert len(played.samples) >= 8
    last = played.samples[-1]
    assert last.rate > 0
    assert last.largest > last.backend > 1
    assert last.settings > 1
    assert last.pages > 1
